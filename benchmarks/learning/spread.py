"""Means of a few runs, how far they may be off, and whether two kinds of runs differ. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import sqrt
from statistics import fmean, stdev, variance

from scipy.stats import t as student

EXACT = 13_000
"""Splits that a permutation test looks at, at most: two kinds of 8 runs have 12,870."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Of one number over several runs."""

    mean: float
    sd: float
    """Unbiased standard deviation."""
    low: float
    high: float
    """95 % interval of the mean, Student's."""
    runs: int


def spread(values: Sequence[float]) -> Spread:
    """Raises ValueError for fewer than two runs, of which nothing can be said."""
    if len(values) < 2:
        raise ValueError(f"a spread needs at least two runs, not {len(values)}")
    mean, sd = fmean(values), stdev(values)
    half = float(student.ppf(0.975, len(values) - 1)) * sd / sqrt(len(values))
    return Spread(mean=mean, sd=sd, low=mean - half, high=mean + half, runs=len(values))


def difference(values: Sequence[float], others: Sequence[float]) -> tuple[float, float, float]:
    """Mean of `values` minus that of `others`, and the ends of Welch's 95 % interval of it."""
    gap = fmean(values) - fmean(others)
    parts = [variance(some) / len(some) for some in (values, others)]
    if sum(parts) == 0.0:
        return gap, gap, gap
    freedom = sum(parts) ** 2 / sum(p * p / (len(s) - 1) for p, s in zip(parts, (values, others), strict=True))
    half = float(student.ppf(0.975, freedom)) * sqrt(sum(parts))
    return gap, gap - half, gap + half


def chance(values: Sequence[float], others: Sequence[float]) -> float:
    """Two-sided p of an exact permutation test of the difference of means: no distribution is assumed.

    Raises ValueError for more runs than can be split in every way.
    """
    pooled = [*values, *others]
    splits = list(combinations(range(len(pooled)), len(values))) if len(pooled) <= 16 else []
    if not 0 < len(splits) <= EXACT:
        raise ValueError(f"{len(values)} and {len(others)} runs: an exact test takes at most 8 of each")
    total, many = sum(pooled), len(values)
    seen = abs(fmean(values) - fmean(others))
    as_far = 0
    for split in splits:
        part = sum(pooled[place] for place in split)
        as_far += abs(part / many - (total - part) / (len(pooled) - many)) >= seen - 1e-12
    return as_far / len(splits)
