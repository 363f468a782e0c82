"""TOPLOC activation proofs: built while decoding, compared with a prefill of the same tokens.

A block is the final hidden states of up to 32 consecutive tokens, flattened. Its `k` values of largest magnitude
become the points (index, bf16 bits) of the one polynomial of degree < k modulo 65497 that passes through them; a
proof is the index modulus and the k coefficients, all big-endian uint16. Bytes and errors equal those of toploc 0.1.6,
shown on golden vectors and on 1,200 drawn inputs (scripts/write_toploc_vectors).

Ties at the k-th magnitude go to the lower index. toploc leaves that choice to torch's `topk`, whose order is
undefined; both are right, since a value outside a verifier's own top k merely counts as one mismatch.

Decides how far states and proof lie apart; refuses to say how far is too far (see `verify.thresholds`), and never
fails on hostile bytes: anything that no honest builder can emit is a `ProofFault`.

Source: arXiv 2501.16007 (TOPLOC), INTELLECT-2 report section 2.3.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

PRIME = 65497
"""Field of the polynomial and first choice of the index modulus."""
LEAST_MODULUS = 2**15 + 1
"""toploc searches no further down for an injective index modulus."""
BLOCK_TOKENS = 32
TOP_K = 128
NO_MATCH = 2.0**64
"""Mantissa error of a block in which no exponent matches."""

_P = np.uint32(PRIME)
_VALUES_AT_ONCE = 2**18
"""Keys that are partitioned together: 1 MB, which stays in a core's cache; 16 times as many take half as long again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockErrors:
    """Distance between one block of states and its proof, over the k largest states of the verifier."""

    exponent_mismatches: int
    """Values whose bf16 exponent differs, of k."""
    mantissa_mean: float
    """Mean absolute difference of 7-bit mantissas where exponents agree; `NO_MATCH` if none does."""
    mantissa_median: float
    """Upper median of the same differences."""
    values: int
    """k: how many values were compared."""
    numel: int
    """How many values the block holds; errors grow with the share that is compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofFault:
    """Proofs that no honest builder can have emitted for so many tokens: what is wrong, in words."""

    detail: str


def build_proofs(states: np.ndarray, *, block_tokens: int = BLOCK_TOKENS, topk: int = TOP_K) -> list[bytes]:
    """Proofs of one completion.

    Args:
        states: uint16 [tokens, hidden], bf16 bit patterns; row g is the state from which token g was sampled.

    Returns:
        ceil(tokens / block_tokens) proofs of 2 + 2 * min(topk, numbers in the block) bytes.
    """
    return build_many([states], block_tokens=block_tokens, topk=topk)[0]


def build_many(
    sequences: Sequence[np.ndarray], *, block_tokens: int = BLOCK_TOKENS, topk: int = TOP_K
) -> list[list[bytes]]:
    """`build_proofs` of many completions at once, vectorised over all their blocks.

    A call costs about a millisecond besides its blocks, so hand over 16 of them or more.
    """
    blocks = [block for states in sequences for block in _cut(states, block_tokens)]
    proofs: list[bytes] = [b""] * len(blocks)
    for members, index, bits in _top_points(blocks, topk):
        modulus = _injective_moduli(index)
        coefficients = _interpolate(index % modulus[:, None], bits % _P)
        rows = np.concatenate([modulus[:, None], coefficients], axis=1).astype(">u2")
        for member, row in zip(members, rows, strict=True):
            proofs[member] = row.tobytes()
    remaining = iter(proofs)
    return [[next(remaining) for _ in range(-(-len(s) // block_tokens))] for s in sequences]


def proof_fault(
    proofs: Sequence[bytes], *, tokens: int, hidden: int, block_tokens: int = BLOCK_TOKENS, topk: int = TOP_K
) -> ProofFault | None:
    """What is wrong with the number, lengths or encoding of a completion's proofs; needs no states."""
    expected = -(-tokens // block_tokens)
    if len(proofs) != expected:
        return ProofFault(detail=f"{len(proofs)} proofs for {tokens} tokens, not {expected}")
    for number, proof in enumerate(proofs):
        numel = min(block_tokens, tokens - number * block_tokens) * hidden
        fault = _encoding_fault(proof, numel, topk)
        if fault is not None:
            return ProofFault(detail=f"proof {number}: {fault}")
    return None


def check_proof(block: np.ndarray, proof: bytes, *, topk: int = TOP_K) -> BlockErrors:
    """Errors of one block (uint16 [tokens, hidden]); an impossible proof counts as k mismatches."""
    k = min(topk, block.size)
    if _encoding_fault(proof, block.size, topk) is not None:
        return BlockErrors(
            exponent_mismatches=k, mantissa_mean=NO_MATCH, mantissa_median=NO_MATCH, values=k, numel=block.size
        )
    return _errors([block], [proof], topk)[0]


def compare_proofs(
    states: np.ndarray, proofs: Sequence[bytes], *, block_tokens: int = BLOCK_TOKENS, topk: int = TOP_K
) -> tuple[BlockErrors, ...] | ProofFault:
    """Errors of each block of one completion, or what is wrong with the proofs themselves."""
    return compare_many([states], [proofs], block_tokens=block_tokens, topk=topk)[0]


def compare_many(
    sequences: Sequence[np.ndarray],
    proofs: Sequence[Sequence[bytes]],
    *,
    block_tokens: int = BLOCK_TOKENS,
    topk: int = TOP_K,
) -> list[tuple[BlockErrors, ...] | ProofFault]:
    """`compare_proofs` of many completions at once, vectorised over all their blocks."""
    faults = [
        proof_fault(p, tokens=len(s), hidden=s.shape[1], block_tokens=block_tokens, topk=topk)
        for s, p in zip(sequences, proofs, strict=True)
    ]
    sound = [i for i, fault in enumerate(faults) if fault is None]
    blocks = [block for i in sound for block in _cut(sequences[i], block_tokens)]
    errors = iter(_errors(blocks, [proof for i in sound for proof in proofs[i]], topk))
    return [fault if fault is not None else tuple(next(errors) for _ in proofs[i]) for i, fault in enumerate(faults)]


def _cut(states: np.ndarray, block_tokens: int) -> list[np.ndarray]:
    if states.dtype != np.uint16 or states.ndim != 2:
        raise TypeError(f"states are uint16 [tokens, hidden], not {states.dtype} {list(states.shape)}")
    return [states[start : start + block_tokens] for start in range(0, len(states), block_tokens)]


def _encoding_fault(proof: object, numel: int, topk: int) -> str | None:
    k = min(topk, numel)
    if not isinstance(proof, bytes):
        return f"{type(proof).__name__}, not bytes"
    if len(proof) != 2 + 2 * k:
        return f"{len(proof)} bytes, not {2 + 2 * k}"
    modulus, *coefficients = np.frombuffer(proof, dtype=">u2").tolist()
    least = PRIME if numel <= PRIME else LEAST_MODULUS
    if not least <= modulus <= PRIME:
        return f"modulus {modulus} is not in [{least}, {PRIME}]"
    if max(coefficients, default=0) >= PRIME:
        return f"a coefficient is not below {PRIME}"
    return None


def _top_points(blocks: Sequence[np.ndarray], topk: int) -> list[tuple[list[int], np.ndarray, np.ndarray]]:
    """Per distinct k: block numbers, and uint32 [blocks, k] indices and bits of the k largest magnitudes."""
    by_size: dict[int, list[int]] = {}
    for number, block in enumerate(blocks):
        by_size.setdefault(block.size, []).append(number)
    parts: dict[int, list[tuple[list[int], np.ndarray, np.ndarray]]] = {}
    for numel, members in by_size.items():
        at_once = max(1, _VALUES_AT_ONCE // max(1, numel))
        for start in range(0, len(members), at_once):
            chosen = members[start : start + at_once]
            flat = np.stack([blocks[m].reshape(-1) for m in chosen])
            index = _largest(flat, min(topk, numel))
            bits = np.take_along_axis(flat, index.astype(np.int64), axis=1).astype(np.uint32)
            parts.setdefault(index.shape[1], []).append((chosen, index, bits))
    points = []
    for same_k in parts.values():
        members, index, bits = zip(*same_k, strict=True)
        points.append(([m for part in members for m in part], np.concatenate(index), np.concatenate(bits)))
    return points


def _largest(flat: np.ndarray, k: int) -> np.ndarray:
    """uint32 [blocks, k] indices of the largest magnitudes of uint16 [blocks, numel], lower index first at a tie."""
    numel = flat.shape[1]
    index_bits = max(1, (numel - 1).bit_length())
    kind = np.uint32 if index_bits <= 17 else np.uint64
    last = kind((1 << index_bits) - 1)
    keys = (flat & np.uint16(0x7FFF)).astype(kind)
    keys <<= kind(index_bits)
    keys |= last - np.arange(numel, dtype=kind)
    keys.partition(numel - k, axis=1)
    chosen = keys[:, numel - k :]
    return (last - (chosen & last)).astype(np.uint32)


def _injective_moduli(index: np.ndarray) -> np.ndarray:
    """uint32 [blocks]: for each row the largest modulus up to 65497 that keeps its indices apart."""
    moduli = np.full(len(index), PRIME, dtype=np.uint32)
    for row in np.flatnonzero(index.max(axis=1, initial=0) >= PRIME):
        values, modulus = index[row], PRIME
        while len(np.unique(values % np.uint32(modulus))) < len(values):
            modulus -= 1
            if modulus < LEAST_MODULUS:
                raise ValueError("no injective modulus for the indices of this block")
        moduli[row] = modulus
    return moduli


@cache
def _inverses() -> np.ndarray:
    """uint32 [65497]: multiplicative inverses; entry 0 is never used."""
    table = [0, 1]
    for value in range(2, PRIME):
        table.append(PRIME - (PRIME // value) * table[PRIME % value] % PRIME)
    return np.array(table, dtype=np.uint32)


def _reduce(values: np.ndarray) -> np.ndarray:
    """Values modulo 65497 by numpy's vectorised division by a scalar, much faster than its `%`."""
    return values - values // _P * _P


def _minus(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """(a - b) modulo 65497 for reduced uint32: of the two wrapped candidates the right one is smaller."""
    difference = a - b
    return np.minimum(difference, difference + _P)


def _interpolate(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Coefficients, ascending, of the polynomials through reduced points; all uint32 [blocks, k].

    Newton's divided differences, then expanded from the last factor to the first. Every product of two reduced numbers
    plus a third stays below 2^32, so uint32 never overflows.
    """
    inverse = _inverses()
    x, divided = np.ascontiguousarray(x.T), np.ascontiguousarray(y.T)
    k, signed = len(x), x.astype(np.int64)
    for order in range(1, k):
        run = inverse[signed[order:] - signed[:-order]]  # a negative difference counts from the table's end: modulo P
        divided[order:] = _reduce(_minus(divided[order:], divided[order - 1 : -1]) * run)
    opposite = _minus(np.zeros_like(x), x)
    coefficients = np.zeros_like(divided)
    coefficients[:1] = divided[-1:]
    for degree in range(1, k):  # times (X - x), plus the next difference
        point = k - 1 - degree
        scaled = coefficients[:degree] * opposite[point]
        scaled[1:] += coefficients[: degree - 1]
        scaled[0] += divided[point]
        coefficients[degree] = coefficients[degree - 1]
        coefficients[:degree] = _reduce(scaled)
    return coefficients.T


def _evaluate(coefficients: np.ndarray, x: np.ndarray) -> np.ndarray:
    """uint32 [blocks, k]: Horner at reduced points."""
    x, coefficients = np.ascontiguousarray(x.T), coefficients.T
    result = np.zeros_like(x)
    for coefficient in coefficients[::-1]:
        result = _reduce(result * x + coefficient)
    return result.T


def _errors(blocks: Sequence[np.ndarray], proofs: Sequence[bytes], topk: int) -> list[BlockErrors]:
    errors: dict[int, BlockErrors] = {}
    for members, index, bits in _top_points(blocks, topk):
        proof = np.stack([np.frombuffer(proofs[m], dtype=">u2") for m in members]).astype(np.uint32)
        claimed = _evaluate(proof[:, 1:], index % proof[:, :1])
        same = (claimed & 0x7F80) == (bits & 0x7F80)
        distance = np.abs((claimed & 0x7F).astype(np.int32) - (bits & 0x7F).astype(np.int32))
        for row, member in enumerate(members):
            matched = np.sort(distance[row, same[row]])
            errors[member] = BlockErrors(
                exponent_mismatches=int(len(same[row]) - len(matched)),
                mantissa_mean=float(matched.mean()) if len(matched) else NO_MATCH,
                mantissa_median=float(matched[len(matched) // 2]) if len(matched) else NO_MATCH,
                values=len(same[row]),
                numel=blocks[member].size,
            )
    return [errors[number] for number in range(len(blocks))]
