"""What a node must not forget: numbers that never repeat, migrations, and a database of the future."""

from __future__ import annotations

import sqlite3
import stat
from pathlib import Path

import pytest

from node.life import REMEMBERED, State
from node.state import BLOCK, FILE, MIGRATIONS, NodeState, StateDamaged, StateTooNew, open_database


def test_sequence_numbers_never_repeat(tmp_path: Path) -> None:
    seen = []
    for _ in range(3):  # three lives, each killed without a farewell
        counter = NodeState(tmp_path).sequence("record", start=100)
        seen += [counter.next() for _ in range(BLOCK + 1)]
    assert seen == sorted(set(seen))
    assert seen[0] == 100


def test_sequences_of_two_names_do_not_mix(tmp_path: Path) -> None:
    state = NodeState(tmp_path)
    one, other = state.sequence("record", start=5), state.sequence("heartbeat", start=7)
    assert [one.next(), other.next(), one.next()] == [5, 7, 6]


def test_the_old_file_is_taken_over_once(tmp_path: Path) -> None:
    (tmp_path / "record-sequence").write_text("1700000000123")
    state = NodeState(tmp_path)
    assert state.sequence("record", start=0).next() == 1700000000123
    assert not (tmp_path / "record-sequence").exists()
    (tmp_path / "record-sequence").write_text("5")  # restored from a backup: nothing goes back
    assert NodeState(tmp_path).sequence("record", start=0).next() > 1700000000123
    (tmp_path / "record-sequence").write_text("rotten")
    with pytest.raises(StateDamaged, match="not a sequence number"):
        NodeState(tmp_path)


def test_what_was_heard_only_rises_and_outlives_the_process(tmp_path: Path) -> None:
    state = NodeState(tmp_path)
    assert [state.note_heard("heartbeat", "0xa", "p", n) for n in (0, 5, 5, 4, 6)] == [True, True, False, False, True]
    assert state.note_heard("heartbeat", "0xa", "another", 1)
    assert state.note_heard("order", "0xa", "p", 1)
    again = NodeState(tmp_path)
    assert [again.note_heard("heartbeat", "0xa", "p", n) for n in (6, 7)] == [False, True]


def test_only_what_the_ledger_does_not_tell_is_remembered(tmp_path: Path) -> None:
    for state in State:
        NodeState(tmp_path).note_life("0xa", state)
        assert NodeState(tmp_path).lives() == ({"0xa": state} if state in REMEMBERED else {})


@pytest.mark.parametrize("done", range(len(MIGRATIONS)))
def test_every_earlier_version_is_brought_up_to_date(tmp_path: Path, done: int) -> None:
    open_database(tmp_path / FILE, MIGRATIONS[:done]).close()
    state = NodeState(tmp_path)
    assert state.connection.execute("PRAGMA user_version").fetchone() == (len(MIGRATIONS),)


def test_a_database_of_a_newer_program_is_refused_with_the_fix(tmp_path: Path) -> None:
    NodeState(tmp_path).close()
    with sqlite3.connect(tmp_path / FILE) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(StateTooNew) as refused:
        NodeState(tmp_path)
    assert "newer program" in refused.value.fix


def test_a_damaged_database_is_named(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"rotten" * 1000)
    with pytest.raises(StateDamaged, match="cannot be read"):
        NodeState(tmp_path)


def test_only_its_owner_reads_it(tmp_path: Path) -> None:
    NodeState(tmp_path)
    assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o600


def test_another_run_in_the_same_folder_has_its_own_lives(tmp_path: Path) -> None:
    NodeState(tmp_path, b"one").note_life("0xa", State.EJECTED)
    assert NodeState(tmp_path, b"two").lives() == {}
    assert NodeState(tmp_path, b"one").lives() == {"0xa": State.EJECTED}
