"""A submission's way from the worker to relays: handed over, acknowledged; only then is it recorded.

What a verdict rests on goes the same way from the validator, once the verdict is revealed: before, whoever sees it
knows what is still secret. What the relay does with either is `node.reception`'s.
"""

from __future__ import annotations

import hashlib
import logging
import random
from pathlib import Path

import trio

from dht.records import NodeRecord
from ledger.client import Ledger
from ledger.types import Role
from node.chain import on_chain
from node.dhtd_link import NetworkDown
from node.membership import raise_if_blacklisted
from node.network import Network
from node.stream_errors import RemoteError
from node.streams import Peer, StreamError

log = logging.getLogger(__name__)
SUBMISSION_PROTOCOL = "/intellect-node/submission/1"
EVIDENCE_PROTOCOL = "/intellect-node/evidence/1"
OVERHEAD_BYTES = 1024
NOT_A_MEMBER = "not-a-member"
COPIES = 2
"""Relays that each file is given to where there are so many: work whose only holder drops it would be late."""
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
    """Give the file to `COPIES` relays, or to as many as take it, and wait for their acknowledgements; its SHA-256.

    Raises Blacklisted where that is why no relay takes it.
    """
    data = await trio.Path(path).read_bytes()
    return await _give(
        ledger, peer, network, SUBMISSION_PROTOCOL, data, pool_id=pool_id, address=address, timeout_s=timeout_s
    )


async def hand_over_evidence(
    ledger: Ledger, peer: Peer, network: Network, data: bytes, *, pool_id: int, address: str, timeout_s: float
) -> bytes:
    """The same for what a verdict rests on."""
    return await _give(
        ledger, peer, network, EVIDENCE_PROTOCOL, data, pool_id=pool_id, address=address, timeout_s=timeout_s
    )


async def _give(
    ledger: Ledger, peer: Peer, network: Network, protocol: str, data: bytes, *, pool_id: int, address: str,
    timeout_s: float,
) -> bytes:  # fmt: skip
    sha256 = hashlib.sha256(data).digest()
    delay_s = RETRY_FIRST_S
    while True:
        try:
            candidates = await relays(ledger, network, pool_id)
        except NetworkDown as fault:
            log.warning("cannot look for relays: %s", fault)
            candidates = []
        taken = 0
        for relay in candidates:
            reply = await _offer(
                ledger, peer, relay, protocol, data, pool_id=pool_id, address=address, timeout_s=timeout_s
            )
            taken += reply == sha256
            if reply not in (None, sha256):
                log.warning("relay %s acknowledged another file than it was given", relay.address)
            if taken == COPIES:
                break
        if taken:
            return sha256
        log.warning("no relay of %d took it; trying again in %.0f s", len(candidates), delay_s)
        await trio.sleep(delay_s)
        delay_s = min(2 * delay_s, RETRY_LAST_S)


async def _offer(
    ledger: Ledger, peer: Peer, relay: NodeRecord, protocol: str, data: bytes, *, pool_id: int, address: str,
    timeout_s: float,
) -> object:  # fmt: skip
    """The SHA-256 that this relay acknowledges; None where it takes nothing. Raises Blacklisted."""
    try:
        reply = await peer.request(
            relay.multiaddrs[0],
            protocol,
            {"address": address, "data": data},
            timeout_s=timeout_s,
            max_bytes=OVERHEAD_BYTES,
        )
    except StreamError as fault:
        log.warning("relay %s did not take what it was given: %s", relay.address, fault)
        if isinstance(fault, RemoteError) and fault.code == NOT_A_MEMBER:
            raise_if_blacklisted(await on_chain(ledger.member, pool_id, address), pool_id)
        return None
    return reply.get("sha256", b"")
