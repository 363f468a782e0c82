"""How far activations may lie from their proofs before other weights are the only explanation.

Decides from measured errors alone, of three kinds: activation proofs, the choice of seeded tokens, and reported
log-probabilities. Bounds hold together at three sizes: wide for a single block or token (for blocks the paper's),
narrower for the mean of a completion, and tight for the mean of a submission, because a mean separates what single
values cannot. All figures are here; `MEASURED` says which arithmetic they belong to.

Measured on SmolLM2-135M, top-k 128, by `scripts/bench_verify`; docs/verification.md has more. Mean errors of a block,
scaled to 32 tokens, over seven honest engines (three batch sizes, one and two threads, vLLM and transformers) and
cheats, for a prefill in bf16 and in float32 (exponent mismatches, mantissa error, margin, log-prob gap):

    honest, decode in bf16       2.2, 1.39, 0.0019, 0.038        1.8, 1.16, 0.0012, 0.030
    honest, decode in float32    1.9, 1.22, 0.0013, 0.031        0.0, 0.0001, 0, 5e-6
    noise of 1e-3 on weights     2.9, 1.97, 0.0034, 0.058        2.7, 1.77, 0.0030, 0.051
    int8 weights                 4.4, 2.91, 0.0056, 0.066        4.1, 2.76, 0.0047, 0.059
    int4 weights                 33, 18.7, 0.58, 1.1             34, 18.7, 0.59, 0.94
    another prompt               9.6, 5.8, 0.038, 0.16

Honest errors grow while a policy learns: decode and prefill in bf16, the demo's short answers, the mantissa error was
1.37 for the first policy and 1.71 after 32 steps of learning (99 % right); of long answers 2.15 after six steps at
1e-4. By bounds on such numbers alone either an honest worker is put out or a cheat gets by. What grows is what bf16
does to *these* tokens of *this* policy, whoever computes it: the validator's own bf16 pass was 1.17, 1.39 and 1.73
away from its float32 pass, the worker's proofs 1.16, 1.39 and 1.66, a ratio of 0.99, 1.00 and 0.96 (0.88 to 1.10 in
drawn submissions of 16, short or long, at any policy); with noise of 1e-3 on the weights it is 1.4 to 1.6 (1.22 at
least), with int8 2.0 to 2.3 (1.89). So what breaks a bound is looked at again in float32, by bounds that grow with
that noise (`verify.look`), and the first look's are as tight as the first policy allows. A probe of fixed tokens does
not show the growth: 1.23 at first, 1.24 after 32 steps (seen with rounded frequencies of positions, `rl.arithmetic`).

The paper's block bounds first bite at int4 weights; the mean over a submission separates int8 and all that is worse.

Short blocks err more, since 128 values are then a larger share of theirs and include smaller ones. Unscaled, decode in
float32, prefill in bf16, honest (exponent mismatches, mantissa error): 1 token 4.6, 2.5; 8 tokens 3.6, 1.8; 16 tokens
2.8, 1.7; 32 tokens 2.4, 1.4; the demo's answers of 9 tokens, both in bf16, 4.2, 1.9, beside 2.2, 1.4 in whole blocks.
Means are taken of errors scaled by a power of the share, 0.4 and 0.25, that is never too small for any of these: so a
policy that learns to answer briefly does not look like a cheat.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, fields, replace
from math import sqrt
from typing import get_args

import numpy as np

from rl.hardware import ComputeType
from verify.proofs import TOP_K, BlockErrors

_FULL_BLOCK = 32 * 576 / TOP_K
"""Values per compared value in the blocks of the table above."""
_EXPONENT_POWER, _MANTISSA_POWER = 0.4, 0.25
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
class Noise:
    """How far a pass in bfloat16 is from one in float32 over the same tokens: means over a submission."""

    exponents: float
    """Scaled exponent mismatches of a block."""
    mantissas: float
    """Scaled mantissa error of a block."""
    logprobs: float
    """Nats, of a token."""


USUAL_NOISE = Noise(exponents=2.0, mantissas=1.2, logprobs=0.035)
"""Of the first policy, on which `MEASURED` rests."""


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

    def mean_of(self, tokens: int) -> float:
        """Bound of the mean of so many tokens."""
        return self.mean + self.sigmas * self.sigma / sqrt(tokens) + self.most / tokens

    def broken_by(self, seen: Gaps) -> str | None:
        """Which bound is broken, in words without the unit."""
        mean = self.mean_of(seen.tokens)
        if not seen.most <= self.most:
            return f"a token is {seen.most:.3g}, more than {self.most:.3g}"
        if not seen.mean <= mean:
            return f"{seen.tokens} tokens are on average {seen.mean:.3g}, more than {mean:.3g}"
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """Bounds on what arithmetic may explain, of one look; what lies above any of them is found by it.

    The defaults are those of bf16 decode and bf16 prefill, the loosest pair of `MEASURED`. Means of n independent
    blocks may lie sigmas * sigma / sqrt(n) + jump / n higher, means of n tokens likewise (`Limits`).
    """

    block_exponents: float = 38.0
    """Exponent mismatches of 128 in one block (TOPLOC, arXiv 2501.16007); honest up to 11."""
    block_mantissa_mean: float = 10.0
    """Honest up to 3.7."""
    block_mantissa_median: float = 8.0
    """Honest up to 2."""
    exponent_mean: float = 3.5
    """Mean over the submission, scaled to full blocks; honest 1.9-2.6."""
    exponent_sigma: float = 1.5
    """Honest spread of one block."""
    exponent_jump: float = 8.0
    """What a single block of an unlucky state may add to the mean."""
    mantissa_mean: float = 1.45
    """Mean over the submission, scaled to full blocks; honest 1.37-1.42 at the start, noise of 1e-3 2.0, int8 2.8."""
    mantissa_sigma: float = 0.2
    mantissa_jump: float = 2.0
    """One block in 450 had an error of 3.6 where others have 1.4."""
    sigmas: float = 5.0
    sequence_sigmas: float = 12.0
    """The same for one completion; more, since the worst of very many completions must pass."""
    margin_most: float = 1.5
    """Logits by which one token may lose to the forced one; honest up to 0.96, and 0.8 in 30,201 earlier tokens."""
    margin_mean: float = 0.004
    """Honest 0.002: 2.5 % of the tokens, by 0.08 each."""
    margin_sigma: float = 0.015
    mismatch_share: float = 0.035
    """Tokens that are not the forced ones; honest 2.1-2.6 %."""
    logprob_most: float = 2.4
    """Nats between the reported log-probability of a token and the prefill's; honest up to 0.94."""
    logprob_mean: float = 0.05
    """Honest 0.038-0.040; up to 0.054 over the 300 tokens of a demo's submission, where the bound is 0.075."""
    logprob_sigma: float = 0.06

    def widened(self, noise: Noise) -> Thresholds:
        """For a policy whose own noise is that; as they are if it is no noisier than those they were measured on."""
        exponents, mantissas, logprobs = (
            max(1.0, value / usual) for value, usual in zip(astuple(noise), astuple(USUAL_NOISE), strict=True)
        )
        factors = {"exponent": exponents, "mantissa": mantissas, "margin": logprobs, "logprob": logprobs}
        wider = {
            f.name: getattr(self, f.name) * factor
            for f in fields(self)
            for kind, factor in factors.items()
            if f.name.startswith(kind)
        }
        return replace(self, **wider)

    def margin(self, *, alone: bool) -> Limits:
        """Of tokens behind the forced ones, in one completion `alone` or in all of a submission."""
        return Limits(most=self.margin_most, mean=self.margin_mean, sigma=self.margin_sigma, sigmas=self._sigmas(alone))

    def logprob(self, *, alone: bool) -> Limits:
        """Of reported log-probabilities."""
        return Limits(
            most=self.logprob_most, mean=self.logprob_mean, sigma=self.logprob_sigma, sigmas=self._sigmas(alone)
        )

    def broken_by(self, seen: ProofStatistics, *, alone: bool = False) -> str | None:
        """Which bound the submission breaks, or one completion `alone`, in words; None if it keeps them all."""
        blocks = seen.independent_blocks
        exponents, mantissas = self.exponent_bound(blocks, alone=alone), self.mantissa_bound(blocks, alone=alone)
        for name, value, bound in (
            ("exponent mismatches of one block", seen.exponent_max, self.block_exponents),
            ("mean mantissa error of one block", seen.mantissa_max, self.block_mantissa_mean),
            ("median mantissa error of one block", seen.median_max, self.block_mantissa_median),
            ("mean exponent mismatches", seen.exponent_mean, exponents),
            ("mean mantissa error", seen.mantissa_mean, mantissas),
        ):
            if not value <= bound:
                return f"{name}: {value:.4g}, more than {bound:.4g} ({seen.blocks} blocks)"
        return None

    def exponent_bound(self, blocks: float, *, alone: bool) -> float:
        """Of the mean exponent mismatches of so many independent blocks."""
        slack = self._sigmas(alone) * self.exponent_sigma / sqrt(blocks)
        return self.exponent_mean + slack + self.exponent_jump / blocks

    def mantissa_bound(self, blocks: float, *, alone: bool) -> float:
        """Of the mean mantissa error of so many independent blocks."""
        slack = self._sigmas(alone) * self.mantissa_sigma / sqrt(blocks)
        return self.mantissa_mean + slack + self.mantissa_jump / blocks

    def _sigmas(self, alone: bool) -> float:
        return self.sequence_sigmas if alone else self.sigmas


