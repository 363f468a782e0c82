from __future__ import annotations

import pytest

from verify.proofs import BlockErrors
from verify.thresholds import Thresholds, proof_statistics


def broken(exponents: int, mantissa: float, *, tokens: int = 32, blocks: int = 64, independent: int = 0) -> str | None:
    error = BlockErrors(
        exponent_mismatches=exponents, mantissa_mean=mantissa, mantissa_median=1.0, values=128, numel=tokens * 576
    )
    return Thresholds().broken_by(proof_statistics([error] * blocks, independent or blocks))


@pytest.mark.parametrize(
    ("tokens", "exponents", "mantissa"), [(1, 5, 2.6), (2, 6, 2.0), (8, 4, 1.85), (16, 3, 1.7), (32, 3, 1.44)]
)
def test_honest_blocks_of_every_length_pass_however_many_there_are(
    tokens: int, exponents: int, mantissa: float
) -> None:
    for blocks in (1, 16, 4096):
        assert broken(exponents, mantissa, tokens=tokens, blocks=blocks) is None


def test_the_worst_honest_block_seen_passes_alone() -> None:
    assert broken(10, 2.8, blocks=1) is None


def test_means_separate_what_single_blocks_cannot() -> None:
    assert broken(4, 2.82, blocks=1) is None
    assert "mean mantissa error" in str(broken(4, 2.82, blocks=64))
    assert "mean exponent mismatches" in str(broken(8, 1.4, blocks=64))


def test_copies_of_a_block_are_no_further_evidence() -> None:
    assert broken(6, 1.4, blocks=64, independent=8) is None
    assert "mean exponent mismatches" in str(broken(6, 1.4, blocks=64))


def test_one_foreign_block_is_enough() -> None:
    assert "one block" in str(broken(39, 1.0))
    assert "one block" in str(broken(1, 10.1))
