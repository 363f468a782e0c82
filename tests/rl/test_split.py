"""The held-out test: disjoint, the same everywhere, and not moved by problems that are added."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rl.split import split
from rl.tasks import Problem, load_task

PROBLEMS = [load_task("arithmetic").problem(index) for index in range(81)]


def ids(problems: list[Problem]) -> list[str]:
    return [problem.problem_id for problem in problems]


def test_every_problem_is_on_one_side_in_its_order() -> None:
    train, test = split(PROBLEMS, test=0.2, seed=0)
    assert sorted(ids(train) + ids(test)) == sorted(ids(PROBLEMS))
    assert [name for name in ids(PROBLEMS) if name in set(ids(test))] == ids(test)
    assert 6 <= len(test) <= 27, "16.2, three deviations of 3.6"


def test_added_problems_move_nobody_and_seeds_do() -> None:
    few, many = split(PROBLEMS[::2], test=0.3, seed=1), split(PROBLEMS, test=0.3, seed=1)
    for some, more in zip(few, many, strict=True):
        assert set(ids(some)) <= set(ids(more))
    assert ids(split(PROBLEMS, test=0.3, seed=2)[1]) != ids(many[1])
    assert ids(split(PROBLEMS, test=0.3, seed=1)[1]) == ids(many[1])


def test_a_larger_test_contains_the_smaller() -> None:
    small, large = (set(ids(split(PROBLEMS, test=share, seed=4)[1])) for share in (0.1, 0.5))
    assert small < large


def test_the_same_prompt_under_another_name_is_not_held_out_from_itself() -> None:
    copies = [replace(p, problem_id=f"copy/{n}", prompt=p.prompt + " \n") for n, p in enumerate(PROBLEMS)]
    train, test = split([*PROBLEMS, *copies], test=0.4, seed=0)
    assert {p.prompt.strip() for p in train}.isdisjoint(p.prompt.strip() for p in test)
    assert len(train) + len(test) == 162


def test_a_split_without_two_sides_is_refused() -> None:
    with pytest.raises(ValueError, match="one side is empty"):
        split(PROBLEMS[:1], test=0.5, seed=0)
    for share in (0.0, 1.0, float("nan")):
        with pytest.raises(ValueError, match="above 0 and below 1"):
            split(PROBLEMS, test=share, seed=0)
