from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from verify.proofs import (
    NO_MATCH,
    BlockErrors,
    ProofFault,
    build_many,
    build_proofs,
    check_proof,
    compare_many,
    compare_proofs,
    proof_fault,
)
from verify.thresholds import Thresholds, proof_statistics

GOLDEN = json.loads((Path(__file__).parents[1] / "vectors" / "toploc-golden.json").read_text())


def bf16(values: np.ndarray) -> np.ndarray:
    """Bits of float32 rounded to nearest even."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def float32(bits: np.ndarray) -> np.ndarray:
    return (bits.astype(np.uint32) << 16).view(np.float32)


def noise(seed: int, *shape: int) -> np.ndarray:
    return bf16(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


@pytest.mark.parametrize("case", GOLDEN["cases"], ids=lambda case: case["name"])
def test_bytes_and_errors_equal_those_of_toploc(case: dict) -> None:
    seed, shape = case["input"]["seed"], case["input"]["shape"]
    cut = {"block_tokens": case["decode_batching_size"], "topk": case["topk"]}
    states = noise(seed, *shape)
    assert hashlib.sha256(states.astype("<u2").tobytes()).hexdigest() == case["input"]["sha256_le_u16"]
    proofs = build_proofs(states, **cut)
    assert [proof.hex() for proof in proofs] == case["proofs_hex"]
    perturbed = bf16(float32(states) + np.float32(0.01) * float32(noise(seed + 1_000_000, *shape)))
    errors = compare_proofs(perturbed, proofs, **cut)
    assert isinstance(errors, tuple)
    seen = [[e.exponent_mismatches, e.mantissa_mean, e.mantissa_median] for e in errors]
    assert seen == case["perturbed"]["c_path"]
    blocks = [states[start : start + cut["block_tokens"]] for start in range(0, len(states), cut["block_tokens"])]
    for block, proof in zip(blocks, proofs, strict=True):
        same = check_proof(block, proof, topk=cut["topk"])
        assert (same.exponent_mismatches, same.mantissa_mean, same.mantissa_median) == (0, 0.0, 0.0)


@pytest.mark.parametrize("points", GOLDEN["points"], ids=lambda points: points["hex"])
def test_polynomials_equal_those_of_toploc(points: dict) -> None:
    states = np.zeros((1, max(points["x"]) + 1), dtype=np.uint16)
    states[0, points["x"]] = points["y"]
    (proof,) = build_proofs(states, topk=len(points["x"]))
    assert proof.hex() == points["hex"]


@pytest.mark.parametrize("tokens", [0, 1, 31, 32, 33, 64])
def test_block_counts_are_exact_also_for_one_token(tokens: int) -> None:
    states = noise(tokens, tokens, 64)
    proofs = build_proofs(states)
    assert len(proofs) == -(-tokens // 32)
    errors = compare_proofs(states, proofs)
    assert errors == tuple(
        BlockErrors(
            exponent_mismatches=0, mantissa_mean=0.0, mantissa_median=0.0, values=min(128, size * 64), numel=size * 64
        )
        for size in [32] * (tokens // 32) + [tokens % 32] * (tokens % 32 > 0)
    )


def test_many_sequences_at_once_equal_one_by_one() -> None:
    sequences = [noise(n, n, 48) for n in (5, 0, 32, 1, 70, 33)]
    proofs = build_many(sequences)
    assert proofs == [build_proofs(s) for s in sequences]
    others = [noise(n + 100, n, 48) for n in (5, 0, 32, 1, 70, 33)]
    assert compare_many(others, proofs) == [compare_proofs(s, p) for s, p in zip(others, proofs, strict=True)]


def test_ties_go_to_the_lower_index() -> None:
    states = np.full((1, 8), 0x3F80, dtype=np.uint16)
    states[0, 5:] |= 0x8000  # -1.0: the same magnitude
    assert build_proofs(states, topk=2) == [bytes.fromhex("ffd93f800000")]  # constant 1.0 through indices 0 and 1


def test_a_null_proof_is_a_fault() -> None:
    states = noise(0, 10, 16)
    null = bytes.fromhex(GOLDEN["null_proof_hex"])
    good = build_proofs(states, block_tokens=3, topk=4)
    fault = compare_proofs(states, [null, *good[1:]], block_tokens=3, topk=4)
    assert isinstance(fault, ProofFault)
    assert "modulus 0" in fault.detail
    assert check_proof(states[:3], null, topk=4).mantissa_mean == NO_MATCH


@pytest.mark.parametrize("tokens", [1, 32, 33, 70])
@pytest.mark.parametrize("change", [-1, 1])
def test_one_proof_less_or_more_is_a_fault_at_any_length(tokens: int, change: int) -> None:
    """toploc's verifier zips: it would compare what is there, and an empty list proves everything."""
    states = noise(0, tokens, 64)
    proofs = build_proofs(states)
    miscounted = proofs[:change] if change < 0 else [*proofs, proofs[0]]
    assert isinstance(compare_proofs(states, miscounted), ProofFault)
    assert isinstance(proof_fault(miscounted, tokens=tokens, hidden=64), ProofFault)


