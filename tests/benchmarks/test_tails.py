"""Tails are fitted to drawn values whose law is known, and areas to those that can be counted."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from benchmarks.verify.tails import LEAST, Tail, area_under_curve, curve, fit_tail

RANDOM = np.random.default_rng(1)


def test_an_exponential_tail_is_found_and_extrapolated() -> None:
    tail = fit_tail(RANDOM.exponential(2.0, 20_000))
    assert tail.shape == 0.0
    assert tail.scale == pytest.approx(2.0, rel=0.2)
    assert np.log(tail.beyond(2.0 * np.log(1e6))) == pytest.approx(np.log(1e-6), rel=0.2)


def test_a_heavy_tail_is_not_taken_for_a_light_one() -> None:
    tail = fit_tail(RANDOM.pareto(2.0, 50_000))
    assert tail.shape == pytest.approx(0.5, abs=0.2)
    assert tail.beyond(1e3) > 1e-8


@pytest.mark.parametrize("values", [RANDOM.uniform(size=5_000), np.minimum(RANDOM.normal(size=5_000), 2.0)])
def test_values_with_an_end_still_have_a_chance_beyond_it(values: np.ndarray) -> None:
    tail = fit_tail(values)
    assert tail.shape == 0.0
    assert 0.0 < tail.beyond(2.0 * values.max()) < 1e-2


def test_the_chance_falls_with_the_bound_and_starts_at_the_fitted_share() -> None:
    tail = Tail(threshold=1.0, share=0.1, scale=0.5, shape=0.2)
    chances = [tail.beyond(bound) for bound in (0.0, 1.0, 2.0, 4.0, 8.0)]
    assert chances[:2] == [0.1, 0.1]
    assert chances == sorted(chances, reverse=True)
    assert chances[2] == pytest.approx(0.1 * (1 + 0.2 * 2) ** -5)


def test_too_few_values_are_refused() -> None:
    with pytest.raises(ValueError, match="too few"):
        fit_tail(np.arange(LEAST))


def test_equal_values_have_no_tail() -> None:
    tail = fit_tail(np.ones(1000))
    assert tail.beyond(1.1) == 0.0 < tail.beyond(1.0)


def test_equal_exceedances_have_an_exponential_tail() -> None:
    tail = fit_tail(np.repeat([1.0, 2.0], [970, 30]), step=1.0)
    assert (tail.threshold, tail.scale, tail.share) == (1.5, 0.5, 0.03)


def test_counts_have_a_tail_above_their_ties() -> None:
    counts = RANDOM.poisson(2.0, 2_000)
    tail = fit_tail(counts, step=1.0)
    assert tail.threshold % 1.0 == 0.5
    assert tail.beyond(tail.threshold) == (counts > tail.threshold).mean()
    assert 1e-12 < tail.beyond(20.0) < 1e-6 < tail.beyond(10.0)


def test_the_area_counts_pairs_and_ties_by_half() -> None:
    honest, cheats = RANDOM.integers(0, 9, 40).astype(float), RANDOM.integers(3, 12, 30).astype(float)
    pairs = [(cheat > one) + (cheat == one) / 2 for one, cheat in product(honest, cheats)]
    assert area_under_curve(honest, cheats) == pytest.approx(np.mean(pairs))
    false, true = curve(honest, cheats)
    assert np.trapezoid(true, false) == pytest.approx(np.mean(pairs))
    assert (false[0], true[0], false[-1], true[-1]) == (0.0, 0.0, 1.0, 1.0)
