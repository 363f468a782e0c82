"""avg@k, pass@k and their intervals, against counting every case."""

from __future__ import annotations

from itertools import combinations, product
from math import isclose

import numpy as np
import pytest

from rl.scores import Z, ks_of, mean_over_problems, pass_at_k


def test_pass_at_k_is_the_share_of_all_draws_with_a_right_answer() -> None:
    for answers in range(1, 8):
        for right, k in product(range(answers + 1), range(1, answers + 1)):
            marks = [True] * right + [False] * (answers - right)
            draws = list(combinations(marks, k))
            assert isclose(pass_at_k(answers, right, k), sum(map(any, draws)) / len(draws), abs_tol=1e-12)


def test_pass_at_k_is_unbiased() -> None:
    """Mean over 0 to 8 right answers, weighted as a rate of 0.3 gives them, is 1 - 0.7^k."""
    from math import comb

    for k in range(1, 9):
        expected = sum(comb(8, c) * 0.3**c * 0.7 ** (8 - c) * pass_at_k(8, c, k) for c in range(9))
        assert isclose(expected, 1 - 0.7**k, rel_tol=1e-12)


@pytest.mark.parametrize(("answers", "right", "k"), [(8, 9, 1), (8, -1, 1), (8, 3, 0), (8, 3, 9), (0, 0, 1)])
def test_pass_at_k_of_what_is_not_there_is_refused(answers: int, right: int, k: int) -> None:
    with pytest.raises(ValueError, match="not defined"):
        pass_at_k(answers, right, k)


def test_the_ks_that_are_told() -> None:
    assert [ks_of(n) for n in (1, 2, 6, 8, 9)] == [(1,), (1, 2), (1, 2, 4, 6), (1, 2, 4, 8), (1, 2, 4, 8, 9)]


def test_the_interval_is_that_of_all_resamples_where_they_can_be_counted() -> None:
    """Five problems have 3,125 equally likely resamples."""
    values = [0.0, 0.25, 0.25, 0.5, 1.0]
    means = [sum(drawn) / 5 for drawn in product(values, repeat=5)]
    low, high = np.quantile(means, [0.025, 0.975])
    found = mean_over_problems(values, lowest=0.0, highest=1.0, seed=3)
    assert found.mean == 0.4
    assert abs(found.low - low) <= 0.05, "one step of the sums of quarters"
    assert abs(found.high - high) <= 0.05
    assert mean_over_problems(values, lowest=0.0, highest=1.0, seed=3) == found


def test_the_interval_covers_the_truth_as_often_as_it_says() -> None:
    """200 tasks of 60 problems, rates uniform: of 200 intervals of 95 % at least 180 (five deviations below 190.0)."""
    generator, covered = np.random.default_rng(0), 0
    for run in range(200):
        rates = generator.random(60)
        values = (generator.random((60, 8)) < rates[:, None]).mean(-1)
        found = mean_over_problems(values.tolist(), lowest=0.0, highest=1.0, seed=run)
        covered += found.low <= 0.5 <= found.high
    assert 180 <= covered < 200


@pytest.mark.parametrize("count", [1, 10, 1000])
def test_where_all_problems_say_the_same_unseen_ones_may_differ(count: int) -> None:
    share = Z**2 / (count + Z**2)
    none, all_right = (mean_over_problems([v] * count, lowest=0.0, highest=1.0, seed=0) for v in (0.0, 1.0))
    assert (none.low, none.mean, none.high) == (0.0, 0.0, share)
    assert (all_right.low, all_right.mean, all_right.high) == (1.0 - share, 1.0, 1.0)
    alike = mean_over_problems([0.0] * count, lowest=-1.0, highest=1.0, seed=0)
    assert (alike.low, alike.high) == (-share, share)


@pytest.mark.parametrize("values", [[], [1.1], [0.5, float("nan")]])
def test_no_mean_of_nothing_and_of_no_share(values: list[float]) -> None:
    with pytest.raises(ValueError, match="a mean needs"):
        mean_over_problems(values, lowest=0.0, highest=1.0, seed=0)
