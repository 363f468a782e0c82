"""What k answers to each of some problems say of a policy: avg@k, pass@k, and how far chance reaches.

Decides the estimators. pass@k is Chen et al.'s unbiased one (arXiv 2107.03374, equation 1). Intervals are percentile
bootstraps over problems, not over answers: problems are what a task is a sample of, and answers to one are alike. Where
all problems say the same resampling sees no spread; then Wilson's bound says how many unseen ones may differ. Pure:
numbers and a seed in, numbers out; it knows neither models nor tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb, fsum

import numpy as np

LEVEL = 0.95
Z = 1.959964
"""Standard normal quantile of LEVEL, two-sided."""
RESAMPLES = 10_000
"""Bootstrap draws: the ends of the interval then vary by about 1 % of its width."""
AT_ONCE = 2**22
"""Drawn indices that exist at one time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A mean over problems, with the ends of its 95 % interval."""

    mean: float
    low: float
    high: float


def pass_at_k(answers: int, right: int, k: int) -> float:
    """Probability that of k answers drawn from these without putting back at least one is right.

    Raises ValueError unless 1 <= k <= answers and 0 <= right <= answers.
    """
    if not 1 <= k <= answers or not 0 <= right <= answers:
        raise ValueError(f"pass@{k} of {right} right among {answers} answers is not defined")
    return 1.0 - comb(answers - right, k) / comb(answers, k)


def ks_of(samples: int) -> tuple[int, ...]:
    """The k for which pass@k of `samples` answers is told: powers of two, and `samples` itself."""
    powers = tuple(1 << bit for bit in range(samples.bit_length()) if 1 << bit <= samples)
    return powers if powers[-1] == samples else (*powers, samples)


def mean_over_problems(values: Sequence[float], *, lowest: float, highest: float, seed: int) -> Estimate:
    """Mean of one value a problem, and its interval.

    Args:
        values: one a problem, between `lowest` and `highest` (-1 and 1 for paired differences of shares).
        seed: of the resampling; the same values and seed give the same interval.

    Raises ValueError where there is no value, or one outside.
    """
    if not values or not all(lowest <= value <= highest for value in values):
        raise ValueError(f"a mean needs values between {lowest} and {highest}")
    mean = fsum(values) / len(values)
    if min(values) == max(values):
        # Wilson's interval for none of n: with this share of other problems none of n would have met one.
        reach = Z**2 / (len(values) + Z**2) * max(highest - mean, mean - lowest)
        return Estimate(mean=mean, low=max(lowest, mean - reach), high=min(highest, mean + reach))
    low, high = np.quantile(_resampled(np.asarray(values), seed), [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(mean=mean, low=float(low), high=float(high))


def _resampled(values: np.ndarray, seed: int) -> np.ndarray:
    """float64 [RESAMPLES]: means of as many values, drawn with putting back."""
    generator, means = np.random.default_rng(seed), []
    for start in range(0, RESAMPLES, step := max(1, AT_ONCE // len(values))):
        rows = min(step, RESAMPLES - start)
        means.append(values[generator.integers(len(values), size=(rows, len(values)))].mean(-1))
    return np.concatenate(means)
