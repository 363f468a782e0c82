"""The table of a node's life: every edge, everything that is no edge, and who is to blame for a silence."""

from __future__ import annotations

import itertools

import pytest

from node.life import TABLE, TIMED, Action, Event, NotInTable, State, Watch, after, silence
from tests.functional.life_walks import BY_RELAYS, BY_WORKERS

# The whole table once more, as text: a change of the table must be meant.
EDGES = """
unknown      announced    waiting      invite
unknown      joined       active       none
unknown      barred       blacklisted  none
waiting      announced    waiting      invite
waiting      beat         waiting      none
waiting      drains       left         none
waiting      handed-over  invited      none
waiting      unreached    waiting      none
waiting      joined       active       none
waiting      barred       blacklisted  none
waiting      gone         unknown      forget
invited      announced    invited      none
invited      beat         invited      none
invited      drains       left         none
invited      lapsed       waiting      none
invited      joined       active       none
invited      barred       blacklisted  none
invited      gone         unknown      forget
active       beat         active       none
active       drains       draining     none
active       late         suspect      none
active       left         left         none
active       ejected      ejected      none
active       barred       blacklisted  none
suspect      beat         active       none
suspect      drains       draining     none
suspect      silent       dead         remove
suspect      left         left         none
suspect      ejected      ejected      none
suspect      barred       blacklisted  none
dead         announced    waiting      invite
dead         beat         waiting      invite
dead         drains       left         none
dead         kept         active       none
dead         joined       active       none
dead         left         left         none
dead         ejected      dead         none
dead         barred       blacklisted  none
dead         gone         dead         none
draining     beat         active       none
draining     drains       draining     none
draining     late         draining     none
draining     silent       dead         remove
draining     left         left         none
draining     ejected      ejected      none
draining     barred       blacklisted  none
left         announced    waiting      invite
left         beat         waiting      invite
left         drains       left         none
left         joined       active       none
left         barred       blacklisted  none
left         gone         unknown      forget
ejected      announced    ejected      none
ejected      beat         ejected      none
ejected      drains       ejected      none
ejected      joined       active       none
ejected      barred       blacklisted  none
ejected      gone         ejected      none
blacklisted  announced    blacklisted  none
blacklisted  beat         blacklisted  none
blacklisted  drains       blacklisted  none
blacklisted  pardoned     waiting      none
blacklisted  gone         blacklisted  none
"""
LISTED = [tuple(line.split()) for line in EDGES.strip().splitlines()]
PAIRS = {(State(state), Event(event)) for state, event, _, _ in LISTED}


@pytest.mark.parametrize(("state", "event", "then", "action"), LISTED)
def test_edge(state: str, event: str, then: str, action: str) -> None:
    assert after(State(state), Event(event)) == (State(then), Action(action))


def test_the_edges_are_all_of_the_table() -> None:
    assert set(TABLE) == PAIRS
    assert len(LISTED) == len(PAIRS)


def test_every_change_of_state_is_walked_on_real_processes() -> None:
    changes = {(before, event, then) for (before, event), (then, _) in TABLE.items() if then is not before}
    assert changes == BY_WORKERS | BY_RELAYS
    assert not BY_WORKERS & BY_RELAYS


@pytest.mark.parametrize(("state", "event"), sorted(set(itertools.product(State, Event)) - PAIRS))
def test_what_is_not_listed_is_a_fault(state: State, event: Event) -> None:
    with pytest.raises(NotInTable, match=f"{state} cannot have: {event}"):
        after(state, event)


def test_every_state_is_reached_and_is_left_again() -> None:
    for state in State:
        assert any(then is state for (before, _), (then, _) in TABLE.items() if before is not state), state
        assert any(before is state and then is not state for (before, _), (then, _) in TABLE.items()), state


def test_only_silence_takes_a_node_off_the_ledger() -> None:
    assert {event for (_, event), (_, action) in TABLE.items() if action is Action.REMOVE} == {Event.SILENT}
    assert all(then is not State.DEAD for (state, event), (then, _) in TABLE.items()
               if event is not Event.SILENT and state is not State.DEAD)  # fmt: skip


def test_nobody_barred_or_put_out_by_hand_is_invited_again() -> None:
    for (state, _), (_, action) in TABLE.items():
        assert state not in (State.EJECTED, State.BLACKLISTED) or action is not Action.INVITE


@pytest.mark.parametrize(
    ("state", "silent_s", "event"),
    [
        (State.ACTIVE, 0.0, None), (State.ACTIVE, 29.9, None), (State.ACTIVE, 30.0, Event.LATE),
        (State.ACTIVE, 1e6, Event.LATE),  # never dead without having been suspect
        (State.SUSPECT, 59.9, None), (State.SUSPECT, 60.0, Event.SILENT),
        (State.DRAINING, 59.9, None), (State.DRAINING, 60.0, Event.SILENT),
        (State.WAITING, 1e6, None), (State.INVITED, 1e6, None), (State.LEFT, 1e6, None), (State.DEAD, 1e6, None),
        (State.ACTIVE, -5.0, None),
    ],
)  # fmt: skip
def test_silence_by_the_receivers_clock(state: State, silent_s: float, event: Event | None) -> None:
    assert silence(state, heard_s=1000.0, now_s=1000.0 + silent_s, heartbeat_s=10.0) is event


def test_what_silence_says_is_in_the_table() -> None:
    for state, silent_s in itertools.product(TIMED, range(0, 100, 5)):
        event = silence(state, heard_s=0.0, now_s=float(silent_s), heartbeat_s=10.0)
        assert event is None or (state, event) in TABLE


def test_a_manager_that_was_away_blames_nobody() -> None:
    watch = Watch(heartbeat_s=10.0, awake_s=0.0)
    for now_s in (1.0, 2.0, 16.9):
        watch, away = watch.look(now_s)
        assert not away, now_s
    watch, away = watch.look(16.9 + 15.1)
    assert away
    assert watch.look(33.0)[1] is False
