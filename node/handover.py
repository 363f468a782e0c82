"""A submission's way from the worker to a relay: handed over, stored, acknowledged; only then is it recorded.

The relay takes files from active workers of the pool only, and believes a peer to be one if the node record that the
worker's wallet signed names the peer id that the transport authenticated. It never opens the file.
"""

from __future__ import annotations

import hashlib
import logging
import random
from collections import defaultdict, deque
from pathlib import Path
from typing import Any

import trio

from dht.records import NodeRecord
from ledger.client import Ledger
from ledger.types import Role
from node.chain import on_chain
from node.dhtd_link import NetworkDown
from node.membership import raise_if_blacklisted
from node.metrics import MetricsLog
from node.network import Network
from node.stream_errors import RemoteError
from node.streams import Peer, Refusal, StreamError

log = logging.getLogger(__name__)
SUBMISSION_PROTOCOL = "/intellect-node/submission/1"
OVERHEAD_BYTES = 1024
NOT_A_MEMBER = "not-a-member"
RETRY_FIRST_S, RETRY_LAST_S = 1.0, 15.0


async def relays(ledger: Ledger, network: Network, pool_id: int) -> list[NodeRecord]:
    """The live relays that are members of the pool, in random order; anybody can announce to be one.

    Raises NetworkDown.
    """
    known = [record.content for record in await network.nodes()]
    found = []
    for node in known:
        if isinstance(node, NodeRecord) and "relay" in node.roles and node.multiaddrs:
            member = await on_chain(ledger.member, pool_id, node.address)
            if member.active and member.role is Role.RELAY:
                found.append(node)
    random.shuffle(found)
    return found


async def relay_urls(ledger: Ledger, network: Network, pool_id: int) -> list[str]:
    """Where relays serve content: they keep submissions longer than they announce each of them."""
    return [relay.bulk_url for relay in await relays(ledger, network, pool_id)]


async def hand_over(
    ledger: Ledger, peer: Peer, network: Network, path: Path, *, pool_id: int, address: str, timeout_s: float
) -> bytes:
    """Give the file to a relay and wait for its acknowledgement, trying relays until one takes it; its SHA-256.

    Raises Blacklisted where that is why no relay takes it.
    """
    data = await trio.Path(path).read_bytes()
    sha256 = hashlib.sha256(data).digest()
    delay_s = RETRY_FIRST_S
    while True:
        try:
            candidates = await relays(ledger, network, pool_id)
        except NetworkDown as fault:
            log.warning("cannot look for relays: %s", fault)
            candidates = []
        for relay in candidates:
            try:
                reply = await peer.request(
                    relay.multiaddrs[0],
                    SUBMISSION_PROTOCOL,
                    {"address": address, "data": data},
                    timeout_s=timeout_s,
                    max_bytes=OVERHEAD_BYTES,
                )
            except StreamError as fault:
                log.warning("relay %s did not take a submission: %s", relay.address, fault)
                if isinstance(fault, RemoteError) and fault.code == NOT_A_MEMBER:
                    raise_if_blacklisted(await on_chain(ledger.member, pool_id, address), pool_id)
                continue
            if reply.get("sha256") == sha256:
                return sha256
            log.warning("relay %s acknowledged another file than it was given", relay.address)
        log.warning("no relay of %d took the submission; trying again in %.0f s", len(candidates), delay_s)
        await trio.sleep(delay_s)
        delay_s = min(2 * delay_s, RETRY_LAST_S)


class Reception:
    """The relay's side: takes, keeps and serves the newest `max_files` submissions of each worker."""

    def __init__(
        self, ledger: Ledger, network: Network, metrics: MetricsLog, *, pool_id: int, max_bytes: int, max_files: int
    ) -> None:
        self._ledger, self._network, self._metrics = ledger, network, metrics
        self._pool_id, self._max_bytes, self._max_files = pool_id, max_bytes, max_files
        self._kept: defaultdict[str, deque[bytes]] = defaultdict(deque)
        self._owners: dict[bytes, str] = {}
        """Who handed a file in first, and whose limit alone can push it out."""

    def listen(self, peer: Peer) -> None:
        """Answer workers from now on."""
        peer.handle(SUBMISSION_PROTOCOL, self._receive, self._max_bytes + OVERHEAD_BYTES)

    async def _receive(self, remote: str, message: dict[str, Any]) -> dict[str, Any]:
        address, data = message.get("address"), message.get("data")
        # The first bytes of Parquet: what else is kept by its hash (a manifest, say) is not a worker's to replace.
        if not isinstance(address, str) or not isinstance(data, bytes) or not 0 < len(data) <= self._max_bytes:
            raise Refusal("malformed", f"a submission is an address and 1 to {self._max_bytes} bytes")
        if not data.startswith(b"PAR1"):
            raise Refusal("malformed", "a submission is a Parquet file")
        known = [r.content for r in await self._network.nodes() if r.subject == address]
        if not any(isinstance(node, NodeRecord) and node.peer_id == remote for node in known):
            raise Refusal("unknown", "no node record ties this peer id to that address")
        member = await on_chain(self._ledger.member, self._pool_id, address)
        if not member.active or member.role is not Role.WORKER:
            raise Refusal(NOT_A_MEMBER, "only active workers of the pool may submit")
        sha256 = await self._network.content.add_blob(data)
        kept = self._kept[address]
        if self._owners.setdefault(sha256, address) == address and sha256 not in kept:
            kept.append(sha256)
        while len(kept) > self._max_files:
            del self._owners[kept[0]]
            await self._network.content.remove_blob(kept.popleft())
        log.info("took %d bytes from %s", len(data), address)
        self._metrics.write("received", node=address, size_bytes=len(data), file_hash=sha256.hex())
        return {"sha256": sha256}
