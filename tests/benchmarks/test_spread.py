"""Intervals and p-values against numbers worked out elsewhere."""

from __future__ import annotations

import random

import pytest
from scipy import stats

from benchmarks.learning.spread import chance, difference, spread


def test_the_interval_is_students() -> None:
    found = spread([1.0, 2.0, 3.0, 4.0])
    low, high = stats.t.interval(0.95, 3, loc=2.5, scale=stats.sem([1.0, 2.0, 3.0, 4.0]))
    assert (found.mean, found.runs) == (2.5, 4)
    assert (found.low, found.high) == pytest.approx((low, high))
    with pytest.raises(ValueError, match="at least two"):
        spread([1.0])


def test_the_difference_has_welchs_interval() -> None:
    first, second = [0.9, 0.8, 0.95, 0.7, 0.85], [0.5, 0.55, 0.45, 0.6]
    ours = difference(first, second)
    theirs = stats.ttest_ind(first, second, equal_var=False).confidence_interval(0.95)
    assert ours == pytest.approx((sum(first) / 5 - sum(second) / 4, theirs.low, theirs.high))
    assert difference([1.0, 1.0], [0.5, 0.5]) == (0.5, 0.5, 0.5)


def test_the_permutation_test_is_exact() -> None:
    assert chance([1.0, 2.0, 3.0], [10.0, 11.0, 12.0]) == pytest.approx(2 / 20)
    assert chance([1.0, 1.0], [1.0, 1.0]) == 1.0
    rng = random.Random(3)
    first, second = [rng.random() for _ in range(6)], [rng.random() + 0.3 for _ in range(6)]
    theirs = stats.permutation_test(
        (first, second), lambda a, b: sum(a) / len(a) - sum(b) / len(b), n_resamples=10**6
    ).pvalue
    assert chance(first, second) == pytest.approx(theirs)
    with pytest.raises(ValueError, match="at most 8"):
        chance([0.0] * 9, [0.0] * 9)
