"""What an onlooker knows follows from ledger events and metrics alone."""

from __future__ import annotations

from ledger.events import (
    CaseClosed,
    CaseOpened,
    CheckpointAnnounced,
    Event,
    MemberEjected,
    MemberJoined,
    NodeRegistered,
    OutcomeReached,
    PoolCreated,
    StakeAdded,
    StakeBurnt,
    SubmissionRecorded,
    UnbondingStarted,
    VerdictRevealed,
    WorkCredited,
)
from ledger.types import CaseState, Kind, Outcome, Role, Terms
from node.observation import NodeView, Observation
from verify.rejection import SENTENCES

WORKER, VALIDATOR = "0x" + "11" * 20, "0x" + "22" * 20
TOKEN = 10**18
AT = {"block": 1, "log_index": 0}


def observe() -> Observation:
    views = (
        NodeView(name="worker-1", role="worker", address=WORKER, honest=True),
        NodeView(name="validator", role="validator", address=VALIDATOR, honest=True),
    )
    return Observation(wanted_steps=3, nodes={view.name: view for view in views})


def verdict(
    outcome: Outcome, reason: str = "", node: str = WORKER, kind: Kind = Kind.SUBMISSION
) -> tuple[Event, Event]:
    """One validator's answer, and the outcome that it decides."""
    said = {"outcome": outcome, "reason": reason, "evidence_hash": b"e" * 32, "docket_id": b"s" * 32}
    return (
        VerdictRevealed(**AT, validator=VALIDATOR, units=0, **said),
        OutcomeReached(**AT, pool_id=1, node=node, kind=kind, **said),
    )


def recorded(node: str = WORKER) -> SubmissionRecorded:
    return SubmissionRecorded(
        **AT, pool_id=1, submission_id=b"s" * 32, node=node, step=2, counter=4, file_hash=b"f" * 32
    )


def test_a_node_comes_in_and_works() -> None:
    seen = observe()
    worker = seen.nodes["worker-1"]
    seen.see_event(NodeRegistered(**AT, node=WORKER, staker=WORKER))
    seen.see_event(StakeAdded(**AT, node=WORKER, amount_wei=5 * TOKEN, stake_wei=5 * TOKEN))
    assert (worker.member, worker.stake_wei, worker.activity) == (False, 5 * TOKEN, "staked, waiting for an invite")
    seen.see_event(MemberJoined(**AT, pool_id=1, node=WORKER, role=Role.WORKER, nonce=0))
    assert worker.member
    seen.see_event(recorded())
    assert (worker.submissions, worker.activity) == (1, "submitted 4 for step 2")


def test_verdicts_are_counted_by_outcome_and_seen_at_the_judge() -> None:
    seen = observe()
    seen.see_event(recorded())
    for outcome in (Outcome.ACCEPTED, Outcome.ACCEPTED, Outcome.LATE):
        for event in verdict(outcome):
            seen.see_event(event)
    for event in verdict(Outcome.REJECTED, kind=Kind.APPEAL):
        seen.see_event(event)
    worker = seen.nodes["worker-1"]
    assert (worker.accepted, worker.rejected, worker.late) == (2, 0, 1), "an appeal is no submission"
    assert seen.nodes["validator"].activity == "rejected worker-1"


def test_a_verdict_against_the_outcome_is_a_dissent_whenever_it_is_shown() -> None:
    seen = observe()
    validator = seen.nodes["validator"]
    said = {"validator": VALIDATOR, "units": 0, "reason": "", "evidence_hash": b"e" * 32, "docket_id": b"s" * 32}
    reached = {"pool_id": 1, "node": WORKER, "kind": Kind.SUBMISSION, "reason": "", "evidence_hash": b"e" * 32}
    seen.see_event(recorded(), 10.0)
    seen.see_event(VerdictRevealed(**AT, **said, outcome=Outcome.REJECTED), 12.0)
    assert (validator.verdicts, validator.dissents) == (1, 0), "nothing is decided yet"
    seen.see_event(OutcomeReached(**AT, docket_id=b"s" * 32, outcome=Outcome.ACCEPTED, **reached), 14.5)
    assert (validator.verdicts, validator.dissents) == (1, 1)
    seen.see_event(VerdictRevealed(**AT, **said, outcome=Outcome.REJECTED), 15.0)
    assert (validator.verdicts, validator.dissents) == (2, 2), "one that was shown too late"
    assert (seen.latencies_s, seen.latency_p50_s) == ([4.5], 4.5)
    about = {"submission_id": (b"s" * 32).hex()}
    assert [seen.is_outcome(about | {"outcome": name}) for name in ("accepted", "rejected")] == [True, False]


