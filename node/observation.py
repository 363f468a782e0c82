"""What an onlooker knows of a run: built from ledger events and the nodes' metrics, shown by table and report. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median
from typing import Any

from ledger.events import (
    CaseClosed,
    CaseOpened,
    CheckpointAnnounced,
    Event,
    MemberEjected,
    MemberJoined,
    MemberLeft,
    NodeRegistered,
    OutcomeReached,
    StakeAdded,
    StakeBurnt,
    SubmissionRecorded,
    UnbondingStarted,
    VerdictRevealed,
    WorkCredited,
)
from ledger.types import CaseState, Kind, Outcome
from node.timeline import Timeline
from verify.rejection import SENTENCES


@dataclass(slots=True, kw_only=True)
class NodeView:
    """One participant, as seen so far."""

    name: str
    role: str
    address: str
    honest: bool
    """False for the demo's adversaries, who are known to the report and to nobody in the network."""
    activity: str = "starting"
    """In a few words: what it did last."""
    stake_wei: int = 0
    staked_wei: int = 0
    """The most it ever had at stake."""
    burnt_wei: int = 0
    open_cases: int = 0
    """Rejections whose stake is locked and not yet burnt."""
    units: int = 0
    """Units of its work that were verified."""
    credit_wei: int = 0
    """Earned for them."""
    member: bool = False
    ejected: bool = False
    ejection_reason: str = ""
    """Why, in words, for the last time; empty if it never was."""
    submissions: int = 0
    accepted: int = 0
    rejected: int = 0
    late: int = 0
    verdicts: int = 0
    """Of a validator, on submissions: those it revealed."""
    dissents: int = 0
    """Those of them that were against the outcome, and so changed nothing."""
    tokens: int = 0
    generating_s: float = 0.0
    policy_version: int = -1
    fetched_bytes: int = 0
    """Of policies, that came over the network."""
    whole_bytes: int = 0
    """Of those policies themselves; more, where they came as deltas."""
    deltas: int = 0

    @property
    def tokens_per_s(self) -> float:
        """Mean speed of its engine while it generated."""
        return self.tokens / self.generating_s if self.generating_s else 0.0


