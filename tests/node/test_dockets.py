"""What a validator has still to do outlives its process, and is done once."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import pytest

from ledger.types import Kind, Outcome, Verdict
from node import dockets as module
from node.dockets import Dockets, Finding

ONE, TWO, THREE = b"\1" * 32, b"\2" * 32, b"\3" * 32
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


def test_what_others_have_shown_is_known_while_it_waits_and_wakes_who_stands_by() -> None:
    dockets, units = Dockets(None, "salt"), 2**128 - 1
    accepted, rejected = Verdict(outcome=Outcome.ACCEPTED, units=units), Verdict(outcome=Outcome.REJECTED)
    dockets.hear(ONE, "0xA", accepted)
    assert dockets.shown(ONE) == {}, "of a docket that is in no row"
    dockets.add(ONE, Kind.SUBMISSION, 5)
    dockets.look_again(ONE, 10**9)
    dockets.hear(ONE, "0xA", accepted)
    dockets.hear(ONE, "0xA", rejected)
    dockets.hear(ONE, "0xB", rejected)
    assert dockets.shown(ONE) == {"0xA": f"accepted {units}", "0xB": "rejected 0"}
    assert dockets.waiting(0).docket_id == ONE
    dockets.drop_waiting(ONE)
    assert dockets.shown(ONE) == {}
    dockets.hear(ONE, "0xC", rejected)
    assert dockets.shown(ONE) == {}, "nothing piles up for what is decided"


def test_the_next_up_are_in_order_and_due() -> None:
    dockets = Dockets(None, "salt")
    ids = [bytes([n]) * 32 for n in range(5)]
    for number, docket_id in enumerate(ids):
        dockets.add(docket_id, Kind.SUBMISSION, number)
    dockets.look_again(ids[1], 50)
    assert [entry.docket_id for entry in dockets.next_up(0, 3)] == [ids[0], ids[2], ids[3]]
    assert len(dockets.next_up(50, 9)) == 5


def test_evidence_waits_for_a_relay_across_a_restart_and_only_the_newest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_UNSENT", 2)
    dockets = Dockets(tmp_path / "d.sqlite", "salt")
    for docket_id in (ONE, TWO, THREE):
        dockets.add(docket_id, Kind.SUBMISSION, 5)
        dockets.found(docket_id, dataclasses.replace(FINDING, evidence=docket_id.hex()))
        dockets.commit(docket_id)
        dockets.revealed(docket_id)
        dockets.revealed(docket_id)  # as after a crash in between
    assert dockets.committed() == []
    dockets.close()
    dockets = Dockets(tmp_path / "d.sqlite", "salt")
    assert dockets.unsent() == [(TWO, TWO.hex()), (THREE, THREE.hex())]
    dockets.sent(TWO)
    assert [docket_id for docket_id, _ in dockets.unsent()] == [THREE]
    dockets.add(ONE, Kind.APPEAL, 9)
    dockets.done(ONE)
    assert len(dockets.unsent()) == 1, "without a verdict there is no evidence"


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
