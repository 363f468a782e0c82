"""The relay's side of what it is handed: submissions of workers, evidence of validators; taken, kept, served by hash.

It takes them from active members of that role only, and believes a peer to be one if the node record that the member's
wallet signed names the peer id that the transport authenticated. It keeps the newest of each member, and takes no more
evidence a second than a validator can honestly make. It never opens what it keeps.
"""

from __future__ import annotations

import logging
from collections import defaultdict, deque
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import trio
from eth_utils import is_checksum_address

from ledger.client import Ledger
from ledger.types import Role
from node.chain import on_chain
from node.evidence import MAX_EVIDENCE_BYTES, PREFIX
from node.handover import EVIDENCE_PROTOCOL, NOT_A_MEMBER, OVERHEAD_BYTES, SUBMISSION_PROTOCOL
from node.metrics import MetricsLog
from node.network import Network
from node.streams import Peer, Refusal

log = logging.getLogger(__name__)
EVIDENCE_BURST, EVIDENCE_PER_S = 64, 2.0
"""A validator that was away may bring what has piled up; then one verdict takes it seconds of prefill."""


@dataclass(slots=True)
class Shelf:
    """One kind of thing that is kept; the newest `max_files` of each owner."""

    what: str
    role: Role
    prefix: bytes
    """How each begins: what else is kept by its hash (a manifest, say) is not a member's to replace."""
    max_bytes: int
    max_files: int
    announce: bool
    """Whether the DHT is told of each; else one asks the relays."""
    kept: defaultdict[str, deque[bytes]] = field(default_factory=lambda: defaultdict(deque))
    owners: dict[bytes, str] = field(default_factory=dict)
    """Who handed a thing in first, and whose limit alone can push it out."""


@dataclass(slots=True)
class Allowance:
    """What one member may still bring; grows with time up to a bound."""

    left: float
    at_s: float

    def take(self, now_s: float) -> bool:
        """Whether one more is allowed now."""
        self.left = min(EVIDENCE_BURST, self.left + (now_s - self.at_s) * EVIDENCE_PER_S)
        self.at_s = now_s
        if self.left < 1:
            return False
        self.left -= 1
        return True


class Reception:
    """What a relay keeps of others."""

    def __init__(
        self, ledger: Ledger, network: Network, metrics: MetricsLog, *, pool_id: int, max_bytes: int, max_files: int,
        max_evidence: int,
    ) -> None:  # fmt: skip
        self._ledger, self._network, self._metrics, self._pool_id = ledger, network, metrics, pool_id
        self._files = Shelf("submission", Role.WORKER, b"PAR1", max_bytes, max_files, announce=True)
        self._evidence = Shelf("evidence", Role.VALIDATOR, PREFIX, MAX_EVIDENCE_BYTES, max_evidence, announce=False)
        self._allowances: dict[str, Allowance] = {}

    def listen(self, peer: Peer) -> None:
        """Answer workers and validators from now on."""
        for protocol, shelf in ((SUBMISSION_PROTOCOL, self._files), (EVIDENCE_PROTOCOL, self._evidence)):
            peer.handle(protocol, partial(self._receive, shelf), shelf.max_bytes + OVERHEAD_BYTES)

    async def _receive(self, shelf: Shelf, remote: str, message: dict[str, Any]) -> dict[str, Any]:
        address, data = message.get("address"), message.get("data")
        if not is_checksum_address(address) or not isinstance(data, bytes) or not 0 < len(data) <= shelf.max_bytes:
            raise Refusal("malformed", f"{shelf.what}: an address and 1 to {shelf.max_bytes} bytes")
        if not data.startswith(shelf.prefix):
            raise Refusal("malformed", f"{shelf.what}: begins with {shelf.prefix!r}")
        node = await self._network.node(address)
        if node is None or node.peer_id != remote:
            raise Refusal("unknown", "no node record ties this peer id to that address")
        member = await on_chain(self._ledger.member, self._pool_id, address)
        if not member.active or member.role is not shelf.role:
            raise Refusal(NOT_A_MEMBER, f"{shelf.what}: from active {shelf.role.name.lower()}s of the pool only")
        if shelf is self._evidence:
            now_s = trio.current_time()
            if not self._allowances.setdefault(address, Allowance(EVIDENCE_BURST, now_s)).take(now_s):
                raise Refusal("busy", f"more than {EVIDENCE_PER_S:g} pieces of evidence a second")
        sha256 = await self._keep(shelf, address, data)
        log.info("took %d bytes of %s from %s", len(data), shelf.what, address)
        if shelf is self._files:
            self._metrics.write("received", node=address, size_bytes=len(data), file_hash=sha256.hex())
        return {"sha256": sha256}

    async def _keep(self, shelf: Shelf, address: str, data: bytes) -> bytes:
        sha256 = await self._network.content.add_blob(data, announce=shelf.announce)
        kept = shelf.kept[address]
        if shelf.owners.setdefault(sha256, address) == address and sha256 not in kept:
            kept.append(sha256)
        while len(kept) > shelf.max_files:
            del shelf.owners[kept[0]]
            await self._network.content.remove_blob(kept.popleft())
        return sha256
