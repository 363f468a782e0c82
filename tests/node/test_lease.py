"""One manager at a time: who holds, who waits, who takes over, and who falls silent; over a chain in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing

from dht.records import Authority
from ledger.errors import ChainUnavailable, Reverted
from ledger.types import Pool, PoolState, Terms
from node.dhtd_link import NetworkDown
from node.errors import UserError
from node.lease import Fenced, Lease, Move, decide, follow_manager

A, B, NOBODY = "0x" + "aA" * 20, "0x" + "bB" * 20, "0x" + "00" * 20
LEASE_S = 30
START = 1_800_000_000


def pool_of(manager: str, epoch: int, expires: int) -> Pool:
    return Pool(
        pool_id=1, domain_id=1, owner=A, pending_owner=NOBODY, state=PoolState.ACTIVE, joins_paused=False,
        ended_unix_s=0, manager=manager, epoch=epoch, lease_expires_unix_s=expires,
        terms=Terms(min_stake_wei=1, slash_wei=1, lease_s=LEASE_S),
    )  # fmt: skip


class Chain:
    """The lease as contracts/src/Pools.sol has it; its time is trio's."""

    def __init__(self, *managers: str) -> None:
        self.allowed, self.manager, self.epoch, self.expires, self.down = set(managers), NOBODY, 0, 0, False
        self.renewals: list[float] = []

    def chain_time_s(self) -> int:
        return START + int(trio.current_time())

    def pool(self, pool_id: int) -> Pool:
        if self.down:
            raise ChainUnavailable("http://chain", "away")
        return pool_of(self.manager, self.epoch, self.expires)

    def may_manage(self, pool_id: int, account: str) -> bool:
        return account in self.allowed

    def take(self, account: str) -> None:
        if account not in self.allowed:
            raise Reverted("NotManager", (account,))
        if account != self.manager and self.chain_time_s() <= self.expires:
            raise Reverted("LeaseHeld", (self.manager, self.expires))
        if account != self.manager:
            self.manager, self.epoch = account, self.epoch + 1
        self.expires = self.chain_time_s() + LEASE_S
        self.renewals.append(trio.current_time())

    def forbid(self, account: str) -> None:
        self.allowed.discard(account)
        self.manager, self.epoch, self.expires = NOBODY, self.epoch + 1, 0


class Wallet:
    """The chain as one account's ledger sees it."""

    def __init__(self, chain: Chain, account: str) -> None:
        self._chain, self._account = chain, account

    def __getattr__(self, name: str) -> Any:
        return getattr(self._chain, name)

    def take_lease(self, pool_id: int) -> int:
        self._chain.take(self._account)
        return 1


async def inline(call: Callable[..., Any], *arguments: Any) -> Any:
    await trio.lowlevel.checkpoint()
    return call(*arguments)


def lease_of(chain: Chain, account: str) -> Lease:
    return Lease(Wallet(chain, account), pool_id=1, address=account, in_thread=inline)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("manager", "epoch", "left_s", "held", "may", "move"),
    [
        (A, 1, 30, None, True, Move.RENEW),  # a restarted trainer takes its own lease up
        (A, 1, -9, None, True, Move.RENEW),
        (A, 1, 30, 1, True, Move.HOLD),
        (A, 1, 21, 1, True, Move.HOLD),
        (A, 1, 20, 1, True, Move.RENEW),  # a third is over
        (A, 1, -5, 1, True, Move.RENEW),  # lapsed, and nobody took it
        (B, 2, 30, 1, True, Move.FENCED),
        (B, 2, -5, 1, True, Move.FENCED),  # even where that one has lapsed again
        (A, 3, 30, 1, True, Move.FENCED),  # another process with this key got a later one
        (NOBODY, 2, -START, 1, False, Move.FENCED),  # forbidden by the owner
        (B, 2, 1, None, True, Move.STAND_BY),
        (B, 2, 0, None, True, Move.STAND_BY),  # the last second is the holder's
        (B, 2, -1, None, True, Move.TAKE_OVER),
        (NOBODY, 2, -START, None, True, Move.TAKE_OVER),
        (B, 2, -1, None, False, Move.BARRED),
    ],
)
def test_every_case(manager: str, epoch: int, left_s: int, held: int | None, may: bool, move: Move) -> None:
    pool = pool_of(manager, epoch, START + left_s)
    assert decide(pool, me=A, held_epoch=held, may_manage=may, now_unix_s=START) is move


async def test_renewed_at_a_third_so_that_a_standby_never_gets_it(autojump_clock: trio.testing.MockClock) -> None:
    chain = Chain(A, B)
    first, second = lease_of(chain, A), lease_of(chain, B)
    await first.acquire()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(first.keep)
        nursery.start_soon(second.acquire)
        await trio.sleep(20 * LEASE_S)
        nursery.cancel_scope.cancel()
    assert (chain.manager, chain.epoch, first.sure, second.epoch) == (A, 1, True, None)
    gaps = [b - a for a, b in zip(chain.renewals, chain.renewals[1:], strict=False)]
    assert all(LEASE_S / 3 <= gap <= LEASE_S / 3 + 2 for gap in gaps), gaps


