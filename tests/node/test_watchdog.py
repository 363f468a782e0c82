"""Which stage is stuck, when it is told, and that a run which goes on is left in peace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ledger.events import OutcomeReached, SubmissionRecorded
from ledger.types import Kind, Outcome
from node.batches import Batches
from node.metrics import MetricsLog, MetricsTail
from node.spans import Activity
from node.stall import FIRST_S, FIXES, LEAST_S, MOST_S, MULTIPLE, Moves, Stage, judge, patience_s, usual_of
from node.watchdog import Watchdog
from tests.node.test_batches import fill

WAITING = Activity.WAITING_FOR_ROLLOUTS


@pytest.mark.parametrize(
    ("seen", "stage"),
    [
        ({}, Stage.NO_SUBMISSIONS),
        ({"pending": 3}, Stage.NO_VERDICTS),
        ({"pending": 3, "rejected": 1}, Stage.ALL_REJECTED),
        ({"rejected": 1, "late": 2}, Stage.ALL_LATE),
        ({"accepted": 1, "rejected": 5}, Stage.UNREAD),
        ({"accepted": 2, "read_groups": 8, "rejected": 5, "pending": 1}, Stage.NO_SIGNAL),
        ({"phase": Activity.TRAINING, "pending": 3}, Stage.TRAINING),
        ({"phase": Activity.PUBLISHING, "accepted": 3}, Stage.PUBLISHING),
    ],
)
def test_what_is_missing_tells_the_stage(seen: dict[str, Any], stage: Stage) -> None:
    moves = {"phase": WAITING, "step": 4} | seen
    stall = judge(Moves(**moves, quiet_s=1000.0), 20.0)
    assert stall is not None
    assert stall.stage is stage
    assert stall.told == f"step 4 is stuck for 1000 s (usual are 20 s): {stage}; {FIXES[stage]}"
    assert judge(Moves(**moves, quiet_s=MULTIPLE * 20 - 1), 20.0) is None


def test_every_stage_has_its_fix() -> None:
    assert set(FIXES) == set(Stage)


def test_patience_is_a_multiple_of_the_usual_within_bounds() -> None:
    assert [patience_s(usual) for usual in (None, 0.1, 60.0, 1e6)] == [FIRST_S, LEAST_S, MULTIPLE * 60, MOST_S]
    assert usual_of([]) is None
    assert usual_of([10.0, 12.0, 900.0]) == 12.0, "one stall does not make the next one usual"


def recorded(step: int, name: bytes, pool_id: int = 1) -> SubmissionRecorded:
    return SubmissionRecorded(
        block=1, log_index=0, pool_id=pool_id, submission_id=name, node="0x", step=step, counter=0, file_hash=b"f"
    )


def decided(name: bytes, outcome: Outcome, kind: Kind = Kind.SUBMISSION, pool_id: int = 1) -> OutcomeReached:
    return OutcomeReached(
        block=1, log_index=0, pool_id=pool_id, docket_id=name, node="0x", kind=kind, outcome=outcome, reason="",
        evidence_hash=b"",
    )  # fmt: skip


class Stand:
    """A watchdog over batches of 4 groups, on a clock of its own."""

    def __init__(self, folder: Path) -> None:
        self.now_s = 0.0
        self.batches = Batches(first_step=0, wanted=4)
        self._tail = MetricsTail(folder / "m.jsonl")
        metrics = MetricsLog(folder / "m.jsonl", now_s=lambda: self.now_s)
        self.dog = Watchdog(self.batches, metrics, pool_id=1, now_s=lambda: self.now_s)

    def told(self) -> list[tuple[str, str]]:
        """Kind and stage of what was written since the last look."""
        return [(line["kind"], line["stage"]) for line in self._tail.read() if line["kind"] != "span"]

    def run(self, seconds: float) -> list[tuple[str, str]]:
        """Look every five seconds for a while; what was told meanwhile."""
        for _ in range(int(seconds // 5)):
            self.now_s += 5
            self.dog.look()
        return self.told()


@pytest.fixture
def stand(tmp_path: Path) -> Stand:
    return Stand(tmp_path)


def test_a_stall_is_told_once_then_after_twice_the_time_and_when_it_is_over(stand: Stand) -> None:
    with stand.dog.phase(WAITING, 0):
        assert stand.run(FIRST_S - 5) == []
        assert stand.run(FIRST_S) == [("stuck", "no submissions")]
        assert stand.run(30) == [("stuck", "no submissions")], "twice as long"
        fill(stand.batches, 0, "a")
        assert stand.run(5) == [("unstuck", "no submissions")]
        assert stand.run(FIRST_S) == []
    assert stand.run(MOST_S) == [], "between two phases nobody waits for anything"


def test_the_way_of_a_rollout_is_followed_stage_by_stage(stand: Stand) -> None:
    stand.dog.see(recorded(0, b"of another pool", pool_id=2))
    with stand.dog.phase(WAITING, 0):
        assert stand.run(FIRST_S) == [("stuck", "no submissions")]
        for name in (b"a", b"b", b"c"):
            stand.dog.see(recorded(0, name))
        assert stand.run(5) == [("stuck", "submissions without verdicts")]
        stand.dog.see(decided(b"a", Outcome.REJECTED))
        assert stand.run(5) == [("stuck", "every submission is rejected")]
        stand.dog.see(decided(b"b", Outcome.ACCEPTED))
        assert stand.run(5) == [("stuck", "accepted submissions cannot be read")]
        fill(stand.batches, 0, "b", useful=False)
        assert stand.run(5) == [("stuck", "accepted groups without signal")]
        fill(stand.batches, 0, "c")
        assert stand.run(5) == [("unstuck", "accepted groups without signal")]


def test_what_is_of_no_use_for_the_step_counts_for_nothing(stand: Stand) -> None:
    stand.dog.see(recorded(2, b"old"))
    with stand.dog.phase(WAITING, 3):
        stand.dog.see(recorded(2, b"older"))
        stand.dog.see(recorded(4, b"ahead"))
        for name in (b"old", b"older"):
            stand.dog.see(decided(name, Outcome.LATE))
        stand.dog.see(decided(b"ahead", Outcome.REJECTED, kind=Kind.APPEAL))
        stand.dog.see(decided(b"ahead", Outcome.REJECTED, pool_id=2))
        assert stand.run(FIRST_S) == [("stuck", "submissions without verdicts")]


def test_patience_follows_what_was_measured(stand: Stand) -> None:
    for step in range(3):
        with stand.dog.phase(Activity.TRAINING, step):
            stand.now_s += 100
    with stand.dog.phase(Activity.TRAINING, 3):
        assert stand.run(MULTIPLE * 100 - 5) == []
        assert stand.run(5) == [("stuck", "the training process is silent")]
    assert stand.told() == [("unstuck", "the training process is silent")]
    with stand.dog.phase(WAITING, 3):
        assert stand.run(FIRST_S - 5) == [], "of another phase nothing was measured yet"


def test_a_batch_that_was_full_beforehand_says_nothing_about_waiting(stand: Stand) -> None:
    for name in "abcd":
        fill(stand.batches, 0, name)
    with stand.dog.phase(WAITING, 0):
        stand.now_s += 0.01
    with stand.dog.phase(WAITING, 1):
        assert stand.run(FIRST_S - 5) == []


def test_a_slow_but_steady_run_is_left_in_peace(stand: Stand) -> None:
    for step in range(4):
        with stand.dog.phase(WAITING, step):
            for name in "abcd":
                assert stand.run(250) == []
                fill(stand.batches, step, name)
        with stand.dog.phase(Activity.TRAINING, step):
            assert stand.run(280) == []


def test_a_fault_ends_the_phase(stand: Stand) -> None:
    with pytest.raises(ZeroDivisionError), stand.dog.phase(Activity.TRAINING, 0):
        raise ZeroDivisionError
    assert stand.run(MOST_S) == []
