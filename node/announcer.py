"""Decides when this node's own records are signed and published: at once, then at a third of their lifetime.

Everything is published again as soon as dhtd was restarted. The wallet's key stays in this process. It refuses to let a
later record expire before an earlier one and to use a sequence number twice.
"""

from __future__ import annotations

import logging
import math

import trio

from dht.clock import NetworkClock
from dht.records import MAX_LIFETIME_S, RecordBody, SignedRecord, encode_record, sign_record
from dht.signing import RecordDomain, Signer
from node.child import ChildError
from node.dhtd_link import TYPED, DhtdLink, NetworkDown
from node.state import Counter, NodeState

Slot = tuple[str, bytes]  # what a record is about: (kind, content or b"")

RETRY_S = 1.0

log = logging.getLogger(__name__)


class Announcer:
    """The records this node stands for, by slot. `lifetime_s` is how long each lives without a refresh."""

    def __init__(
        self, link: DhtdLink, *, account: Signer, domain: RecordDomain, lifetime_s: float, state: NodeState,
        clock: NetworkClock,
    ) -> None:  # fmt: skip
        self._link, self._account, self._domain, self._lifetime_s = link, account, domain, lifetime_s
        self._clock, self._state = clock, state
        self._sequence: Counter | None = None  # opened when the clock is known: a new one starts at the time
        self._bodies: dict[Slot, RecordBody] = {}
        self._expiries: dict[Slot, int] = {}
        self._due: set[Slot] = set()
        self._wake = trio.Event()

    @property
    def slots(self) -> tuple[Slot, ...]:
        """What is announced now, oldest announcement first."""
        return tuple(self._bodies)

    def body(self, slot: Slot) -> RecordBody | None:
        """What is announced there now."""
        return self._bodies.get(slot)

    async def announce(self, slot: Slot, body: RecordBody) -> None:
        """Publishes `body` and keeps it published; not if it raises RecordInvalid, PublishRefused or NetworkDown."""
        await self.publish(self._sign(slot, body))
        self._bodies[slot] = body

    def announce_soon(self, slot: Slot, body: RecordBody) -> None:
        """Lets `refresh_forever` publish `body` in a moment and keep it published; failures are logged there."""
        self._bodies[slot] = body
        self._due.add(slot)
        self._wake.set()

    def withdraw(self, slot: Slot) -> None:
        """Stops refreshing; the record is gone within its lifetime. Nothing happens when it was not announced."""
        self._bodies.pop(slot, None)
        self._expiries.pop(slot, None)

    async def publish(self, record: SignedRecord) -> None:
        """Publishes any signed record once."""
        (refusal,) = await self._link.call("publish", records=[encode_record(record)])
        if refusal:
            raise TYPED[refusal[0]](refusal[1])

    def refresh_soon(self) -> None:
        """Makes `refresh_forever` publish everything now."""
        self._due.update(self._bodies)
        self._wake.set()

    async def refresh_forever(self) -> None:
        """Publishes everything again at a third of the lifetime; what failed or was refused, after RETRY_S as well.

        A new manager's first run state, and a new node's record, are refused by whoever has not yet read on the ledger
        of its lease, or its stake.
        """
        full_s, retry_s = trio.current_time() + self._lifetime_s / 3, math.inf
        while True:
            with trio.move_on_at(min(full_s, retry_s)):
                await self._wake.wait()
            if trio.current_time() >= full_s:
                full_s = trio.current_time() + self._lifetime_s / 3
                self._due.update(self._bodies)
            due = {slot: body for slot, body in self._bodies.items() if slot in self._due}
            self._wake, self._due, retry_s = trio.Event(), set(), math.inf
            failed = await self._refresh(due) if due else set()
            if failed:
                self._due |= failed
                retry_s = trio.current_time() + RETRY_S

    async def _refresh(self, due: dict[Slot, RecordBody]) -> set[Slot]:
        """Publishes these; returns those that are not out."""
        records = [encode_record(self._sign(slot, body)) for slot, body in due.items()]
        try:
            refusals = await self._link.call("publish", records=records)
        except (NetworkDown, ChildError) as error:
            log.warning("records were not refreshed: %s", error)
            return set(due)
        for _, message in filter(None, refusals):
            log.warning("a record was not refreshed: %s", message)
        return {slot for slot, refusal in zip(due, refusals, strict=True) if refusal}

    def _sign(self, slot: Slot, body: RecordBody) -> SignedRecord:
        now_s = self._clock.now_s()
        if self._sequence is None:
            self._sequence = self._state.sequence("record", start=int(now_s * 1000))
        expires = math.ceil(now_s + self._lifetime_s)
        earlier = self._expiries.get(slot, 0)
        # One dated further ahead was signed before the clock was put right, and nobody has taken it.
        if expires < earlier <= now_s + MAX_LIFETIME_S:
            expires = earlier
        self._expiries[slot] = expires
        return sign_record(
            body, domain=self._domain, account=self._account, sequence=self._sequence.next(), expires_unix_s=expires
        )
