"""What a policy is asked and what an answer is worth: GENESYS-style problems and exact, symbolic rewards.

A task is a fixed, indexable list of problems plus one reward function. Everything here is pure: the same
completion is worth the same on every machine, which is what lets a validator recompute a worker's rewards.
It never runs code from a completion and never asks a model.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One problem in the GENESYS schema (INTELLECT-2 report, section 2.2)."""

    problem_id: str
    """Unique across tasks: starts with the task's name."""
    source: str
    """The task that the problem belongs to."""
    task_type: str
    """Which reward function scores it."""
    prompt: str
    """The user's message; `rl.prompts` renders it to token ids."""
    gold_standard_solution: str
    """The right answer, as text."""
    verification_info: dict[str, str] = field(default_factory=dict)
    metadata: dict[str, str] = field(default_factory=dict)


Reward = Callable[[Problem, str, bool], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A list of problems that can be indexed without being stored, and what an answer to one is worth."""

    name: str
    size: int
    make_problem: Callable[[int], Problem]
    score: Reward

    def problem(self, index: int) -> Problem:
        """The problem at `index` in [0, size). Raises IndexError outside it."""
        if not 0 <= index < self.size:
            raise IndexError(f"task {self.name} has {self.size} problems, not {index}")
        return self.make_problem(index)

    def reward(self, problem: Problem, text: str, finished: bool) -> float:
        """0.0 or 1.0. `finished` says that the completion ended by itself (EOS) and was not cut at its limit."""
        return self.score(problem, text, finished)


# Thousands marks count only in groups of three; a sign only where it cannot be a minus between two operands.
_NUMBER = re.compile(r"(?<![\w.])[-−]?(?:\d{1,3}(?:,\d{3})+|\d{1,18})(?:\.\d{1,18}|/\d{1,18})?(?![\w])")


def last_number(text: str) -> Fraction | None:
    """The last integer, decimal or fraction written in `text`, exactly; None if there is none."""
    found = _NUMBER.findall(text)
    if not found:
        return None
    try:
        return Fraction(found[-1].replace(",", "").replace("−", "-"))
    except (ZeroDivisionError, ValueError):  # x/0, or more digits than Python reads
        return None


def score_number(problem: Problem, text: str, finished: bool) -> float:
    """1.0 if the last number of the completion equals the gold answer exactly."""
    return float(last_number(text) == Fraction(problem.gold_standard_solution))


_WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_SUMS = [(a, b) for a in range(1, 10) for b in range(1, 10)]


def _sum(index: int) -> Problem:
    a, b = _SUMS[index]
    return Problem(
        problem_id=f"arithmetic/{a}+{b}",
        source="arithmetic",
        task_type="number",
        prompt=f"What is {a} + {b}? Answer with just the number.",
        gold_standard_solution=str(a + b),
    )


def _digit(index: int) -> Problem:
    return Problem(
        problem_id=f"digits/{index}",
        source="digits",
        task_type="number",
        prompt=f"Say {_WORDS[index % 10]}.",
        gold_standard_solution=str(index % 10),
        metadata={"copy": str(index // 10)},
    )


_TASKS = {
    task.name: task
    for task in (
        Task(name="arithmetic", size=len(_SUMS), make_problem=_sum, score=score_number),
        Task(name="digits", size=40, make_problem=_digit, score=score_number),
    )
}


def task_names() -> tuple[str, ...]:
    """The names that `load_task` knows."""
    return tuple(_TASKS)


def load_task(name: str) -> Task:
    """The task of that name. Raises ValueError naming the known ones."""
    if name not in _TASKS:
        raise ValueError(f"unknown task {name!r}; known: {', '.join(_TASKS)}")
    return _TASKS[name]