async def test_a_dead_holder_is_replaced_within_the_lease_and_a_second(autojump_clock: trio.testing.MockClock) -> None:
    chain = Chain(A, B)
    await lease_of(chain, A).acquire()
    second = lease_of(chain, B)
    await second.acquire()
    assert (chain.manager, chain.epoch, second.epoch) == (B, 2, 2)
    assert LEASE_S < trio.current_time() <= LEASE_S + 2
    assert second.sure


async def test_of_two_standbys_one_gets_it(autojump_clock: trio.testing.MockClock) -> None:
    chain, other = Chain(A, B, "0x" + "cC" * 20), "0x" + "cC" * 20
    await lease_of(chain, A).acquire()
    leases = [lease_of(chain, B), lease_of(chain, other)]
    async with trio.open_nursery() as nursery:
        for lease in leases:
            nursery.start_soon(lease.acquire)
        await trio.sleep(LEASE_S + 3)
        nursery.cancel_scope.cancel()
    assert sorted(lease.epoch or 0 for lease in leases) == [0, 2]


async def test_a_trainer_that_slept_past_its_lease_is_fenced(autojump_clock: trio.testing.MockClock) -> None:
    chain = Chain(A, B)
    asleep = lease_of(chain, A)
    await asleep.acquire()
    await lease_of(chain, B).acquire()
    assert not asleep.sure, "by its own clock, before it asks anybody"
    with pytest.raises(Fenced, match="lease 1 of pool 1 was taken over") as told:
        await asleep.keep()
    assert told.value.exit_code == 6


async def test_without_the_chain_it_falls_silent_in_time_and_goes_on_if_nobody_came(
    autojump_clock: trio.testing.MockClock,
) -> None:
    chain = Chain(A)
    lease = lease_of(chain, A)
    await lease.acquire()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lease.keep)
        await trio.sleep(5)
        chain.down = True
        await lease.wait_unsure()
        assert START + trio.current_time() <= chain.expires, "silent before another may take over"
        await trio.sleep(3 * LEASE_S)
        assert not lease.sure
        chain.down = False
        await lease.wait_sure()
        nursery.cancel_scope.cancel()
    assert (chain.manager, chain.epoch, lease.epoch) == (A, 1, 1)


async def test_without_the_chain_and_another_takes_over_it_is_fenced(autojump_clock: trio.testing.MockClock) -> None:
    chain, isolated = Chain(A, B), Chain(A, B)
    lease = lease_of(chain, A)
    await lease.acquire()
    lease._ledger._chain = isolated  # type: ignore[attr-defined]
    isolated.down = True
    with pytest.RaisesGroup(Fenced):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lease.keep)
            await lease_of(chain, B).acquire()
            assert not lease.sure, "never two at once"
            lease._ledger._chain = chain  # type: ignore[attr-defined]


async def test_a_renewal_that_was_mined_long_ago_counts_from_then(autojump_clock: trio.testing.MockClock) -> None:
    chain = Chain(A)
    lease = lease_of(chain, A)
    await lease.acquire()
    chain.take = lambda account: None  # type: ignore[method-assign]  # the queue answers with an earlier one's receipt
    with trio.move_on_after(LEASE_S - 1):
        await lease.keep()
    assert lease.sure
    await trio.sleep(1.5)
    assert not lease.sure


async def test_the_owner_dismisses_the_manager(autojump_clock: trio.testing.MockClock) -> None:
    chain = Chain(A)
    lease = lease_of(chain, A)
    await lease.acquire()
    chain.forbid(A)
    with pytest.raises(Fenced):
        await lease.keep()
    with pytest.raises(UserError, match="may not manage pool 1"):
        await lease_of(chain, A).acquire()


class Believer:
    """What `follow_manager` needs of a network; hears only every second time."""

    def __init__(self) -> None:
        self.authority, self.heard, self.calls = Authority(manager=A, epoch=1), [], 0

    async def set_authority(self, authority: Authority) -> None:
        self.authority, self.calls = authority, self.calls + 1
        if self.calls % 2:
            raise NetworkDown("restarting")
        self.heard.append(authority)


async def test_nodes_follow_the_ledger_and_say_it_until_it_is_heard() -> None:
    chain, network = Chain(A, B), Believer()
    chain.manager, chain.epoch = B, 2
    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(follow_manager, chain, network, 1)
            while not network.heard:
                await trio.sleep(0.01)
            nursery.cancel_scope.cancel()
    assert network.heard == [Authority(manager=B, epoch=2)]
