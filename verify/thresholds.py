"""How far activations may lie from their proofs before other weights are the only explanation.

Decides from measured errors alone, of three kinds: activation proofs, the choice of seeded tokens, and reported
log-probabilities. Bounds hold together at three sizes: wide for a single block or token (for blocks the paper's),
narrower for the mean of a completion, and tight for the mean of a submission, because a mean separates what single
values cannot. All figures are here; `MEASURED` says which arithmetic they belong to.

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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from math import sqrt
from typing import get_args

import numpy as np

from rl.hardware import ComputeType
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
class Gaps:
    """How far a completion's, or a submission's, tokens are off in one respect."""

    tokens: int
    mean: float
    """Of values clipped at the bound of a single token, which one token may reach without having been caught."""
    most: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How far tokens may be off: each of them, and the mean of any number.

    Honest gaps are rare and skewed, so the mean of a few is far from normal. For n independent gaps between 0 and b
    of mean m and deviation s, Bernstein's inequality leaves a probability of e^-x beyond m + s sqrt(2x / n) +
    b x / 3n; the bound has that form.
    """

    most: float
    mean: float
    sigma: float
    sigmas: float

    def broken_by(self, seen: Gaps) -> str | None:
        """Which bound is broken, in words without the unit."""
        mean = self.mean + self.sigmas * self.sigma / sqrt(seen.tokens) + self.most / seen.tokens
        if not seen.most <= self.most:
            return f"a token is {seen.most:.3g}, more than {self.most:.3g}"
        if not seen.mean <= mean:
            return f"{seen.tokens} tokens are on average {seen.mean:.3g}, more than {mean:.3g}"
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """Bounds on what arithmetic may explain; a submission fails above any of them.

    The defaults are those of bf16 decode and bf16 prefill, the loosest pair of `MEASURED`.
    """

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
    sequence_sigmas: float = 8.0
    """The same for the mean of one completion; more, since the worst of very many completions must pass. Of 1,000
    honest blocks the worst lay 5 sigma above the mean."""
    margin_most: float = 2.0
    """Logits by which one token may lose to the forced one; honest below 0.80 in 30,201 tokens."""
    margin_mean: float = 0.02
    """Honest about 0.004: 2.55 % of the tokens, by 0.15 each."""
    margin_sigma: float = 0.05
    mismatch_share: float = 0.05
    """Tokens that are not the forced ones; honest 2.55 %."""
    logprob_most: float = 2.0
    """Nats between the reported log-probability of a token and the prefill's; as for margins, which differ likewise."""
    logprob_mean: float = 0.15
    logprob_sigma: float = 0.2

    @property
    def margin(self) -> Limits:
        """Of tokens behind the forced ones."""
        return Limits(most=self.margin_most, mean=self.margin_mean, sigma=self.margin_sigma, sigmas=self.sigmas)

    @property
    def logprob(self) -> Limits:
        """Of reported log-probabilities."""
        return Limits(most=self.logprob_most, mean=self.logprob_mean, sigma=self.logprob_sigma, sigmas=self.sigmas)

    def broken_by(self, seen: ProofStatistics) -> str | None:
        """Which bound the submission breaks, in words; None if it keeps them all."""
        return self._broken(seen, self.sigmas)

    def broken_by_sequence(self, seen: ProofStatistics) -> str | None:
        """Which bound one completion breaks."""
        return self._broken(seen, self.sequence_sigmas)

    def _broken(self, seen: ProofStatistics, sigmas: float) -> str | None:
        slack = sigmas / sqrt(seen.independent_blocks)
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


MEASURED: Mapping[tuple[ComputeType, ComputeType], Thresholds] = {
    ("bfloat16", "bfloat16"): Thresholds(),
    ("float32", "bfloat16"): Thresholds(),
    ("bfloat16", "float32"): Thresholds(),
    ("float32", "float32"): Thresholds(),
}
"""Bounds for each (arithmetic of decode, arithmetic of prefill). Where the data above do not part two pairs, they have
the same bounds: float32 on one side lies inside the range of bf16 on both."""


def thresholds_for(decode: str, prefill: ComputeType) -> Thresholds:
    """Bounds for workers that decode in `decode` ('auto': each in either type) and this validator's prefill."""
    decodes = get_args(ComputeType) if decode == "auto" else (decode,)
    chosen = [MEASURED[one, prefill] for one in decodes]
    return Thresholds(**{f.name: max(getattr(one, f.name) for one in chosen) for f in fields(Thresholds)})


def gaps(values: np.ndarray, clip: float) -> Gaps:
    """Of float [tokens], one token or more, none below 0. NaN stays NaN, which no bound admits."""
    return Gaps(
        tokens=len(values), mean=float(np.minimum(values, clip).mean(dtype=np.float64)), most=float(values.max())
    )


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
