"""The Merkle tree over the files of one batch, as `RunLedger` builds it, and a file's way to its root. Pure.

Pairs are hashed in ascending order, from the left; an odd last node rises unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence

import eth_abi
from eth_utils import keccak


def leaf_of(submission_id: bytes, file_hash: bytes) -> bytes:
    """Hashed twice, so that no inner node of the tree can pass for a leaf."""
    return keccak(keccak(eth_abi.encode(["bytes32", "bytes32"], [submission_id, file_hash])))


def root_of(leaves: Sequence[bytes]) -> bytes:
    """ValueError where there is no leaf."""
    return _layers(leaves)[-1][0]


def proof_of(leaves: Sequence[bytes], index: int) -> tuple[bytes, ...]:
    """The siblings from the leaf at `index` upwards; empty for a single leaf."""
    proof = []
    for layer in _layers(leaves)[:-1]:
        if (sibling := index ^ 1) < len(layer):
            proof.append(layer[sibling])
        index //= 2
    return tuple(proof)


def _layers(leaves: Sequence[bytes]) -> list[list[bytes]]:
    if not leaves:
        raise ValueError("a tree has at least one leaf")
    layers = [list(leaves)]
    while len(layers[-1]) > 1:
        below = layers[-1]
        pairs = [keccak(b"".join(sorted(below[i : i + 2]))) for i in range(0, len(below) - 1, 2)]
        layers.append(pairs + below[len(below) - len(below) % 2 :])
    return layers
