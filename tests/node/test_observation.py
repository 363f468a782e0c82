"""What an onlooker knows follows from ledger events and metrics alone."""

from __future__ import annotations

from ledger.types import (
    CheckpointAnnounced,
    MemberEjected,
    MemberJoined,
    NodeRegistered,
    Outcome,
    PoolCreated,
    Role,
    StakeAdded,
    StakeSlashed,
    SubmissionRecorded,
    VerdictGiven,
)
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


def verdict(outcome: Outcome, reason: str = "", node: str = WORKER) -> VerdictGiven:
    return VerdictGiven(
        **AT, pool_id=1, submission_id=b"s" * 32, node=node, validator=VALIDATOR, outcome=outcome, reason=reason,
        evidence_hash=b"e" * 32,
    )  # fmt: skip


def test_a_node_comes_in_and_works() -> None:
    seen = observe()
    worker = seen.nodes["worker-1"]
    seen.see_event(NodeRegistered(**AT, node=WORKER))
    seen.see_event(StakeAdded(**AT, node=WORKER, amount_wei=5 * TOKEN, stake_wei=5 * TOKEN))
    assert (worker.member, worker.stake_wei, worker.activity) == (False, 5 * TOKEN, "staked, waiting for an invite")
    seen.see_event(MemberJoined(**AT, pool_id=1, node=WORKER, role=Role.WORKER, nonce=0))
    assert worker.member
    seen.see_event(
        SubmissionRecorded(
            **AT, pool_id=1, submission_id=b"s" * 32, node=WORKER, step=2, counter=4, file_hash=b"f" * 32
        )
    )
    assert (worker.submissions, worker.activity) == (1, "submitted 4 for step 2")


def test_verdicts_are_counted_by_outcome_and_seen_at_the_judge() -> None:
    seen = observe()
    for outcome in (Outcome.ACCEPTED, Outcome.ACCEPTED, Outcome.LATE):
        seen.see_event(verdict(outcome))
    worker = seen.nodes["worker-1"]
    assert (worker.accepted, worker.rejected, worker.late) == (2, 0, 1)
    assert seen.nodes["validator"].activity == "late worker-1"


def test_an_ejection_is_told_in_words_and_keeps_what_was_staked() -> None:
    seen = observe()
    worker = seen.nodes["worker-1"]
    seen.see_event(StakeAdded(**AT, node=WORKER, amount_wei=5 * TOKEN, stake_wei=5 * TOKEN))
    seen.see_event(MemberJoined(**AT, pool_id=1, node=WORKER, role=Role.WORKER, nonce=0))
    seen.see_event(verdict(Outcome.REJECTED, "proof-mismatch"))
    seen.see_event(MemberEjected(**AT, pool_id=1, node=WORKER, by=VALIDATOR, reason="proof-mismatch"))
    seen.see_event(StakeSlashed(**AT, node=WORKER, amount_wei=4 * TOKEN, stake_wei=TOKEN))
    assert (worker.ejected, worker.member, worker.rejected) == (True, False, 1)
    assert (worker.stake_wei, worker.staked_wei) == (TOKEN, 5 * TOKEN)
    assert worker.ejection_reason == SENTENCES["proof-mismatch"]


def test_a_reason_that_is_no_known_code_is_shown_as_it_is() -> None:
    seen = observe()
    seen.see_event(MemberEjected(**AT, pool_id=1, node=WORKER, by=VALIDATOR, reason="rude"))
    assert seen.nodes["worker-1"].ejection_reason == "rude"


def test_events_of_others_change_nobody() -> None:
    seen = observe()
    stranger = "0x" + "33" * 20
    seen.see_event(MemberJoined(**AT, pool_id=1, node=stranger, role=Role.WORKER, nonce=0))
    seen.see_event(verdict(Outcome.REJECTED, "reward", node=stranger))
    seen.see_event(
        PoolCreated(**AT, pool_id=1, domain_id=1, owner=WORKER, manager=WORKER, min_stake_wei=1, slash_wei=1)
    )
    assert seen == observe()


def test_a_checkpoint_makes_the_newest_policy() -> None:
    seen = observe()
    seen.see_event(CheckpointAnnounced(**AT, pool_id=1, version=7, manifest_hash=b"m" * 32))
    assert seen.policy_version == 7


def test_metrics_give_speed_policy_steps_and_verdicts() -> None:
    seen = observe()
    for tokens in (600, 400):
        seen.see_metric("worker-1", {"kind": "generated", "step": 0, "counter": 1, "tokens": tokens, "seconds": 5.0})
    seen.see_metric("worker-1", {"kind": "policy", "version": 3, "fetch_s": 0.1})
    seen.see_metric("worker-1", {"kind": "engine", "seconds": 4.0, "compute_type": "float32"})
    seen.see_metric("validator", {"kind": "verdict", "node": WORKER, "outcome": "accepted"})
    seen.see_metric("validator", {"kind": "step", "step": 0, "reward": 0.5})
    worker = seen.nodes["worker-1"]
    assert (worker.tokens, worker.tokens_per_s, worker.policy_version) == (1000, 100.0, 3)
    assert (len(seen.steps), len(seen.verdicts)) == (1, 1)


def test_speed_is_zero_before_anything_was_generated() -> None:
    assert observe().nodes["worker-1"].tokens_per_s == 0.0
