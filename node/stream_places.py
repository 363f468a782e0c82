"""How many requests of other peers run at once, and which of them gives way when all places are taken.

Decides by who is waited for: a request that is still arriving, or whose answer the peer has not yet taken, costs its
peer nothing and us a place, so it gives way to a newer one; the first to go is the oldest of the peer that has most of
them. What our own handler works on gives way to nobody. It refuses a peer more than its share, and counts nobody who
was refused. Knows neither streams nor messages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import trio


class NoPlace(Exception):
    """The peer has as many requests as it may have, or all places are taken by work of ours."""


class GaveWay(Exception):
    """The request waited for its peer and lost its place to a newer one."""


class Places:
    """The places of one host: `per_peer` for each peer, `in_all` together."""

    def __init__(self, *, per_peer: int, in_all: int) -> None:
        self._per_peer, self._in_all = per_peer, in_all
        self._taken: Counter[str] = Counter()
        self._waiting: dict[trio.CancelScope, str] = {}
        """Which requests wait for their peer, oldest first."""

    @property
    def taken(self) -> int:
        """How many are taken now."""
        return self._taken.total()

    @contextmanager
    def take(self, peer: str) -> Iterator[None]:
        """A place for one request of `peer` in the block. Raises NoPlace."""
        if self._taken[peer] >= self._per_peer:
            raise NoPlace(f"at most {self._per_peer} requests of one peer at once")
        if self.taken >= self._in_all and not self._give_way():
            raise NoPlace(f"at most {self._in_all} requests at once")
        self._taken[peer] += 1
        try:
            yield
        finally:
            self._taken[peer] -= 1
            if not self._taken[peer]:
                del self._taken[peer]

    @contextmanager
    def waiting(self, peer: str) -> Iterator[None]:
        """Marks that in the block the request, which has a place, waits for its peer. Raises GaveWay."""
        with trio.CancelScope() as scope:
            self._waiting[scope] = peer
            try:
                yield
            finally:
                self._waiting.pop(scope, None)
        if scope.cancelled_caught:
            raise GaveWay(f"a request of {peer} was too slow while all places were taken")

    def _give_way(self) -> bool:
        if not self._waiting:
            return False
        of_peer = Counter(self._waiting.values())
        slowest = max(self._waiting, key=lambda scope: of_peer[self._waiting[scope]])
        del self._waiting[slowest]  # it ends in a moment, and is not chosen twice
        slowest.cancel()
        return True
