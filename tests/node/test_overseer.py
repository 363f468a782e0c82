"""A whole pool's life over a virtual clock: invites, heartbeats, death and return, and a manager that has been away."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from eth_account import Account

from ledger.errors import ChainUnavailable, Reverted
from node.heartbeat import HEARTBEAT_PROTOCOL, Mode
from node.life import REMOVAL_REASON, State
from node.metrics import MetricsLog
from node.overseer import TICK_S, Overseer
from node.peer_key import make_peer_key
from node.pulse import Pulse, newer
from node.state import NodeState
from node.streams import open_peer
from tests.node.life_bench import DOMAIN, MANAGER, RUN_STATE, Board, MemoryPool, Wire, WirePeer, account, peer_id

MANAGER_PEER = peer_id(9)
ONE, TWO, THREE = (account(number).address for number in (1, 2, 3))


class Story:
    """One pool, its manager and its nodes."""

    def __init__(self, folder: Path, nursery: trio.Nursery) -> None:
        self.folder, self.nursery = folder, nursery
        self.wire, self.board, self.pool = Wire(), Board(), MemoryPool()
        self.scopes: dict[str, trio.CancelScope] = {}
        self.pulses: dict[str, Pulse] = {}

    def manager(self) -> Overseer:
        """A manager's process starts (again), with what is on its disk."""
        if "manager" in self.scopes:
            self.scopes["manager"].cancel()
        (self.folder / "manager").mkdir(exist_ok=True)
        overseer = Overseer(
            self.pool, self.board, NodeState(self.folder / "manager"),  # type: ignore[arg-type]
            MetricsLog(self.folder / "metrics.jsonl"), domain=DOMAIN, own_address=MANAGER.address, heartbeat_s=10.0,
            run_state=lambda: RUN_STATE,
        )  # fmt: skip
        overseer.listen(WirePeer(self.wire, MANAGER_PEER))  # type: ignore[arg-type]
        self.board.put(MANAGER.address, MANAGER_PEER, "trainer")
        self.nursery.start_soon(self._scoped, "manager", overseer.run)
        return overseer

    def node(
        self, number: int, *, peer: int | None = None, mode: Callable[[], Mode] = lambda: Mode.WORKING,
        role: Callable[[], str] = lambda: "worker",
    ) -> str:  # fmt: skip
        """A node's process starts (again): it announces itself and beats."""
        wallet, here = account(number), peer_id(peer or number)
        folder = self.folder / here
        folder.mkdir(exist_ok=True)

        async def manager() -> str:
            return MANAGER.address

        async def ignore(_: Any) -> None:
            return None

        pulse = Pulse(
            WirePeer(self.wire, here), self.board, account=wallet, domain=DOMAIN, manager=manager,  # type: ignore[arg-type]
            sequence=NodeState(folder).sequence("heartbeat", start=1), heartbeat_s=10.0,
            mode=mode, on_manager=ignore,
        )  # fmt: skip
        self.pulses[here] = pulse
        self.nursery.start_soon(self._scoped, here, self._live, wallet.address, here, pulse, role)
        return wallet.address

    def kill(self, number: int) -> None:
        """The process is gone, and its record with it in a while."""
        self.scopes[peer_id(number)].cancel()

    async def _live(self, address: str, here: str, pulse: Pulse, role: Callable[[], str]) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(pulse.run)
            try:
                while True:
                    self.board.put(address, here, role())
                    await trio.sleep(20)
            finally:
                self.board.records.pop(address, None)

    async def _scoped(self, name: str, run: Callable[..., Any], *arguments: object) -> None:
        with trio.CancelScope() as self.scopes[name]:
            await run(*arguments)


@asynccontextmanager
async def story(folder: Path) -> AsyncIterator[Story]:
    async with trio.open_nursery() as nursery:
        yield Story(folder, nursery)
        nursery.cancel_scope.cancel()


