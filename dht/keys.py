"""Decides under which key of the directory a record lies. Keys hold the run, so two runs never mix.

What lies under one key travels in one message: so the nodes of a run are spread over NODE_SHARDS keys by their address.
"""

from __future__ import annotations

NODE_SHARDS = 16


def node_key(run_id: bytes, address: str) -> str:
    """Where this node publishes itself: by its address' last digit."""
    return f"{run_id.hex()}/nodes/{int(address[-1], NODE_SHARDS):x}"


def node_keys(run_id: bytes) -> tuple[str, ...]:
    """Where all nodes of the run are."""
    return tuple(node_key(run_id, f"{shard:x}") for shard in range(NODE_SHARDS))


def provider_key(run_id: bytes, content: bytes) -> str:
    """Where the providers of one blob or checkpoint are."""
    return f"{run_id.hex()}/provider/{content.hex()}"


def run_state_key(run_id: bytes) -> str:
    """Where the run's state is."""
    return f"{run_id.hex()}/run-state"
