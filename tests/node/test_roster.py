"""What the manager makes of facts: ledger entries that change, records, heartbeats, silence, and its own absence."""

from __future__ import annotations

import pytest

from node.heartbeat import Mode
from node.life import LAPSED_AFTER, Action, State
from node.roster import Roster, Standing
from node.streams import Refusal

A, B, C = "0xa", "0xb", "0xc"
MEMBER = Standing(active=True, barred=False, ejected=False)
STRANGER = Standing(active=False, barred=False, ejected=False)
PUT_OUT = Standing(active=False, barred=False, ejected=True)
BARRED = Standing(active=False, barred=True, ejected=True)


def roster(**remembered: State) -> Roster:
    return Roster(heartbeat_s=10.0, now_s=0.0, remembered=remembered)


def member(list_: Roster, *addresses: str, now_s: float = 0.0) -> Roster:
    for address in addresses:
        list_.ledger_says(address, MEMBER, now_s)
        beat(list_, address, now_s)
    return list_


def beat(list_: Roster, address: str, now_s: float, *, peer: str = "", mode: Mode = Mode.WORKING) -> list[Action]:
    list_.admit(address, peer or f"peer of {address}", now_s)
    return [change.action for change in list_.beat(address, peer or f"peer of {address}", mode, now_s)]


def watched(list_: Roster, start_s: float, end_s: float) -> list[tuple[str, State, Action]]:
    """A manager that is awake: one look a second."""
    changes = [change for now_s in range(int(start_s), int(end_s) + 1) for change in list_.look(float(now_s))]
    return [(change.address, change.state, change.action) for change in changes]


def test_a_newcomer_is_invited_and_becomes_active() -> None:
    nodes = roster()
    assert nodes.ledger_says(A, STRANGER, 0.0) == []
    assert [change.action for change in nodes.announced(A, 5, 0.0)] == [Action.INVITE]
    nodes.invite_ended(A, taken=True, now_s=1.0)
    assert nodes.state(A) is State.INVITED
    nodes.ledger_says(A, MEMBER, 2.0)
    assert (nodes.state(A), nodes.members()) == (State.ACTIVE, (A,))


def test_an_invite_that_did_not_arrive_is_sent_again() -> None:
    nodes = roster()
    nodes.announced(A, 5, 0.0)
    nodes.invite_ended(A, taken=False, now_s=1.0)
    assert [change.action for change in nodes.announced(A, 6, 40.0)] == [Action.INVITE]


def test_an_invite_that_was_taken_but_never_used_lapses() -> None:
    nodes = roster()
    nodes.announced(A, 5, 0.0)
    nodes.invite_ended(A, taken=True, now_s=1.0)
    lapses_s = 1 + LAPSED_AFTER * 10
    assert watched(nodes, 1, lapses_s) == []
    assert watched(nodes, lapses_s + 1, lapses_s + 1) == [(A, State.WAITING, Action.NONE)]
    assert [change.action for change in nodes.announced(A, 9, 200.0)] == [Action.INVITE]


def test_missed_heartbeats_make_suspect_then_dead() -> None:
    nodes = member(roster(), A, B)
    seen = []
    for now_s in range(1, 71):
        if now_s % 10 == 0:
            beat(nodes, B, now_s)
        seen += [(now_s, c.address, c.state, c.action) for c in nodes.look(float(now_s))]
    assert seen == [(30, A, State.SUSPECT, Action.NONE), (60, A, State.DEAD, Action.REMOVE)]
    assert nodes.state(B) is State.ACTIVE


def test_a_suspect_that_beats_is_active_with_a_new_timer() -> None:
    nodes = member(roster(), A)
    watched(nodes, 0, 55)
    assert nodes.state(A) is State.SUSPECT
    beat(nodes, A, 55.0)
    assert nodes.state(A) is State.ACTIVE
    assert watched(nodes, 56, 84) == []


def dead(nodes: Roster) -> Roster:
    member(nodes, A)
    nodes.seen(A, 7)
    watched(nodes, 0, 60)
    nodes.asked_to_remove(A)
    nodes.ledger_says(A, PUT_OUT, 61.0)
    assert nodes.state(A) is State.DEAD
    return nodes


def test_a_dead_node_is_invited_again_when_it_beats() -> None:
    assert beat(dead(roster()), A, 100.0) == [Action.INVITE]


def test_a_dead_node_is_invited_again_when_it_announces_itself_anew_but_not_for_its_old_record() -> None:
    nodes = dead(roster())
    assert nodes.announced(A, 7, 62.0) == []
    assert [change.action for change in nodes.announced(A, 8, 63.0)] == [Action.INVITE]


def test_a_dead_node_that_was_gone_is_invited_at_its_first_new_record() -> None:
    nodes = dead(Roster(heartbeat_s=10.0, now_s=0.0, remembered={}))
    nodes.absent(A, 500.0)
    assert nodes.state(A) is State.DEAD
    assert [change.action for change in nodes.announced(A, 3, 501.0)] == [Action.INVITE]


def test_a_node_that_beats_before_the_ledger_took_it_out_is_kept() -> None:
    nodes = member(roster(), A)
    watched(nodes, 0, 60)
    beat(nodes, A, 61.0)
    assert nodes.state(A) is State.ACTIVE
    # The removal was on its way nevertheless: no hand work, the next heartbeat has it invited again.
    nodes.asked_to_remove(A)
    nodes.ledger_says(A, PUT_OUT, 62.0)
    assert nodes.state(A) is State.LEFT
    assert beat(nodes, A, 70.0) == [Action.INVITE]