def test_lists_of_different_lengths_are_our_own_fault() -> None:
    states = noise(0, 4, 64)
    with pytest.raises(ValueError, match="zip"):
        compare_many([states, states], [build_proofs(states)])


def test_proofs_in_another_order_lie_too_far_away() -> None:
    sequences = [noise(n, 64, 576) for n in range(3)]
    proofs = build_many(sequences)
    elsewhere = [[b, a] for a, b in proofs], [*proofs[1:], proofs[0]]
    for shuffled in elsewhere:
        for errors in compare_many(sequences, shuffled):
            assert isinstance(errors, tuple)
            assert all(Thresholds().broken_by(proof_statistics([e], 1)) for e in errors)


@pytest.mark.parametrize("loud", [False, True], ids=["equal columns", "a loud column"])
def test_the_best_constant_is_no_proof(loud: bool) -> None:
    """A commitment to one value, chosen with all states known, keeps the exponents' bound but not the mantissas'."""
    states = noise(5, 32, 576)
    if loud:  # the 32 largest are one dimension's, as in real models
        states[:, 7] += 5 << 7
    largest = np.sort(states.reshape(-1) & 0x7FFF)[-128:]
    exponents = np.unique(largest >> 7)
    constants = [int(exponent) << 7 | mantissa for exponent in exponents for mantissa in range(128)]
    proofs = [b"\xff\xd9" + constant.to_bytes(2, "big") + bytes(254) for constant in constants]
    compared = compare_many([states] * len(proofs), [[proof] for proof in proofs])
    errors = [e for block in compared if isinstance(block, tuple) for e in block]
    assert len(errors) == len(constants)
    assert [Thresholds().broken_by(proof_statistics([e], 1)) for e in errors].count(None) == 0
    assert min(e.exponent_mismatches for e in errors) <= 38


@pytest.mark.parametrize(
    ("proof", "fault"),
    [
        (b"", "0 bytes, not 258"),
        (b"\xff\xd9", "2 bytes, not 258"),
        (bytes(257), "257 bytes, not 258"),
        (bytes(260), "260 bytes, not 258"),
        (bytes(258), "modulus 0 "),
        (b"\x00\x01" + bytes(256), "modulus 1 "),
        (b"\xff\xd8" + bytes(256), "modulus 65496 "),
        (b"\xff\xff" + bytes(256), "modulus 65535 "),
        (b"\xff\xd9" + b"\xff" * 256, "a coefficient"),
        (None, "NoneType, not bytes"),
    ],
)
def test_what_no_builder_emits_is_a_fault(proof: bytes, fault: str) -> None:
    found = proof_fault([proof], tokens=32, hidden=64)
    assert found is not None
    assert fault in found.detail


def test_hostile_bytes_never_crash() -> None:
    rng = np.random.default_rng(0)
    states = noise(1, 32, 64)
    for length in (0, 1, 2, 3, 257, 258, 259, 5000):
        for _ in range(20):
            proof = rng.bytes(length)
            check_proof(states, proof)
            compare_proofs(states, [proof])
            compare_proofs(states, [b"\xff\xd9" + bytes(np.minimum(np.frombuffer(proof, np.uint8), 254))])


def test_indices_beyond_the_prime_get_the_largest_injective_modulus() -> None:
    states = np.zeros((32, 4096), dtype=np.uint16)
    states.reshape(-1)[[1, 65498, 3, 65499]] = 0x4000  # they differ by 65497, 65496 and 65495
    (proof,) = build_proofs(states, topk=4)
    assert int.from_bytes(proof[:2]) == 65494
    assert compare_proofs(states, [proof], topk=4)[0].exponent_mismatches == 0


def test_states_of_another_type_are_our_own_fault() -> None:
    with pytest.raises(TypeError, match="uint16"):
        build_proofs(np.zeros((3, 4), dtype=np.float32))
