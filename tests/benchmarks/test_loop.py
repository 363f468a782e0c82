"""The loop in one process is the real thing in small: it learns, lags as told, and one seed gives one curve."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.learning import loop, quiz
from benchmarks.learning.loop import Setting, learn
from rl.lengths import LengthReward
from rl.recipe import Recipe

RECIPE = Recipe(learning_rate=1e-3, warmup_steps=0, optimizer_steps=1, grad_norm_clip=1.0)
SETTING = Setting(steps=4, recipe=RECIPE, seed=1, groups=4)
TASK = quiz.quiz(6)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("quiz") / "base"
    quiz.write_base(folder, [0.4] * 6, updates=250)
    return folder


def test_one_seed_gives_one_curve_and_another_seed_another(base: Path, tmp_path: Path) -> None:
    first, again = (learn(base, TASK, SETTING, tmp_path / "work") for _ in range(2))
    other = learn(base, TASK, replace(SETTING, seed=2), tmp_path / "work")
    assert first == again
    assert first.steps[0] != other.steps[0]
    assert not (tmp_path / "work").exists()


def test_rollouts_are_as_old_as_told(base: Path, tmp_path: Path) -> None:
    runs = {lag: learn(base, TASK, replace(SETTING, lag=lag), tmp_path / "work") for lag in (0, 2)}
    assert [step.version for step in runs[0].steps] == [0, 1, 2, 3]
    assert [step.version for step in runs[2].steps] == [0, 0, 0, 1]
    assert runs[0].steps[0] == runs[2].steps[0], "the first step has only the base policy"
    # Our own policy at the step's start against the one that sampled: apart only when rollouts are old. The engine's
    # weights are rounded to bfloat16.
    assert max(step.metrics.kl_behaviour for step in runs[0].steps) < 1e-4
    assert runs[2].steps[-1].metrics.kl_behaviour > 1e-3


def test_the_filter_asks_for_more_until_the_batch_is_full(base: Path, tmp_path: Path) -> None:
    with_it, without = (
        learn(base, TASK, replace(SETTING, samples=2, online_filter=on), tmp_path / "work") for on in (True, False)
    )
    assert [step.completions for step in without.steps] == [8] * 4
    assert max(step.completions for step in with_it.steps) > 8
    assert min(step.with_signal for step in without.steps) < 1.0


def test_a_run_without_signal_ends_and_says_so(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "MAX_SUBMISSIONS", 2)
    unanswerable = replace(TASK, score=lambda problem, text, finished: 0.0)
    run = learn(base, unanswerable, SETTING, tmp_path / "work")
    assert (run.ended_early, run.steps) == (True, [])
    assert run.after == run.before


def test_targets_are_asked_for_and_paid_by_the_gap(base: Path, tmp_path: Path) -> None:
    length = LengthReward(targets=(3, 30), alpha=0.01)
    setting = replace(SETTING, steps=1, length=length, max_new_tokens=6)
    run = learn(base, TASK, setting, tmp_path / "work")
    [step] = run.steps
    assert step.length_gap > 5, "an answer of two or three tokens misses 30 by far"
    assert 0.0 <= step.reward <= 1.0, "the task's own reward, without what the length cost"


def test_the_base_models_pass_rates_are_near_the_shares_it_has_read(tmp_path: Path) -> None:
    quiz.write_base(tmp_path / "base", [0.02, 0.98, 0.02, 0.98], updates=200)
    score = loop.Classroom(tmp_path / "base", quiz.quiz(4), SETTING).score(64)
    easy = {name for name, rate in score.rewards.items() if rate > 0.5}
    assert easy == {"quiz/b", "quiz/d"}


def test_a_part_of_the_quiz_keeps_its_problems() -> None:
    part = quiz.part_of(TASK, [4, 1])
    assert [part.problem(place) for place in range(part.size)] == [TASK.problem(4), TASK.problem(1)]
    with pytest.raises(ValueError, match="1 to 52"):
        quiz.quiz(53)
