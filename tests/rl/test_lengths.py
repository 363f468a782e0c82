"""The length reward: the report's sum, and targets that a validator finds again."""

from __future__ import annotations

from collections import Counter

import pytest

from rl.draw import draw_seed
from rl.lengths import ALPHA, TARGETS, LengthReward, draw_targets, total_reward, with_target
from rl.numbers import as_stored
from rl.tasks import load_task

SEED = draw_seed(bytes(32), 7, "0x" + "11" * 20, 0)


@pytest.mark.parametrize(
    ("worth", "target", "tokens", "total"),
    [(1.0, 1000, 1000, 1.0), (1.0, 1000, 2000, 0.7), (1.0, 2000, 1000, 0.7), (0.0, 1000, 1500, -0.15)],
)
def test_the_reports_sum(worth: float, target: int, tokens: int, total: float) -> None:
    assert total_reward(worth, target, tokens, ALPHA) == as_stored(total)


def test_targets_follow_from_the_seed() -> None:
    drawn = draw_targets(SEED, 16, TARGETS)
    assert drawn == draw_targets(SEED, 16, TARGETS)
    assert drawn[:4] == draw_targets(SEED, 4, TARGETS)
    assert drawn != draw_targets(draw_seed(bytes(32), 7, "0x" + "11" * 20, 1), 16, TARGETS)
    assert drawn != draw_targets(draw_seed(bytes(32), 7, "0x" + "22" * 20, 0), 16, TARGETS)


def test_every_target_comes_as_often_as_the_others() -> None:
    """4,000 draws of 4: each 1,000, standard deviation 27."""
    counts = Counter(draw_targets(SEED, 4000, TARGETS))
    assert set(counts) == set(TARGETS)
    assert all(abs(count - 1000) < 150 for count in counts.values())


def test_the_prompt_says_the_target() -> None:
    task = load_task("arithmetic")
    problem = with_target(task.problem(0), 2000)
    assert problem.prompt.endswith("\n\nThink for 2000 tokens before giving a response.")
    assert problem.metadata["target_length"] == "2000"
    assert task.reward(problem, "2", True) == 1.0
    assert problem.problem_id == task.problem(0).problem_id


def test_the_range_holds_every_total() -> None:
    setting = LengthReward(targets=(10, 200), alpha=0.001)
    lowest, highest = setting.range(500)
    totals = [
        total_reward(worth, target, tokens, setting.alpha)
        for worth in (0.0, 1.0)
        for target in setting.targets
        for tokens in (1, 10, 200, 500)
    ]
    assert min(totals) == lowest
    assert max(totals) == highest


@pytest.mark.parametrize(
    "options", [{"targets": ()}, {"targets": (5, 5)}, {"targets": (0,)}, {"alpha": -0.1}, {"alpha": float("nan")}]
)
def test_settings_without_sense_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"target|alpha"):
        LengthReward(**options)  # type: ignore[arg-type]
