"""What an onlooker knows of a run: built from ledger events and the nodes' metrics, shown by table and report. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
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
from verify.rejection import SENTENCES


@dataclass(slots=True, kw_only=True)
class NodeView:
    """One participant, as seen so far."""

    name: str
    role: str
    address: str
    honest: bool
    """False for the demo's cheat, which is known to the report and to nobody in the network."""
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
    tokens: int = 0
    generating_s: float = 0.0
    policy_version: int = -1

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
    """The validators' metrics, one a verdict."""
    authors: dict[bytes, str] = field(default_factory=dict, repr=False)
    """Submission id → name of the node that recorded it."""

    def see_event(self, event: Event) -> None:
        """Take in one ledger event."""
        match event:
            case CheckpointAnnounced():
                self.policy_version = event.version
            case VerdictRevealed():
                self._judge_said(event)
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
            case "verdict":
                self.verdicts.append(metric)
            case "generated":
                view.tokens += metric["tokens"]
                view.generating_s += metric["seconds"]
                view.activity = f"generated {metric['counter']} for step {metric['step']}"
            case "received":
                view.activity = "took a submission"
            case "policy" | "swap":
                view.policy_version = max(view.policy_version, metric["version"])

    def _judge_said(self, event: VerdictRevealed) -> None:
        judge, author = self._by_address(event.validator), self.authors.get(event.docket_id)
        if judge is not None and author is not None:
            judge.activity = f"{event.outcome.name.lower()} {author}"

    def _by_address(self, address: str) -> NodeView | None:
        return next((view for view in self.nodes.values() if view.address == address), None)
