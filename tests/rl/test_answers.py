"""Answers summed up, and one policy's beside another's."""

from __future__ import annotations

import pytest

from rl.answers import Answers, difference, graded, summary
from rl.band import Band, solve_rate


def answers(name: str, rewards: tuple[float, ...], **more: object) -> Answers:
    told = {"tokens": (4,) * 4, "cut": (False,) * 4} | more
    return Answers(problem_id=name, rewards=rewards, **told)  # type: ignore[arg-type]


HARD, EVEN, EASY = (
    answers("hard", (0.0, 0.0, 0.0, 0.0), tokens=(9, 9, 9, 9), cut=(True, True, True, False), target=8),
    answers("even", (1.0, 0.0, 0.0, 1.0), target=6),
    answers("easy", (1.0, 1.0, 1.0, 1.0), target=4),
)
UNGRADED = answers("ungraded", ())


def test_the_figures_of_three_problems() -> None:
    found = summary([HARD, EVEN, EASY], samples=4, seed=0)
    assert found.average.mean == 0.5
    assert found.passes[1].mean == 0.5
    assert found.passes[2].mean == pytest.approx((0 + 5 / 6 + 1) / 3)
    assert found.passes[4].mean == pytest.approx(2 / 3)
    assert found.tokens == pytest.approx(17 / 3)
    assert found.cut == 0.25
    assert found.miss == pytest.approx((4 * 1 + 4 * 2 + 0) / 12)
    assert summary([answers("a", (0.5,) * 4)], samples=4, seed=0).miss is None


def test_partial_credit_counts_in_the_average_and_passes_nothing() -> None:
    found = summary([answers("a", (0.5, 0.5, 0.25, 1.0))], samples=4, seed=0)
    assert found.average.mean == pytest.approx(0.5625)
    assert found.passes[1].mean == 0.25


def test_what_could_not_be_graded_is_no_wrong_answer() -> None:
    assert graded([HARD, UNGRADED, EASY]) == [HARD, EASY]


def test_the_difference_is_paired() -> None:
    """Two tasks of very unlike problems on which every answer gets better by a quarter: no doubt is left."""
    before = [answers(f"{n}", (1.0,) * (n % 4) + (0.0,) * (4 - n % 4)) for n in range(16)]
    after = [answers(f"{n}", (1.0,) * (n % 4 + 1) + (0.0,) * (3 - n % 4)) for n in range(16)]
    gained = difference(after[::-1], before, samples=4, seed=0)
    assert gained[0].mean == 0.25
    assert 0 < gained[0].low <= gained[0].mean <= gained[0].high
    assert gained[4].mean == pytest.approx(0.25), "only those that were never solved pass anew"
    alone = summary(after, samples=4, seed=0).average
    assert alone.low < summary(before, samples=4, seed=0).average.high, "side by side they cannot be told apart"


def test_a_problem_without_its_counterpart_is_not_compared() -> None:
    gained = difference([EVEN, EASY], [answers("even", (0.0,) * 4)], samples=4, seed=0)
    assert gained[0].mean == 0.5


@pytest.mark.parametrize(
    ("right", "of", "place"),
    [(0, 8, "too-hard"), (1, 8, "kept"), (4, 8, "kept"), (5, 8, "too-easy"), (8, 8, "too-easy"), (1, 9, "too-hard")],
)
def test_the_band_of_the_report_keeps_its_ends(right: int, of: int, place: str) -> None:
    assert Band().place(solve_rate((1.0,) * right + (0.0,) * (of - right))) == place


@pytest.mark.parametrize("low", [0.1, 0.2, 0.3, 0.7])
def test_the_ends_are_met_by_the_shares_that_are_written_so(low: float) -> None:
    rate = solve_rate((1.0,) * round(low * 10) + (0.0,) * (10 - round(low * 10)))
    assert Band(low=low, high=low).place(rate) == "kept"


def test_no_band_and_no_place_of_nonsense() -> None:
    for low, high in ((0.6, 0.5), (-0.1, 0.5), (0.1, 1.1), (float("nan"), 0.5)):
        with pytest.raises(ValueError, match="a band lies within"):
            Band(low=low, high=high)
    for rate in (-0.1, 1.1, float("nan")):
        with pytest.raises(ValueError, match="a solve rate is within"):
            Band().place(rate)
    with pytest.raises(ValueError, match="without answers"):
        solve_rate(())
