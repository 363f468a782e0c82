"""Who manages the pool now: hold the lease and renew it, stand by, take over, or stop. And who to believe.

The lease is on the ledger (manager, epoch, expiry in chain time). `decide` is pure; `Lease` carries it out for one
account. It refuses to call a lease its own for longer than the ledger could have granted it by this machine's
monotonic clock: a trainer that cannot reach the chain, or that slept, falls silent by itself, before another may take
over. Each trainer needs a wallet of its own: the ledger cannot tell two processes with one key apart.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable
from enum import Enum, auto
from typing import Any, NoReturn

import trio

from dht.records import Authority
from ledger.client import Ledger
from ledger.errors import ChainUnavailable, NotMined, Reverted, RpcError
from ledger.types import Pool
from node.chain import on_chain
from node.dhtd_link import NetworkDown
from node.errors import UserError
from node.network import Network

log = logging.getLogger(__name__)
Ask = Callable[..., Awaitable[Any]]
POLL_S = 1.0


class Fenced(UserError):
    """Another manages the pool now; what this process would still publish is refused by everyone."""

    exit_code = 6


class Move(Enum):
    """What an account that may manage has to do now."""

    HOLD = auto()
    RENEW = auto()
    STAND_BY = auto()
    TAKE_OVER = auto()
    FENCED = auto()
    BARRED = auto()
    """The pool's owner does not let this account manage."""


def decide(pool: Pool, *, me: str, held_epoch: int | None, may_manage: bool, now_unix_s: int) -> Move:
    """What to do by the chain's time `now_unix_s`; `held_epoch` is the lease that this process believes to have."""
    if held_epoch is not None and (pool.manager, pool.epoch) != (me, held_epoch):
        return Move.FENCED
    left_s = pool.lease_expires_unix_s - now_unix_s
    if pool.manager == me:
        renew = held_epoch is None or left_s <= pool.terms.lease_s * 2 / 3
        return Move.RENEW if renew else Move.HOLD
    if not may_manage:
        return Move.BARRED
    return Move.TAKE_OVER if left_s < 0 else Move.STAND_BY


class Lease:
    """The lease of one pool, as `address` has it or waits for it."""

    def __init__(self, ledger: Ledger, *, pool_id: int, address: str, in_thread: Ask = trio.to_thread.run_sync) -> None:
        self._ledger, self._pool_id, self._me, self._in_thread = ledger, pool_id, address, in_thread
        self._sure_until_s = -math.inf
        self._renewed = trio.Event()
        self.epoch: int | None = None
        """Of the lease that this process holds; None before the first."""

    @property
    def sure(self) -> bool:
        """Whether nobody else can have the lease yet, by this machine's clock alone."""
        return self.epoch is not None and trio.current_time() < self._sure_until_s

    async def wait_sure(self) -> None:
        """Until the lease is surely ours."""
        while not self.sure:
            await self._renewed.wait()

    async def wait_unsure(self) -> None:
        """Until it may be another's."""
        while self.sure:
            await trio.sleep_until(self._sure_until_s)

    async def acquire(self) -> None:
        """Until this account holds the lease. Raises UserError where the owner does not let it manage."""
        waiting_for = ""
        while self.epoch is None:
            pool = await self._look()
            if self.epoch is None and pool is not None and pool.manager != waiting_for:
                waiting_for = pool.manager
                log.info("standing by: %s holds lease %d of pool %d", pool.manager, pool.epoch, self._pool_id)
            if self.epoch is None:
                await trio.sleep(POLL_S)

    async def keep(self) -> NoReturn:
        """Renew for ever. Raises Fenced."""
        while True:
            await trio.sleep(POLL_S)
            await self._look()

    def fenced(self, pool: Pool | None = None) -> Fenced:
        """The error with which a trainer ends whose lease is gone."""
        by = f"; {pool.manager} has lease {pool.epoch}" if pool else ""
        return Fenced(
            f"lease {self.epoch} of pool {self._pool_id} was taken over{by}: this trainer publishes nothing any more",
            fix="nothing is lost, the other trainer goes on; start this one again and it stands by",
        )

    async def _look(self) -> Pool | None:
        """Ask the ledger and do what follows; the pool as it is then, None where the chain did not answer."""
        try:
            pool = await self._in_thread(self._ledger.pool, self._pool_id)
            now_unix_s = await self._in_thread(self._ledger.chain_time_s)
            may = await self._in_thread(self._ledger.may_manage, self._pool_id, self._me)
            move = decide(pool, me=self._me, held_epoch=self.epoch, may_manage=may, now_unix_s=now_unix_s)
            if move in (Move.RENEW, Move.TAKE_OVER):
                pool = await self._take(pool, move)
        except (ChainUnavailable, NotMined, RpcError) as fault:
            left_s = self._sure_until_s - trio.current_time()
            if self.epoch is not None:
                log.warning("the lease was not renewed, %.0f s are left: %s", max(0.0, left_s), fault)
            return None
        if move is Move.FENCED:
            raise self.fenced(pool)
        if move is Move.BARRED:
            raise UserError(
                f"{self._me} may not manage pool {self._pool_id}, whose manager is {pool.manager}",
                fix="start the trainer with a manager's wallet, or let the pool's owner allow this one",
            )
        return pool

    async def _take(self, pool: Pool, move: Move) -> Pool:
        asked_s = trio.current_time()  # before the block's time, so that we never count on more than we were given
        try:
            await self._in_thread(self._ledger.take_lease, self._pool_id)
        except Reverted as refused:  # another was faster, or the owner spoke: the next look tells
            log.info("the lease could not be taken: %s", refused)
            return pool
        read_s = trio.current_time()
        pool = await self._in_thread(self._ledger.pool, self._pool_id)
        left_s = pool.lease_expires_unix_s - await self._in_thread(self._ledger.chain_time_s)
        if pool.manager != self._me:
            return pool
        if self.epoch is None:
            verb = "took over" if move is Move.TAKE_OVER else "holds"
            log.info("%s %s lease %d of pool %d", self._me, verb, pool.epoch, self._pool_id)
        self.epoch = pool.epoch if self.epoch is None else self.epoch
        # The ledger's word as well: a renewal that was sent earlier and mined only now counts from then.
        self._sure_until_s = min(asked_s + pool.terms.lease_s, read_s + left_s)
        self._renewed.set()
        self._renewed = trio.Event()
        return pool


async def follow_manager(ledger: Ledger, network: Network, pool_id: int) -> NoReturn:
    """Make the network believe whoever the ledger says manages the pool, for ever."""
    told = network.authority
    while True:
        pool = await on_chain(ledger.pool, pool_id)
        authority = Authority(manager=pool.manager, epoch=pool.epoch)
        if authority != told:
            log.info("pool %d is managed by %s now, lease %d", pool_id, pool.manager, pool.epoch)
            try:
                await network.set_authority(authority)
                told = authority
            except NetworkDown as fault:
                log.warning("the network has not heard of the new manager yet: %s", fault)
        await trio.sleep(POLL_S)