def test_a_removal_that_the_ledger_refuses_starts_the_timers_anew() -> None:
    nodes = member(roster(), A)
    watched(nodes, 0, 60)
    nodes.removal_refused(A, 61.0)
    assert nodes.state(A) is State.ACTIVE
    assert watched(nodes, 62, 90) == []


@pytest.mark.parametrize("gap_s", [60.0, 3600.0, 1e6])
def test_a_manager_that_was_away_declares_nobody_dead(gap_s: float) -> None:
    nodes = member(roster(), A, B, C)
    assert watched(nodes, 1, 5) == []
    back_s = 5 + gap_s  # suspended, blocked or without its processor
    assert nodes.look(back_s) == []
    assert watched(nodes, back_s + 1, back_s + 29) == []
    assert [c.state for c in nodes.look(back_s + 30)] == [State.SUSPECT] * 3, "the timers started anew"


def test_a_restarted_manager_knows_its_members_and_gives_them_time() -> None:
    nodes = roster()
    nodes.ledger_says(A, MEMBER, 0.0)
    assert nodes.state(A) is State.ACTIVE
    assert [(a, s) for a, s, _ in watched(nodes, 0, 60)] == [(A, State.SUSPECT), (A, State.DEAD)]


def test_who_was_put_out_by_hand_waits_for_a_persons_invite_also_after_a_restart() -> None:
    nodes = member(roster(), A)
    nodes.ledger_says(A, PUT_OUT, 1.0)
    for again in (nodes, roster(**{A: nodes.state(A)})):
        assert again.state(A) is State.EJECTED
        assert [c.action for c in again.announced(A, 99, 2.0)] == [Action.NONE]
        assert beat(again, A, 3.0) == [Action.NONE]
        again.ledger_says(A, MEMBER, 4.0)
        assert again.state(A) is State.ACTIVE


def test_a_node_that_drains_leaves_and_is_not_called_back() -> None:
    nodes = member(roster(), A)
    nodes.seen(A, 7)
    beat(nodes, A, 10.0, mode=Mode.DRAINING)
    assert nodes.state(A) is State.DRAINING
    nodes.ledger_says(A, STRANGER, 11.0)
    assert nodes.state(A) is State.LEFT
    assert nodes.announced(A, 7, 12.0) == []
    assert beat(nodes, A, 12.0, mode=Mode.DRAINING) == [Action.NONE]
    nodes.absent(A, 60.0)
    assert nodes.states() == {}
    assert [c.action for c in nodes.announced(A, 9, 61.0)] == [Action.INVITE], "a new life"


def test_who_left_without_a_word_is_invited_when_it_comes_back() -> None:
    nodes = member(roster(), A)
    nodes.seen(A, 7)
    nodes.ledger_says(A, STRANGER, 5.0)  # its owner left in its place, for it did not run
    assert nodes.state(A) is State.LEFT
    assert [c.action for c in nodes.announced(A, 8, 100.0)] == [Action.INVITE]


def test_who_is_put_out_while_it_drains_is_put_out() -> None:
    nodes = member(roster(), A)
    beat(nodes, A, 10.0, mode=Mode.DRAINING)
    nodes.ledger_says(A, PUT_OUT, 11.0)
    assert nodes.state(A) is State.EJECTED


def test_a_draining_node_that_changes_its_mind_is_active() -> None:
    nodes = member(roster(), A)
    beat(nodes, A, 10.0, mode=Mode.DRAINING)
    beat(nodes, A, 20.0, mode=Mode.PAUSED)
    assert nodes.state(A) is State.ACTIVE


def test_the_blacklisted_are_left_alone_until_they_are_pardoned() -> None:
    nodes = member(roster(), A)
    nodes.ledger_says(A, BARRED, 1.0)
    assert nodes.state(A) is State.BLACKLISTED
    assert [c.action for c in nodes.announced(A, 9, 2.0)] == [Action.NONE]
    assert watched(nodes, 3, 200) == []
    nodes.ledger_says(A, STRANGER, 200.0)
    assert [c.action for c in nodes.announced(A, 10, 201.0)] == [Action.INVITE]


def test_a_stranger_does_not_beat() -> None:
    with pytest.raises(Refusal, match="unknown"):
        roster().admit(A, "peer", 0.0)
    assert roster().states() == {}


def test_a_second_machine_with_the_same_wallet_is_told_so_and_the_first_does_not_flap() -> None:
    nodes = member(roster(), A)
    for now_s in range(10, 100, 10):
        beat(nodes, A, now_s)
        with pytest.raises(Refusal, match="another-peer"):
            nodes.admit(A, "a second machine", now_s + 1.0)
        assert watched(nodes, now_s, now_s + 9) == []
    nodes.admit(A, "a second machine", 90.0 + 30.0)  # the first fell silent: the wallet moved


def test_two_nodes_behind_one_address_and_of_one_owner_do_not_flap() -> None:
    """Nodes are told apart by wallet and peer id; where they dial from or who staked for them plays no part."""
    nodes = member(roster(), A, B)
    for now_s in range(10, 300, 10):
        beat(nodes, A, now_s)
        beat(nodes, B, now_s + 1)
        assert watched(nodes, now_s, now_s + 9) == []
    assert set(nodes.states().values()) == {State.ACTIVE}


def test_memory_is_given_back_for_those_who_only_waited() -> None:
    nodes = roster()
    for number in range(100):
        nodes.announced(f"0x{number}", 1, 0.0)
        nodes.absent(f"0x{number}", 100.0)
    assert nodes.states() == {}