MEASURED: Mapping[tuple[ComputeType, ComputeType], Thresholds] = {
    ("bfloat16", "bfloat16"): Thresholds(),
    ("float32", "bfloat16"): Thresholds(
        exponent_mean=3.0,
        mantissa_mean=1.32,
        margin_most=1.0,
        margin_mean=0.003,
        margin_sigma=0.012,
        logprob_most=2.0,
        logprob_mean=0.046,
        logprob_sigma=0.05,
    ),
    ("bfloat16", "float32"): Thresholds(
        exponent_mean=2.8,
        mantissa_mean=1.24,
        mantissa_sigma=0.18,
        mantissa_jump=1.5,
        margin_most=1.0,
        margin_mean=0.003,
        margin_sigma=0.012,
        logprob_most=2.0,
        logprob_mean=0.043,
        logprob_sigma=0.05,
    ),
    ("float32", "float32"): Thresholds(
        exponent_mean=0.2,
        exponent_sigma=0.2,
        exponent_jump=2.0,
        mantissa_mean=0.03,
        mantissa_sigma=0.02,
        mantissa_jump=0.3,
        margin_most=0.1,
        margin_mean=0.0005,
        margin_sigma=0.002,
        mismatch_share=0.003,
        logprob_most=0.1,
        logprob_mean=0.002,
        logprob_sigma=0.005,
    ),
}
"""Bounds for each (arithmetic of decode, arithmetic of prefill), from docs/verification.md's table of honest work. For
a policy that has learnt, those of a prefill in float32 are widened by its noise; the data are of trained policies too.
The last pair was exact but for the order of sums (mantissa 0.0001, log-probs 4e-5 at most); its bounds leave room for
kernels that sum otherwise, none for TF32."""


