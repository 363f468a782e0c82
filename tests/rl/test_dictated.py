"""What a submission must answer and what that is worth: once for both sides, with and without a length reward."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rl.dictated import dictated_problems, may_claim, reward_of
from rl.draw import draw_problems, draw_seed
from rl.lengths import LengthReward, draw_targets, target_of, without_target
from rl.numbers import as_stored
from rl.tasks import RewardFailed, Task, load_task

SEED = draw_seed(bytes(32), 3, "0x" + "22" * 20, 1)
LENGTHS = LengthReward(targets=(10, 20, 40), alpha=0.0003)
TASK = load_task("arithmetic")


def test_without_a_length_reward_the_problems_are_the_tasks_own() -> None:
    wanted = tuple(TASK.problem(index) for index in draw_problems(SEED, 6, TASK.size))
    assert dictated_problems(SEED, 6, TASK, None) == wanted


def test_with_one_each_asks_for_the_target_drawn_for_it() -> None:
    plain, posed = (dictated_problems(SEED, 6, TASK, lengths) for lengths in (None, LENGTHS))
    assert tuple(map(target_of, posed)) == draw_targets(SEED, 6, LENGTHS.targets)
    assert tuple(map(without_target, posed)) == plain
    for problem, bare in zip(posed, plain, strict=True):
        assert problem.prompt == f"{bare.prompt}\n\nThink for {target_of(problem)} tokens before giving a response."


def test_a_data_sets_own_field_of_that_name_sets_no_target() -> None:
    claiming = replace(TASK, make_problem=lambda index: replace(TASK.problem(index), metadata={"target_length": "3"}))
    (problem,) = dictated_problems(SEED, 1, claiming, None)
    right = problem.gold_standard_solution
    assert reward_of(claiming, problem, right, finished=True, tokens=500, lengths=None) == 1.0
    (problem,) = dictated_problems(SEED, 1, claiming, LENGTHS)
    assert target_of(problem) in LENGTHS.targets


@pytest.mark.parametrize("tokens", [1, 9, 10, 33, 40])
def test_the_stored_reward_is_the_only_one_that_may_be_claimed(tokens: int) -> None:
    (problem,) = dictated_problems(SEED, 1, TASK, LENGTHS)
    for text, worth in ((problem.gold_standard_solution, 1.0), ("no idea", 0.0)):
        total = reward_of(TASK, problem, text, finished=True, tokens=tokens, lengths=LENGTHS)
        assert total == as_stored(worth - 0.0003 * abs(target_of(problem) - tokens))
        told = {"finished": True, "tokens": tokens, "lengths": LENGTHS}
        assert may_claim(TASK, problem, text, total, **told)
        for other in (total + 0.0003, total - 0.0003, 1.0 - total, worth + 1e-6, float("nan")):
            assert not may_claim(TASK, problem, text, other, **told)


def timed(worth: float) -> Task:
    """A task for which the speed of a machine decides: this one finds `worth`, others may find either."""
    return replace(TASK, score=lambda *_: worth, tolerates=lambda p, text, finished, claimed: text == "slow")


@pytest.mark.parametrize("here", [0.0, 1.0])
def test_where_the_machine_decides_either_worth_may_be_claimed_and_no_other_miss(here: float) -> None:
    task, told = timed(here), {"finished": True, "tokens": 25, "lengths": LENGTHS}
    (problem,) = dictated_problems(SEED, 1, task, LENGTHS)
    cost = 0.0003 * abs(target_of(problem) - 25)
    for worth in (0.0, 1.0):
        assert may_claim(task, problem, "slow", as_stored(worth - cost), **told)
        assert not may_claim(task, problem, "slow", as_stored(worth - cost / 2), **told)
        # An answer that is not near the limit has one worth only.
        assert may_claim(task, problem, "plain", as_stored(worth - cost), **told) == (worth == here)


def test_an_answer_that_cannot_be_scored_is_no_lie() -> None:
    def broken(*_: object) -> float:
        raise OSError("no sandbox")

    task = replace(TASK, score=broken)
    (problem,) = dictated_problems(SEED, 1, task, LENGTHS)
    with pytest.raises(RewardFailed):
        may_claim(task, problem, "2", 1.0, finished=True, tokens=10, lengths=LENGTHS)
