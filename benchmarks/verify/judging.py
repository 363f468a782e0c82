"""What each check makes of measured completions taken as one submission: the checks that `verify` itself makes.

It puts recorded numbers where a prefill's would stand, and asks. Bounds are an argument, so that a study of other
bounds needs no model. Bounds and findings are `verify`'s; nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from benchmarks.verify.records import Completion
from rl.rollouts import Rollout
from verify import computation, copies, sampled
from verify.computation import ProofFit
from verify.thresholds import Noise, Thresholds, proof_statistics

CHECKS = ("proof-mismatch", "sampling", "logprobs")
"""In a seeded pool. Whether completions copy or repeat each other is asked of special cases only."""
UNSEEDED = ("proof-mismatch", "distribution", "termination", "logprobs")
SUBMISSION = 16
"""Completions of one submission in the study."""


def findings(
    submission: Sequence[Completion],
    thresholds: Thresholds,
    *,
    second: Thresholds | None = None,
    seeded: bool = True,
) -> frozenset[str]:
    """Names of the checks that reject it.

    Args:
        second: bounds of the second look, before they are widened, at the `exact` passes of the completions; None: the
            first look rejects.
    """
    found = _found(submission, thresholds, seeded=seeded)
    if not found or second is None:
        return found
    exact = [one.exact for one in submission if one.exact is not None]
    if len(exact) < len(submission):
        raise ValueError("a completion was not measured in float32")
    return found & _found(exact, second.widened(noise(exact)), seeded=seeded)


def noise(submission: Sequence[Completion]) -> Noise:
    """The policy's own on these tokens, of passes in float32."""
    fit = proof_statistics([e for one in submission for e in one.noise], 1)
    gaps = [np.abs(one.prefilled.logprobs - one.coarse_logprobs) for one in submission]
    logprobs = float(np.concatenate(gaps).mean(dtype=np.float64))
    return Noise(exponents=fit.exponent_mean, mantissas=fit.mantissa_mean, logprobs=logprobs)


def _found(submission: Sequence[Completion], thresholds: Thresholds, *, seeded: bool) -> frozenset[str]:
    rollouts = distinct(submission)
    prefilled = [one.prefilled for one in submission]
    errors = [e for one in submission for e in one.errors]
    fit = ProofFit(
        whole=proof_statistics(errors, computation.independent_blocks(rollouts)),
        sequences=tuple(proof_statistics(one.errors, len(one.errors)) for one in submission),
    )
    gaps = computation.logprob_gaps(rollouts, prefilled, thresholds)
    made = {
        "proof-mismatch": computation.check_proofs(rollouts, fit, thresholds),
        "logprobs": computation.check_logprobs(rollouts, gaps, thresholds),
    }
    if seeded:
        seen = computation.choices(prefilled, thresholds)
        made["sampling"] = computation.check_sampling(rollouts, seen, thresholds)
    else:
        ends = sampled.improbable_endings(rollouts, [p.eos_probs for p in prefilled], EOS_PROBABILITY)
        made["distribution"] = sampled.check_distribution(sampled.surprise(prefilled))
        made["termination"] = sampled.check_termination(*ends, EOS_PROBABILITY)
    return frozenset(name for name, rejection in made.items() if rejection is not None)


def copied(submission: Sequence[Completion], earlier: Sequence[Completion]) -> bool:
    """Whether the check against copies rejects it, each completion being held against the earlier one of its place."""
    rollouts = [one.rollout for one in submission]
    before = [(one.rollout.completion_ids,) for one in earlier]
    surprises = copies.copy_surprise(rollouts, [one.prefilled.logprobs for one in submission], before)
    return copies.check_copy(rollouts, surprises) is not None


EOS_PROBABILITY = 0.1
"""`verify.rules.Rules.eos_probability`."""


def distinct(submission: Sequence[Completion]) -> list[Rollout]:
    """Rollouts whose groups keep apart what several files numbered alike."""
    names = sorted({(one.rollout.counter, one.rollout.group, one.rollout.prompt_ids) for one in submission})
    numbers = {name: number for number, name in enumerate(names)}
    return [
        replace(one.rollout, group=numbers[one.rollout.counter, one.rollout.group, one.rollout.prompt_ids])
        for one in submission
    ]


def submissions(completions: Sequence[Completion], size: int = SUBMISSION) -> list[list[Completion]]:
    """Consecutive completions, `size` at a time; what is left over is left out."""
    return [list(completions[start : start + size]) for start in range(0, len(completions) - size + 1, size)]


def drawn(
    completions: Sequence[Completion], count: int, generator: np.random.Generator, size: int = SUBMISSION
) -> list[list[Completion]]:
    """`count` submissions drawn from completions of one kind, each without repeats."""
    return [[completions[row] for row in generator.choice(len(completions), size, replace=False)] for _ in range(count)]


STATISTICS = (
    "exponent mismatches, mean",
    "mantissa error, mean",
    "margin, mean",
    "margin, largest",
    "tokens not forced",
    "log-prob gap, mean",
    "log-prob gap, largest",
)
"""Of a submission, each larger the less it fits."""


def statistics(submission: Sequence[Completion], thresholds: Thresholds) -> dict[str, float]:
    """The numbers behind the checks of a seeded submission, by the names in `STATISTICS`."""
    fit = proof_statistics([e for one in submission for e in one.errors], 1)
    prefilled = [one.prefilled for one in submission]
    choices = computation.choices(prefilled, thresholds)
    gaps = computation.logprob_gaps([one.rollout for one in submission], prefilled, thresholds)
    values = (
        fit.exponent_mean,
        fit.mantissa_mean,
        choices.whole.mean,
        choices.whole.most,
        choices.mismatches / choices.whole.tokens,
        gaps.whole.mean,
        gaps.whole.most,
    )
    return dict(zip(STATISTICS, values, strict=True))