def test_credit_and_stake_on_its_way_out_are_counted() -> None:
    seen = observe()
    worker = seen.nodes["worker-1"]
    seen.see_event(StakeAdded(**AT, node=WORKER, amount_wei=5 * TOKEN, stake_wei=5 * TOKEN))
    for units in (300, 200):
        seen.see_event(WorkCredited(**AT, pool_id=1, node=WORKER, units=units, amount_wei=units * 10))
    seen.see_event(UnbondingStarted(**AT, node=WORKER, amount_wei=2 * TOKEN, matures_unix_s=9))
    assert (worker.units, worker.credit_wei) == (500, 5000)
    assert (worker.stake_wei, worker.staked_wei, worker.burnt_wei) == (3 * TOKEN, 5 * TOKEN, 0)


def test_an_ejection_is_told_in_words_and_keeps_what_was_staked() -> None:
    seen = observe()
    worker = seen.nodes["worker-1"]
    seen.see_event(StakeAdded(**AT, node=WORKER, amount_wei=5 * TOKEN, stake_wei=5 * TOKEN))
    seen.see_event(MemberJoined(**AT, pool_id=1, node=WORKER, role=Role.WORKER, nonce=0))
    for event in verdict(Outcome.REJECTED, "proof-mismatch"):
        seen.see_event(event)
    case = {"pool_id": 1, "docket_id": b"s" * 32, "node": WORKER}
    seen.see_event(CaseOpened(**AT, **case, amount_wei=4 * TOKEN, until_unix_s=9))
    seen.see_event(MemberEjected(**AT, pool_id=1, node=WORKER, by=VALIDATOR, reason="proof-mismatch"))
    assert (worker.ejected, worker.member, worker.rejected, worker.open_cases) == (True, False, 1, 1)
    seen.see_event(StakeBurnt(**AT, node=WORKER, amount_wei=4 * TOKEN, stake_wei=TOKEN))
    seen.see_event(CaseClosed(**AT, **case, state=CaseState.BURNT, burnt_wei=4 * TOKEN))
    assert (worker.stake_wei, worker.staked_wei, worker.burnt_wei) == (TOKEN, 5 * TOKEN, 4 * TOKEN)
    assert worker.open_cases == 0
    assert worker.ejection_reason == SENTENCES["proof-mismatch"]
    seen.see_event(MemberJoined(**AT, pool_id=1, node=WORKER, role=Role.WORKER, nonce=256))
    assert (worker.ejected, worker.member) == (False, True)


def test_a_reason_that_is_no_known_code_is_shown_as_it_is() -> None:
    seen = observe()
    seen.see_event(MemberEjected(**AT, pool_id=1, node=WORKER, by=VALIDATOR, reason="rude"))
    assert seen.nodes["worker-1"].ejection_reason == "rude"


def test_events_of_others_change_nobody() -> None:
    seen = observe()
    stranger = "0x" + "33" * 20
    seen.see_event(MemberJoined(**AT, pool_id=1, node=stranger, role=Role.WORKER, nonce=0))
    seen.see_event(recorded(node=stranger))
    for event in verdict(Outcome.REJECTED, "reward", node=stranger):
        seen.see_event(event)
    terms = Terms(min_stake_wei=1, slash_wei=1)
    seen.see_event(PoolCreated(**AT, pool_id=1, domain_id=1, owner=WORKER, terms=terms))
    assert seen == observe()


def test_a_checkpoint_makes_the_newest_policy() -> None:
    seen = observe()
    seen.see_event(CheckpointAnnounced(**AT, pool_id=1, version=7, manifest_hash=b"m" * 32, epoch=1))
    assert seen.policy_version == 7


def of(fetched: int, whole: int, deltas: int) -> dict[str, int]:
    """The sizes in a line on a policy that came."""
    return {"fetched_bytes": fetched, "whole_bytes": whole, "deltas": deltas}


def test_metrics_give_speed_policy_steps_and_verdicts() -> None:
    seen = observe()
    for tokens in (600, 400):
        seen.see_metric("worker-1", {"kind": "generated", "step": 0, "counter": 1, "tokens": tokens, "seconds": 5.0})
    seen.see_metric("worker-1", {"kind": "policy", "version": 2, "fetch_s": 0.1, **of(2_700, 2_700, 0)})
    seen.see_metric("worker-1", {"kind": "policy", "version": 3, "fetch_s": 0.1, **of(20, 2_700, 1)})
    seen.see_metric("worker-1", {"kind": "engine", "seconds": 4.0, "compute_type": "float32"})
    seen.see_metric("validator", {"kind": "verdict", "node": WORKER, "outcome": "accepted"})
    seen.see_metric("validator", {"kind": "step", "step": 0, "reward": 0.5})
    worker = seen.nodes["worker-1"]
    assert (worker.tokens, worker.tokens_per_s, worker.policy_version) == (1000, 100.0, 3)
    assert (worker.fetched_bytes, worker.whole_bytes, worker.deltas) == (2_720, 5_400, 1)
    assert (len(seen.steps), len(seen.verdicts)) == (1, 1)
    assert seen.verdicts[0]["validator"] == "validator"


def test_speed_is_zero_before_anything_was_generated() -> None:
    assert observe().nodes["worker-1"].tokens_per_s == 0.0
