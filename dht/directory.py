"""Decides what a directory of signed records promises, and keeps an in-memory one for simulation and tests.

MemoryDirectory checks every record on put and on get by its own clock, exactly as the Kademlia one does. It refuses
to trust the shared network it reads, and to keep anything past its expiry.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from typing import Protocol

from dht.admission import EVERYBODY
from dht.records import Authority, RecordInvalid, SignedRecord, encode_record, open_record, storage_time
from dht.signing import RecordDomain


class PublishRefused(Exception):
    """The directory keeps a newer record of this subject under this key, or no node would store this one."""


class Directory(Protocol):
    """Publish and look up signed records.

    Both raise only typed errors; a lookup of an unknown key is an empty tuple.
    """

    async def publish(self, record: SignedRecord) -> None:
        """Raises RecordInvalid when the record breaks a rule, PublishRefused when a newer one is kept."""
        ...

    async def lookup(self, *keys: str) -> tuple[SignedRecord, ...]:
        """Valid, unexpired records under `keys`, of each subject the newest under each, key by key by subject."""
        ...


def newest(
    key: str,
    values: Iterable[bytes],
    *,
    domain: RecordDomain,
    authority: Authority,
    admitted: Container[str],
    now_unix_s: float,
) -> tuple[SignedRecord, ...]:
    """The rule of every lookup: invalid bytes and other keys are dropped, the highest sequence of a subject wins."""
    best: dict[str, SignedRecord] = {}
    for value in values:
        try:
            record = open_record(value, domain=domain, authority=authority, admitted=admitted, now_unix_s=now_unix_s)
        except RecordInvalid:
            continue  # whoever served it lied or its time is over: it does not exist
        if record.key == key and record.sequence > getattr(best.get(record.subject), "sequence", -1):
            best[record.subject] = record
    return tuple(best[subject] for subject in sorted(best))


class MemoryNetwork:
    """What all MemoryDirectories of a simulation share: key → subject → (storage time, bytes).

    Trusts nobody, checks nothing.
    """

    def __init__(self) -> None:
        self.entries: dict[str, dict[str, tuple[float, bytes]]] = {}


class MemoryDirectory:
    """Directory over a MemoryNetwork; `clock` gives unix seconds. `authority` and `admitted` may change any time."""

    def __init__(
        self, network: MemoryNetwork, *, domain: RecordDomain, authority: Authority, clock: Callable[[], float],
        admitted: Container[str] = EVERYBODY,
    ) -> None:  # fmt: skip
        self._network, self._domain, self.authority, self._clock = network, domain, authority, clock
        self.admitted = admitted

    async def publish(self, record: SignedRecord) -> None:
        data = encode_record(record)
        record = open_record(
            data, domain=self._domain, authority=self.authority, admitted=self.admitted, now_unix_s=self._clock()
        )
        slot = self._network.entries.setdefault(record.key, {})
        kept_until, _ = slot.get(record.subject, (0.0, b""))
        if kept_until >= storage_time(record):
            raise PublishRefused(f"a newer {record.kind} record of {record.subject} is kept")
        slot[record.subject] = (storage_time(record), data)

    async def lookup(self, *keys: str) -> tuple[SignedRecord, ...]:
        return tuple(record for key in keys for record in self._under(key))

    def _under(self, key: str) -> tuple[SignedRecord, ...]:
        slot = self._network.entries.get(key, {})
        now = self._clock()
        for subject in [subject for subject, (kept_until, _) in slot.items() if kept_until < now]:
            del slot[subject]
        return newest(
            key, (data for _, data in slot.values()), domain=self._domain, authority=self.authority,
            admitted=self.admitted, now_unix_s=now,
        )  # fmt: skip
