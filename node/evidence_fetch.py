"""Fetches the evidence of verdicts from the relays, as anybody may who passes by.

Decides only how long it waits. What comes is bounded, compared with the ledger's hash and read strictly; what does not
come, or is not that, is said to be missing, and why.
"""

from __future__ import annotations

from dataclasses import replace

from dht.plan import ContentUnavailable
from node.config import RunConfig
from node.evidence import MAX_EVIDENCE_BYTES, EvidenceInvalid, decode
from node.explain import Grounds
from node.handover import relay_urls
from node.network import Network
from node.peers import live_nodes, passing_client

FETCH_TIMEOUT_S = 5.0


async def fetched(config: RunConfig, join: tuple[str, ...], grounds: tuple[Grounds, ...]) -> tuple[Grounds, ...]:
    """The same with their evidence, as far as a relay serves it. Raises UserError."""
    async with passing_client(config, join) as (ledger, network):
        await live_nodes(network)
        urls = await relay_urls(ledger, network, config.ledger.pool_id)
        return tuple([await _fetch(network, urls, one) for one in grounds])


async def _fetch(network: Network, urls: list[str], grounds: Grounds) -> Grounds:
    try:
        path = await network.content.fetch_blob(
            grounds.evidence_hash, max_bytes=MAX_EVIDENCE_BYTES, timeout_s=FETCH_TIMEOUT_S, urls=urls
        )
        return replace(grounds, evidence=decode(path.read_bytes(), grounds.evidence_hash))
    except ContentUnavailable:
        return replace(grounds, missing="no relay serves it")
    except EvidenceInvalid as fault:
        return replace(grounds, missing=f"what the validator handed over is no evidence: {fault}")
