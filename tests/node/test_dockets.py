"""What a validator has still to do outlives its process, and is done once."""

from __future__ import annotations

import math
from pathlib import Path

from ledger.types import Kind, Outcome, Verdict
from node.dockets import Dockets, Finding

ONE, TWO = b"\1" * 32, b"\2" * 32
FINDING = Finding(
    verdict=Verdict(outcome=Outcome.REJECTED, reason="hash", evidence_hash=b"e" * 32), evidence="{}", seconds=1.5
)


def test_the_earliest_due_comes_first_and_none_twice() -> None:
    dockets = Dockets(None, "salt")
    dockets.add(TWO, Kind.APPEAL, 9)
    dockets.add(ONE, Kind.SUBMISSION, 5)
    dockets.add(ONE, Kind.SUBMISSION, 5)
    first = dockets.waiting(100)
    assert (first.docket_id, first.kind, first.block, first.tries, first.finding) == (ONE, Kind.SUBMISSION, 5, 0, None)
    dockets.look_again(ONE, 160)
    assert dockets.waiting(100).docket_id == TWO
    dockets.done(TWO)
    assert dockets.waiting(100) is None
    assert dockets.waiting(160).docket_id == ONE
    dockets.look_again(ONE, math.inf)
    assert dockets.waiting(10**12) is None


def test_a_finding_is_the_same_after_a_restart(tmp_path: Path) -> None:
    dockets = Dockets(tmp_path / "d.sqlite", "salt")
    dockets.add(ONE, Kind.SUBMISSION, 5)
    dockets.begin_try(ONE)
    dockets.close()
    dockets = Dockets(tmp_path / "d.sqlite", "salt")
    assert dockets.waiting(0).tries == 1
    dockets.found(ONE, FINDING)
    dockets.close()
    dockets = Dockets(tmp_path / "d.sqlite", "salt")
    entry = dockets.waiting(0)
    assert (entry.finding, entry.tries) == (FINDING, 0)
    assert dockets.committed() == []
    dockets.commit(ONE)
    assert dockets.waiting(0) is None
    assert dockets.committed() == [entry]
    dockets.add(ONE, Kind.SUBMISSION, 5)  # its event comes again
    dockets.drop_waiting(ONE)  # and others have decided it
    assert dockets.committed() == [entry], "what was committed to is revealed all the same"
    dockets.done(ONE)
    assert dockets.committed() == []


def test_what_others_decided_is_dropped() -> None:
    dockets = Dockets(None, "salt")
    dockets.add(ONE, Kind.SUBMISSION, 5)
    dockets.drop_waiting(ONE)
    dockets.drop_waiting(TWO)
    assert dockets.waiting(0) is None


def test_cases_are_ripe_after_their_last_second_and_appeals_move_it() -> None:
    dockets = Dockets(None, "salt")
    dockets.open_case(ONE, 50)
    assert dockets.ripe_cases(50) == []
    assert dockets.ripe_cases(51) == [ONE]
    dockets.open_case(ONE, 80)
    assert dockets.ripe_cases(51) == []
    dockets.close_case(ONE)
    assert dockets.ripe_cases(1000) == []


def test_another_deployment_is_another_world(tmp_path: Path) -> None:
    one, two = (Dockets(tmp_path / "d.sqlite", scope) for scope in ("one", "two"))
    one.add(ONE, Kind.SUBMISSION, 5)
    one.open_case(ONE, 5)
    assert two.waiting(0) is None
    assert two.ripe_cases(100) == []