@dataclass(slots=True, kw_only=True)
class Observation:
    """A run so far."""

    wanted_steps: int
    nodes: dict[str, NodeView]
    """By name, in the order in which to show them."""
    steps: list[dict[str, Any]] = field(default_factory=list)
    """The trainer's metrics, one a trained step (see `node.trainer`)."""
    policy_version: int = -1
    """The newest announced on the ledger."""
    verdicts: list[dict[str, Any]] = field(default_factory=list)
    """The validators' metrics, one a verdict, each with its validator's name as `validator`."""
    warnings: list[dict[str, Any]] = field(default_factory=list)
    """What the trainer warned of: signs of a collapse, stages that were stuck (`told` says it in words)."""
    stuck: str = ""
    """The stage that is stuck now; empty where the run goes on."""
    timeline: Timeline = field(default_factory=Timeline, repr=False)
    """What every node spent its time on."""
    authors: dict[bytes, str] = field(default_factory=dict, repr=False)
    """Submission id → name of the node that recorded it."""
    outcomes: dict[bytes, Outcome] = field(default_factory=dict, repr=False)
    """Submission id → what became of it."""
    latencies_s: list[float] = field(default_factory=list, repr=False)
    """From seeing a submission on the ledger to seeing its outcome there, one an outcome."""
    _recorded_s: dict[bytes, float] = field(default_factory=dict, repr=False)
    _said: dict[bytes, dict[str, Outcome]] = field(default_factory=dict, repr=False)
    """Submission id → validator's address → its answer."""

    @property
    def latency_p50_s(self) -> float | None:
        """The median of `latencies_s`; None without any."""
        return median(self.latencies_s) if self.latencies_s else None

    def is_outcome(self, verdict: dict[str, Any]) -> bool:
        """Whether a validator's verdict (of `verdicts`) is what became of the submission."""
        outcome = self.outcomes.get(bytes.fromhex(verdict["submission_id"]))
        return outcome is not None and outcome.name.lower() == verdict["outcome"]

    def see_event(self, event: Event, at_s: float = 0.0) -> None:
        """Take in one ledger event, seen at second `at_s` of a steady clock."""
        match event:
            case CheckpointAnnounced():
                self.policy_version = event.version
            case VerdictRevealed():
                self._judge_said(event)
            case OutcomeReached(kind=Kind.SUBMISSION):
                self._decided(event.docket_id, event.outcome, at_s)
        view = self._by_address(getattr(event, "node", ""))
        if view is None:
            return
        match event:
            case StakeAdded():
                view.stake_wei = event.stake_wei
                view.staked_wei = max(view.staked_wei, event.stake_wei)
            case StakeBurnt():
                view.stake_wei = event.stake_wei
                view.burnt_wei += event.amount_wei
            case UnbondingStarted():
                view.stake_wei -= event.amount_wei
            case WorkCredited():
                view.units += event.units
                view.credit_wei += event.amount_wei
            case NodeRegistered():
                view.activity = "staked, waiting for an invite"
            case MemberJoined():
                view.member, view.ejected, view.activity = True, False, "joined"
            case MemberLeft():
                view.member, view.activity = False, "left"
            case MemberEjected():
                view.member, view.ejected, view.activity = False, True, "ejected"
                view.ejection_reason = SENTENCES.get(event.reason, event.reason)
            case SubmissionRecorded():
                view.submissions += 1
                self.authors[event.submission_id] = view.name
                self._recorded_s[event.submission_id] = at_s
                view.activity = f"submitted {event.counter} for step {event.step}"
            case OutcomeReached(kind=Kind.SUBMISSION):
                match event.outcome:
                    case Outcome.ACCEPTED:
                        view.accepted += 1
                    case Outcome.REJECTED:
                        view.rejected += 1
                    case Outcome.LATE:
                        view.late += 1
            case CaseOpened():
                view.open_cases += 1
            case CaseClosed():
                view.open_cases -= 1
                if event.state is CaseState.OVERTURNED:
                    view.activity = "appealed with success"

    def see_metric(self, name: str, metric: dict[str, Any]) -> None:
        """Take in one line of node `name`'s metrics."""
        view = self.nodes[name]
        match metric["kind"]:
            case "step":
                self.steps.append(metric)
                view.activity = f"trained step {metric['step']}"
            case "warning" | "stuck" | "collapse":
                self.warnings.append(metric)
                self.stuck = metric["stage"] if metric["kind"] == "stuck" else self.stuck
            case "unstuck":
                self.stuck = ""
            case "span":
                self.timeline.see(name, view.role, metric)
            case "verdict":
                self.verdicts.append(metric | {"validator": name})
            case "generated":
                view.tokens += metric["tokens"]
                view.generating_s += metric["seconds"]
                view.activity = f"generated {metric['counter']} for step {metric['step']}"
            case "received":
                view.activity = "took a submission"
            case "policy":
                view.policy_version = max(view.policy_version, metric["version"])
                view.fetched_bytes += metric["fetched_bytes"]
                view.whole_bytes += metric["whole_bytes"]
                view.deltas += metric["deltas"]
            case "swap":
                view.policy_version = max(view.policy_version, metric["version"])

    def _judge_said(self, event: VerdictRevealed) -> None:
        judge, author = self._by_address(event.validator), self.authors.get(event.docket_id)
        if judge is None or author is None:
            return
        judge.activity = f"{event.outcome.name.lower()} {author}"
        judge.verdicts += 1
        self._said.setdefault(event.docket_id, {})[event.validator] = event.outcome
        final = self.outcomes.get(event.docket_id)
        judge.dissents += final is not None and final is not event.outcome

    def _decided(self, submission_id: bytes, outcome: Outcome, at_s: float) -> None:
        if submission_id not in self.authors:
            return
        self.outcomes[submission_id] = outcome
        for address, said in self._said.get(submission_id, {}).items():
            judge = self._by_address(address)
            if judge is not None:
                judge.dissents += said is not outcome
        self.latencies_s.append(at_s - self._recorded_s[submission_id])

    def _by_address(self, address: str) -> NodeView | None:
        return next((view for view in self.nodes.values() if view.address == address), None)
