"""How far activations may lie from their proofs before other weights are the only explanation.

Decides from measured errors alone. Two bounds hold together: one for every single block, wide (the paper's), and one
for the mean over the whole submission, tight, because a mean separates what single blocks cannot.

Measured on SmolLM2-135M, 32-token blocks, top-k 128 (exponent mismatches: mean, max; mantissa error: mean, max):

    honest, decode and prefill in bf16 by different engines     2.3-2.6, 10    1.36-1.46, 2.8
    honest, decode in fp32                                      within that    1.22
    noise of 1e-3, or a policy one GRPO step away               2.4-2.6, 10    1.38, 2.8
    noise of 1e-2 on weights                                    4.8, 16        2.87, 6.0
    int8 weights                                                4.6, 16        2.82, 5.3
    fp8 weights                                                 8.1, 26        5.14, 9.3
    another prompt                                              8.6, 45        5.10, 16.7
    noise of 5e-2 on weights                                    17, 70         10.4, 21
    int4 weights                                                39, 83         19.7, 34

The paper's block bounds first bite at the last rows; the mean over a submission separates all from `int8` on.

Short blocks err more, since 128 values are then a larger share of theirs and include smaller ones. Decode in float32,
prefill in bf16, honest (exponent mismatches, mantissa error): 1 token 4.6, 2.5; 8 tokens 3.6, 1.8; 16 tokens 2.8,
1.7; 32 tokens 2.4, 1.4. That is a power of the share, about -0.18; means are taken of errors scaled back by it to a
full block, so that a policy that learns to answer briefly does not look like a cheat. Scaled mantissa errors were
1.2-1.4 at every length; exponents vary more (3.6 at 2 tokens), which is why their bound is the looser one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

from verify.proofs import TOP_K, BlockErrors

_FULL_BLOCK = 32 * 576 / TOP_K
"""Values per compared value in the blocks of the table above."""
_SHARE_POWER = 0.18
"""Fitted to the honest errors of short blocks, above."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofStatistics:
    """Errors of a whole submission. Exponent mismatches are per 128 compared values; means are of scaled errors."""

    blocks: int
    independent_blocks: int
    """Blocks that are not the same tokens after the same prompt, whose errors are the same too."""
    exponent_mean: float
    exponent_max: float
    mantissa_mean: float
    mantissa_max: float
    median_max: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """Bounds on proof errors; a submission fails above any of them."""

    block_exponents: float = 38.0
    """Exponent mismatches of 128 in one block (TOPLOC, arXiv 2501.16007)."""
    block_mantissa_mean: float = 10.0
    block_mantissa_median: float = 8.0
    exponent_mean: float = 6.0
    """Mean over the submission, scaled to full blocks; honest 2.0-3.6 (all answers of 2 tokens), fp8 8.1."""
    mantissa_mean: float = 2.1
    """Mean over the submission, scaled to full blocks; honest 1.2-1.5, int8 2.8."""
    exponent_sigma: float = 2.0
    """Honest spread of one block: the mean of n independent blocks may lie `sigmas` * exponent_sigma / sqrt(n)
    higher."""
    mantissa_sigma: float = 0.3
    sigmas: float = 5.0

    def broken_by(self, seen: ProofStatistics) -> str | None:
        """Which bound the submission breaks, in words; None if it keeps them all."""
        slack = self.sigmas / sqrt(seen.independent_blocks)
        for name, value, bound in (
            ("exponent mismatches of one block", seen.exponent_max, self.block_exponents),
            ("mean mantissa error of one block", seen.mantissa_max, self.block_mantissa_mean),
            ("median mantissa error of one block", seen.median_max, self.block_mantissa_median),
            ("mean exponent mismatches", seen.exponent_mean, self.exponent_mean + slack * self.exponent_sigma),
            ("mean mantissa error", seen.mantissa_mean, self.mantissa_mean + slack * self.mantissa_sigma),
        ):
            if not value <= bound:
                return f"{name}: {value:.4g}, more than {bound:.4g} ({seen.blocks} blocks)"
        return None


def proof_statistics(errors: Sequence[BlockErrors], independent_blocks: int) -> ProofStatistics:
    """Means and maxima over all blocks of a submission, at least one."""
    exponents = [e.exponent_mismatches * TOP_K / e.values for e in errors]
    scales = [min(1.0, e.numel / e.values / _FULL_BLOCK) ** _SHARE_POWER for e in errors]
    return ProofStatistics(
        blocks=len(errors),
        independent_blocks=independent_blocks,
        exponent_mean=sum(x * scale for x, scale in zip(exponents, scales, strict=True)) / len(errors),
        exponent_max=max(exponents),
        mantissa_mean=sum(e.mantissa_mean * scale for e, scale in zip(errors, scales, strict=True)) / len(errors),
        mantissa_max=max(e.mantissa_mean for e in errors),
        median_max=max(e.mantissa_median for e in errors),
    )
