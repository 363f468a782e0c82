"""A submission's numbers as one forward pass of the validator shows them, and the bounds that hold for that pass.

The first look is in whatever arithmetic the validator computes in, by bounds so narrow that honest work may break them
now and then: they were measured on some policies, and a policy that learns moves away from those. What breaks one is
looked at a second time, and only the second look rejects. It is exact (float32), so that of two roundings, the
worker's and the validator's, one remains; and its bounds grow with the policy's own noise, which is what bfloat16
does to the very same tokens on this machine. A worker has no say in that: the tokens are forced by the seed, and what
makes bfloat16 err more there makes other weights err more too.

Pure. It decides what a second look's bounds are; which checks look twice is said by `verify.verdict`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property

import numpy as np

from rl.rollouts import Rollout
from verify.computation import Choices, LogprobGaps, ProofFit, choices, logprob_gaps, proof_fit
from verify.policy import Prefilled
from verify.proofs import ProofFault, build_many
from verify.thresholds import Noise, Thresholds


@dataclass(frozen=True, kw_only=True)
class Look:
    """One pass over the audited rollouts. What follows from it is computed on first use and kept."""

    rollouts: Sequence[Rollout]
    prefilled: Sequence[Prefilled]
    thresholds: Thresholds
    noise: Noise | None = None
    """Of a second look: the policy's own, by which its bounds are widened."""

    @cached_property
    def proof_fit(self) -> ProofFit | ProofFault:
        return proof_fit(self.rollouts, self.prefilled)

    @cached_property
    def choices(self) -> Choices:
        """Of a seeded pool."""
        return choices(self.prefilled, self.thresholds)

    @cached_property
    def logprob_gaps(self) -> LogprobGaps:
        return logprob_gaps(self.rollouts, self.prefilled, self.thresholds)

    @property
    def noise_facts(self) -> dict[str, float]:
        """Of a second look; empty of a first."""
        return {} if self.noise is None else {f"noise_{name}": value for name, value in asdict(self.noise).items()}


def second_look(
    rollouts: Sequence[Rollout], exact: Sequence[Prefilled], coarse: Sequence[Prefilled], thresholds: Thresholds
) -> Look:
    """The look that decides.

    Args:
        exact: the pass in float32.
        coarse: the pass in bfloat16 over the same rollouts.
        thresholds: bounds of a prefill in float32, for a policy as noisy as those they were measured on.
    """
    noise = noise_of(rollouts, exact, coarse)
    return Look(rollouts=rollouts, prefilled=exact, thresholds=thresholds.widened(noise), noise=noise)


def noise_of(rollouts: Sequence[Rollout], exact: Sequence[Prefilled], coarse: Sequence[Prefilled]) -> Noise:
    """What bfloat16 alone does to the policy's states and log-probabilities on these tokens."""
    own = [
        replace(rollout, proofs=tuple(proofs))
        for rollout, proofs in zip(rollouts, build_many([p.states for p in coarse]), strict=True)
    ]
    fit = proof_fit(own, exact)
    if isinstance(fit, ProofFault):
        raise ValueError(f"a proof that this machine made is malformed: {fit.detail}")
    gaps = np.concatenate([np.abs(a.logprobs - b.logprobs) for a, b in zip(exact, coarse, strict=True)])
    logprobs = float(gaps.mean(dtype=np.float64))
    return Noise(exponents=fit.whole.exponent_mean, mantissas=fit.whole.mantissa_mean, logprobs=logprobs)