async def test_a_node_comes_dies_and_returns_without_hand_work(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with story(tmp_path) as told:
        overseer = told.manager()
        told.node(1)
        await trio.sleep(15)
        assert overseer.roster.state(ONE) is State.ACTIVE
        answer = told.pulses[peer_id(1)].answer
        assert answer is not None
        assert (answer.standing, answer.run_state) == ("active", RUN_STATE), "tasks are pulled with the heartbeat"
        told.kill(1)
        await trio.sleep(36)
        assert (overseer.roster.state(ONE), told.pool.removed) == (State.SUSPECT, [])
        await trio.sleep(30)
        assert (overseer.roster.state(ONE), told.pool.removed) == (State.DEAD, [(ONE, REMOVAL_REASON)])
        await trio.sleep(1000)
        assert told.pool.removed == [(ONE, REMOVAL_REASON)]
        told.node(1)
        await trio.sleep(30)
        assert (overseer.roster.state(ONE), told.pool.active) == (State.ACTIVE, {ONE})


async def test_a_dead_node_is_brought_back_by_a_manager_that_was_restarted_meanwhile(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with story(tmp_path) as told:
        told.manager()
        told.node(1)
        await trio.sleep(15)
        told.kill(1)
        await trio.sleep(100)
        overseer = told.manager()
        assert overseer.roster.state(ONE) is State.DEAD
        told.node(1)
        await trio.sleep(60)
        assert (overseer.roster.state(ONE), told.pool.active) == (State.ACTIVE, {ONE})


async def test_a_join_while_the_manager_is_down_heals_itself(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with story(tmp_path) as told:
        told.manager()
        await trio.sleep(1)
        told.scopes["manager"].cancel()
        del told.wire.handlers[MANAGER_PEER, HEARTBEAT_PROTOCOL]
        told.node(1)
        told.pool.active.add(ONE)  # it used its invite after the manager had gone
        await trio.sleep(300)
        overseer = told.manager()
        await trio.sleep(25)
        assert overseer.roster.state(ONE) is State.ACTIVE
        assert told.pool.removed == []
        assert told.pulses[peer_id(1)].answer is not None


@pytest.mark.parametrize("gap_s", [45, 600, 7200])
async def test_a_suspended_manager_declares_nobody_dead(
    tmp_path: Path, mock_clock: trio.testing.MockClock, gap_s: float
) -> None:
    async with story(tmp_path) as told:
        overseer = told.manager()
        for number in (1, 2, 3):
            told.node(number)
        mock_clock.autojump_threshold = 0
        await trio.sleep(15)
        assert set(overseer.roster.states().values()) == {State.ACTIVE}
        mock_clock.autojump_threshold = float("inf")
        mock_clock.jump(gap_s)  # nothing ran meanwhile, not even the delivery of heartbeats
        told.wire.silent.add(MANAGER_PEER)  # and the nodes' connections have to be made anew
        mock_clock.autojump_threshold = 0
        await trio.sleep(15)
        told.wire.silent.clear()
        await trio.sleep(120)
        assert set(overseer.roster.states().values()) == {State.ACTIVE}
        assert told.pool.removed == []


async def test_a_blocked_chain_stops_no_heartbeat_and_kills_nobody(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with story(tmp_path) as told:
        overseer = told.manager()
        told.node(1)
        await trio.sleep(15)
        told.pool.blocked = True
        await trio.sleep(1000)
        assert overseer.roster.state(ONE) is State.ACTIVE
        told.kill(1)
        await trio.sleep(100)
        assert overseer.roster.state(ONE) is State.DEAD, "silence needs no chain"
        told.pool.blocked = False
        await trio.sleep(30)
        assert told.pool.removed == [(ONE, REMOVAL_REASON)]


async def test_a_node_that_returns_before_the_chain_does_is_not_taken_out(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with story(tmp_path) as told:
        overseer = told.manager()
        told.node(1)
        await trio.sleep(15)
        told.pool.fault = ChainUnavailable("http://127.0.0.1:1", "away")
        told.kill(1)
        await trio.sleep(200)
        assert overseer.roster.state(ONE) is State.DEAD
        told.node(1)
        await trio.sleep(20)
        told.pool.fault = None
        await trio.sleep(100)
        assert (overseer.roster.state(ONE), told.pool.removed) == (State.ACTIVE, [])


async def test_a_removal_that_waits_for_the_chain_holds_up_no_invite(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with story(tmp_path) as told:
        overseer = told.manager()
        told.node(1)
        await trio.sleep(15)
        told.pool.fault = ChainUnavailable("http://127.0.0.1:1", "away")
        told.kill(1)
        while overseer.roster.state(ONE) is not State.DEAD:
            await trio.sleep(0.5)
        await trio.sleep(2 * TICK_S)  # the try was made
        told.pool.active.discard(ONE)  # its owner left, by another tool
        while overseer.roster.state(ONE) is not State.LEFT:
            await trio.sleep(0.5)
        before, asked_s = len(told.pool.invited), trio.current_time()
        told.node(1)
        while len(told.pool.invited) == before:
            await trio.sleep(0.5)
        assert trio.current_time() - asked_s < 5, "within a look or two"


async def test_a_removal_that_the_ledger_refuses_is_tried_again_later(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with story(tmp_path) as told:
        overseer = told.manager()
        told.node(1)
        await trio.sleep(15)
        told.pool.fault = Reverted("NotManager")
        told.kill(1)
        await trio.sleep(150)
        assert overseer.roster.state(ONE) in (State.ACTIVE, State.SUSPECT)
        told.pool.fault = None
        await trio.sleep(150)
        assert told.pool.removed == [(ONE, REMOVAL_REASON)]


async def test_no_reply_time_limit_one_unreachable_node_holds_up_nobody(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with story(tmp_path) as told:
        overseer = told.manager()
        told.pool.hanging.update(account(number).address for number in range(10, 20))
        for number in range(10, 20):
            told.node(number)
        await trio.sleep(3)
        told.node(1)
        await trio.sleep(5)
        assert overseer.roster.state(ONE) is State.ACTIVE


async def test_attack_staked_nodes_that_take_invites_and_never_answer_hold_up_nobody(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with story(tmp_path) as told:
        overseer = told.manager()
        hanging = [Account.create().address for _ in range(100)]
        told.pool.hanging.update(hanging)
        for address in hanging:
            told.board.put(address, peer_id(2), "worker")
        told.node(3)
        await trio.sleep(10)
        assert {node.address for node in told.pool.invited} >= set(hanging), "they hang"
        told.node(1)
        await trio.sleep(10)
        assert overseer.roster.state(ONE) is State.ACTIVE
        told.kill(3)
        await trio.sleep(72)
        assert told.pool.removed == [(THREE, REMOVAL_REASON)], "and the dead are taken out in time"


async def test_a_silent_manager_does_not_stop_a_nodes_heartbeats(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with story(tmp_path) as told:
        told.manager()
        told.node(1)
        await trio.sleep(15)
        told.wire.silent.add(MANAGER_PEER)
        await trio.sleep(300)
        told.wire.silent.clear()
        before = len(told.wire.sent)
        await trio.sleep(50)
        assert len(told.wire.sent) - before >= 4


async def test_the_peer_id_changes_before_the_first_invite(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with story(tmp_path) as told:
        told.pool.deaf.add(ONE)  # nobody listens at the first peer id
        overseer = told.manager()
        told.node(1)
        await trio.sleep(60)
        assert {node.peer_id for node in told.pool.invited} == {peer_id(1)}
        told.kill(1)
        await trio.sleep(1)
        told.node(1, peer=7)  # a new key, a new port
        told.pool.deaf.clear()
        await trio.sleep(120)
        assert told.pool.invited[-1].peer_id == peer_id(7)
        assert overseer.roster.state(ONE) is State.ACTIVE
        assert told.pulses[peer_id(7)].answer is not None


async def test_a_recorded_heartbeat_never_works_again_not_even_after_a_restart(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with story(tmp_path) as told:
        told.manager()
        told.node(1)
        await trio.sleep(100)
        told.kill(1)
        recorded = [message for sender, to, message in told.wire.sent if sender == peer_id(1) and to == MANAGER_PEER]
        assert len(recorded) > 5
        overseer = told.manager()
        await trio.sleep(5)
        replayer = WirePeer(told.wire, peer_id(1))  # even with the node's own peer key
        for message in recorded[-3:]:
            with pytest.raises(Exception, match="replayed"):
                await replayer.request(f"/p2p/{MANAGER_PEER}", HEARTBEAT_PROTOCOL, message, 10)
        await trio.sleep(100)
        assert overseer.roster.state(ONE) is State.DEAD


async def test_a_second_worker_of_the_same_owner_lives_beside_the_first(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with story(tmp_path) as told:
        overseer = told.manager()
        for number in (1, 2):
            told.node(number)
        await trio.sleep(500)
        assert overseer.roster.states() == {ONE: State.ACTIVE, TWO: State.ACTIVE}
        assert sorted(node.address for node in told.pool.invited) == sorted((ONE, TWO)), "each invited once"


async def test_an_unstaked_node_is_not_invited_until_it_has_its_stake(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with story(tmp_path) as told:
        told.pool.unstaked.add(ONE)
        overseer = told.manager()
        told.node(1)
        await trio.sleep(30)
        assert (told.pool.invited, overseer.roster.states()) == ([], {})
        told.pool.unstaked.clear()
        await trio.sleep(30)
        assert overseer.roster.state(ONE) is State.ACTIVE


async def test_attack_a_worker_leaves_and_comes_back_as_a_validator_that_nobody_listed(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with story(tmp_path) as told:
        overseer, roles = told.manager(), ["worker"]
        await trio.sleep(0.5)  # it beats between the manager's looks at the directory
        told.node(1, role=lambda: roles[-1])
        await trio.sleep(15)
        assert overseer.roster.state(ONE) is State.ACTIVE
        roles.append("validator")
        await trio.sleep(25)
        told.pool.active.discard(ONE)  # it leaves, and goes on beating
        await trio.sleep(300)
        assert [node.roles for node in told.pool.invited] == [("worker",)]
        assert told.pool.active == set()
        roles.append("worker")
        await trio.sleep(60)
        assert told.pool.active == {ONE}, "what it is wanted as, it may be again"


async def test_an_invite_that_the_ledger_does_not_let_be_made_ends_no_manager(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with story(tmp_path) as told:
        told.pool.invite_fault = Reverted("NotManager")
        overseer = told.manager()
        told.node(1)
        await trio.sleep(40)
        assert overseer.roster.state(ONE) is State.WAITING
        told.pool.invite_fault = None
        await trio.sleep(60)
        assert overseer.roster.state(ONE) is State.ACTIVE


async def test_attack_a_record_is_replaced_while_its_node_is_considered(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with story(tmp_path) as told:
        told.manager()
        await trio.sleep(1)
        told.pool.slow_s = 5.0  # the ledger is asked about the worker's record; meanwhile there is another one
        told.board.put(ONE, peer_id(1), "worker")
        await trio.sleep(4)
        told.board.put(ONE, peer_id(1), "validator")
        await trio.sleep(60)
        assert [node.roles for node in told.pool.invited if "validator" in node.roles] == []


async def test_the_directory_is_away_for_a_while(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    async with story(tmp_path) as told:
        overseer = told.manager()
        told.node(1)
        await trio.sleep(15)
        told.board.down = True
        await trio.sleep(500)
        assert overseer.roster.state(ONE) is State.ACTIVE
        told.board.down = False
        told.node(2)
        await trio.sleep(15)
        assert overseer.roster.state(TWO) is State.ACTIVE


async def test_a_drained_node_leaves_and_is_not_called_back(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    async with story(tmp_path) as told:
        overseer = told.manager()
        told.node(1, mode=lambda: Mode.DRAINING if trio.current_time() % 1000 > 100 else Mode.WORKING)
        await trio.sleep(15)
        assert overseer.roster.state(ONE) is State.ACTIVE
        while overseer.roster.state(ONE) is State.ACTIVE:
            await trio.sleep(1)
        assert overseer.roster.state(ONE) is State.DRAINING
        told.pool.active.discard(ONE)
        await trio.sleep(11)
        told.kill(1)
        invited = len(told.pool.invited)
        await trio.sleep(200)
        assert len(told.pool.invited) == invited
        assert told.pool.removed == []


def test_the_newer_word_of_the_manager_counts() -> None:
    older = replace(RUN_STATE, open_step=3)
    of_the_last_manager = replace(RUN_STATE, epoch=0, open_step=9)
    assert newer(None, None) is None
    for other in (older, of_the_last_manager, None):
        assert newer(RUN_STATE, other) == newer(other, RUN_STATE) == RUN_STATE


async def test_over_real_streams_two_nodes_of_one_machine_stay_active(tmp_path: Path) -> None:
    """Real libp2p hosts, all behind 127.0.0.1: heartbeats count, and each node hears the run state."""
    board, pool = Board(), MemoryPool()
    listen = "/ip4/127.0.0.1/tcp/0"
    async with (
        open_peer(make_peer_key(b"\x09" * 32), listen) as managers,
        open_peer(make_peer_key(b"\x01" * 32), listen) as first,
        open_peer(make_peer_key(b"\x02" * 32), listen) as second,
        trio.open_nursery() as nursery,
    ):
        overseer = Overseer(
            pool, board, NodeState(tmp_path), MetricsLog(tmp_path / "m.jsonl"), domain=DOMAIN,  # type: ignore[arg-type]
            own_address=MANAGER.address, heartbeat_s=0.2, run_state=lambda: RUN_STATE,
        )  # fmt: skip
        overseer.listen(managers)
        board.put(MANAGER.address, managers.peer_id, "trainer", multiaddrs=managers.multiaddrs)
        nursery.start_soon(overseer.run)
        pulses = []
        for number, peer in ((1, first), (2, second)):
            (tmp_path / str(number)).mkdir()
            board.put(account(number).address, peer.peer_id, "worker", multiaddrs=peer.multiaddrs)

            async def manager() -> str:
                return MANAGER.address

            async def ignore(_: Any) -> None:
                return None

            pulses.append(Pulse(
                peer, board, account=account(number), domain=DOMAIN, manager=manager,  # type: ignore[arg-type]
                sequence=NodeState(tmp_path / str(number)).sequence("heartbeat", start=1), heartbeat_s=0.2,
                mode=lambda: Mode.WORKING, on_manager=ignore,
            ))  # fmt: skip
            nursery.start_soon(pulses[-1].run)
        with trio.fail_after(30):
            while [pulse.answer and pulse.answer.standing for pulse in pulses] != ["active", "active"]:
                await trio.sleep(0.05)
        assert [pulse.run_state for pulse in pulses] == [RUN_STATE, RUN_STATE]
        nursery.cancel_scope.cancel()