def thresholds_for(decode: str, prefill: ComputeType, departures: Mapping[str, float] | None = None) -> Thresholds:
    """Bounds for workers that decode in `decode` ('auto': each in either type) and this validator's prefill.

    Args:
        departures: the pool's own bounds, by field.
    """
    decodes = get_args(ComputeType) if decode == "auto" else (decode,)
    chosen = [MEASURED[one, prefill] for one in decodes]
    loosest = Thresholds(**{f.name: max(getattr(one, f.name) for one in chosen) for f in fields(Thresholds)})
    return replace(loosest, **(departures or {}))


def gaps(values: np.ndarray, clip: float) -> Gaps:
    """Of float [tokens], one token or more, none below 0. NaN stays NaN, which no bound admits."""
    return Gaps(
        tokens=len(values), mean=float(np.minimum(values, clip).mean(dtype=np.float64)), most=float(values.max())
    )


def proof_statistics(errors: Sequence[BlockErrors], independent_blocks: int) -> ProofStatistics:
    """Means and maxima over all blocks of a submission, at least one."""
    exponents = [e.exponent_mismatches * TOP_K / e.values for e in errors]
    shares = [min(1.0, e.numel / e.values / _FULL_BLOCK) for e in errors]
    return ProofStatistics(
        blocks=len(errors),
        independent_blocks=independent_blocks,
        exponent_mean=sum(x * s**_EXPONENT_POWER for x, s in zip(exponents, shares, strict=True)) / len(errors),
        exponent_max=max(exponents),
        mantissa_mean=sum(e.mantissa_mean * s**_MANTISSA_POWER for e, s in zip(errors, shares, strict=True))
        / len(errors),
        mantissa_max=max(e.mantissa_mean for e in errors),
        median_max=max(e.mantissa_median for e in errors),
    )
