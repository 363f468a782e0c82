from __future__ import annotations

import json
import re
from fractions import Fraction
from pathlib import Path

import pytest

from rl.tasks import Problem, last_number, load_task, score_number, task_names

TABLE = [
    ("42", Fraction(42)),
    ("The answer is 7.", Fraction(7)),
    ("3 then 5", Fraction(5)),
    ("007", Fraction(7)),
    ("-7", Fraction(-7)),
    ("−7", Fraction(-7)),
    ("x = -3", Fraction(-3)),
    ("+7", Fraction(7)),
    ("9-4", Fraction(4)),
    ("2.50", Fraction(5, 2)),
    ("-0.125", Fraction(-1, 8)),
    ("1/3", Fraction(1, 3)),
    ("-2/4", Fraction(-1, 2)),
    ("1/0", None),
    ("5 or 1/0", None),
    ("1,000", Fraction(1000)),
    ("-1,234,567.5", Fraction(-2469135, 2)),
    ("1,00", Fraction(0)),
    ("1,2,3", Fraction(3)),
    ("3 + 4 = 7", Fraction(7)),
    ("**12**", Fraction(12)),
    ("$5", Fraction(5)),
    ("12%", Fraction(12)),
    ("5x", None),
    ("x5", None),
    ("v1.2.3", None),
    ("10²", None),
    ("seven", None),
    ("", None),
    (".", None),
    ("-", None),
    ("1" * 18, Fraction(int("1" * 18))),
    ("1" * 19, None),
]


@pytest.mark.parametrize(("text", "value"), TABLE)
def test_last_number(text: str, value: Fraction | None) -> None:
    assert last_number(text) == value


def test_more_digits_than_python_reads_are_no_number() -> None:
    """A completion is hostile too: 1,000,000,… of 6,000 digits must neither crash a worker nor its validator."""
    assert last_number("1" + ",000" * 2000) is None


@pytest.mark.parametrize("part", ["1,", "1,000", ",000", "9", "-", "1/", "1.", "1 "])
def test_long_texts_take_no_long_time(part: str) -> None:
    """Quadratic matching would take minutes."""
    for end in ("", "x"):
        assert (last_number(part * 50_000 + end) or 0) < 10**6


def question(gold: str) -> Problem:
    return Problem(problem_id="t/1", source="t", task_type="number", prompt="?", gold_standard_solution=gold)


def test_rewards_are_zero_or_one() -> None:
    assert score_number(question("10"), "It is 10", True) == 1.0
    assert score_number(question("10"), "It is 10.0", False) == 1.0
    assert score_number(question("10"), "10 or 11", True) == 0.0
    assert score_number(question("10"), "", True) == 0.0
    assert score_number(question("-1/2"), "−0.5", True) == 1.0
    task = load_task("arithmetic")
    assert task.reward(task.problem(0), "2", True) == 1.0
    assert {type(task.reward(task.problem(0), text, True)) for text in ("2", "3", "")} == {float}


NUMBER = r"-?\d+(?:,\d{3})*(?:\.\d+|/\d+)?"
ANSWER = re.compile(rf"\\boxed\{{{NUMBER}\}}|Final Answer: \*\*{NUMBER}\*\*")
CASES = [json.loads(line) for line in Path(__file__).with_name("math_cases.jsonl").read_text().splitlines()]
ASKABLE = [case for case in CASES if re.fullmatch(NUMBER, case["gold"])]


@pytest.mark.parametrize("case", ASKABLE, ids=lambda case: case["answer"])
def test_cases_that_broke_other_scorers(case: dict[str, object]) -> None:
    """This scorer knows numbers only: where the answer is one it must be right, elsewhere it must return at all."""
    reward = score_number(question(str(case["gold"])), str(case["answer"]), True)
    if ANSWER.fullmatch(str(case["answer"])):
        assert reward == case["reward"]
    assert reward in (0.0, 1.0)


def test_the_cases_hold_plain_numbers_of_both_kinds() -> None:
    rewards = [case["reward"] for case in ASKABLE if ANSWER.fullmatch(case["answer"])]
    assert {0, 1} <= set(rewards)
    assert len(rewards) >= 4


def right_answer(problem: Problem) -> str:
    gold = problem.gold_standard_solution
    return {"maths": f"\\boxed{{{gold}}}", "code": f"```python\n{gold}```"}.get(problem.task_type, gold)


def test_problem_ids_are_unique_across_tasks_and_problems_repeatable() -> None:
    tasks = [load_task(name) for name in task_names()]
    problems = [task.problem(index) for task in tasks for index in range(task.size)]
    assert len({problem.problem_id for problem in problems}) == len(problems) == 121 + 30 + 8
    for task in tasks:
        for index in range(task.size):
            problem = task.problem(index)
            assert problem == task.problem(index)
            assert problem.problem_id.startswith(f"{task.name}/")
            assert task.reward(problem, right_answer(problem), True) == 1.0
            assert task.reward(problem, "no idea", True) == 0.0


@pytest.mark.parametrize("index", [-1, 81])
def test_an_index_outside_the_task_is_refused(index: int) -> None:
    with pytest.raises(IndexError, match="81 problems"):
        load_task("arithmetic").problem(index)


def test_an_unknown_task_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="arithmetic, digits, maths, code"):
        load_task("sums")
