"""Task types: for each, which problems can be used at all and what an answer is worth.

Decides nothing itself; it is the table from a name to functions. A new environment is one function in an installed
package, found by the entry point group `intellect_node.rewards`; it runs apart and confined (`rl.grading`). That a
problem cannot be used is said when a task is loaded, never by a reward.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import cache
from importlib.metadata import PackageNotFoundError, entry_points, version
from typing import Any

from rl.grading.grader import CallLimits, Grader
from rl.maths.answer import after_thinking
from rl.numbers import last_number
from rl.problems import Problem

GROUP = "intellect_node.rewards"
REWARD_LIMITS = CallLimits(calls=0, cpu_s=10, wall_s=60.0, memory_bytes=4 << 30)
GENERATED_LIMITS = CallLimits(calls=0, cpu_s=10, wall_s=60.0, memory_bytes=4 << 30, confined=True)

Score = Callable[[Problem, str, bool], float]
Agrees = Callable[[Problem, str, bool, float], bool]
Faults = Callable[[Sequence[Problem]], list[str | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskType:
    """How the problems of one type are judged."""

    version: str
    """Part of a task's hash: changes whenever an answer may be worth something else."""
    faults: Faults
    """For each problem why it cannot be used, in one or two words, or None."""
    score: Score
    """Problem, completion, whether it ended by itself → worth."""
    agrees: Agrees | None = None
    """The same and a claimed worth → whether an honest machine may claim it; None: only what `score` says."""
    ready: Callable[[], object] = lambda: None
    """Raises where this machine cannot judge such answers at all."""


def score_number(problem: Problem, text: str, finished: bool) -> float:
    """1.0 if the last number of the completion equals the gold answer exactly."""
    return float(last_number(text) == Fraction(problem.gold_standard_solution))


def _number_faults(problems: Sequence[Problem]) -> list[str | None]:
    return [None if last_number(p.gold_standard_solution) is not None else _gold_fault(p) for p in problems]


def _gold_fault(problem: Problem) -> str:
    return "unusable-gold" if problem.gold_standard_solution.strip() else "no-gold"


def _maths_faults(problems: Sequence[Problem]) -> list[str | None]:
    from rl.maths.grade import unusable

    faults = unusable([problem.gold_standard_solution for problem in problems])
    return [None if fault is None else _gold_fault(p) for p, fault in zip(problems, faults, strict=True)]


def _score_maths(problem: Problem, text: str, finished: bool) -> float:
    from rl.maths.grade import grade

    return grade(problem.gold_standard_solution, text)


def _maths_agrees(problem: Problem, text: str, finished: bool, claimed: float) -> bool:
    from rl.maths.grade import agrees

    return agrees(problem.gold_standard_solution, text, claimed)


def _code_faults(problems: Sequence[Problem]) -> list[str | None]:
    from rl.sandbox.code import TestsInvalid, parse_tests

    def fault(problem: Problem) -> str | None:
        try:
            parse_tests(problem.verification_info)
        except TestsInvalid:
            return "unusable-tests"
        return None

    return [fault(problem) for problem in problems]


def _score_code(problem: Problem, text: str, finished: bool) -> float:
    from rl.sandbox.code import grade, parse_tests

    return grade(parse_tests(problem.verification_info), text)


def _code_agrees(problem: Problem, text: str, finished: bool, claimed: float) -> bool:
    from rl.sandbox.code import agrees, parse_tests

    return agrees(parse_tests(problem.verification_info), text, claimed)


def _sandbox_ready() -> None:
    from rl.sandbox.run import require

    require()


def answer_in_tags(text: str) -> str:
    """What stands between the last `<answer>` and `</answer>` after the thinking; all of it where there are no tags."""
    said = after_thinking(text)
    inside = said.rpartition("<answer>")[2].partition("</answer>")[0] if "<answer>" in said else said
    return inside.strip()


@cache
def _generated_grader() -> Grader:
    return Grader("rl.generator_scores:score", GENERATED_LIMITS)


def _score_generated(problem: Problem, text: str, finished: bool) -> float:
    """1.0 where the generator's own check gives full marks: no partial credit (the report)."""
    info = problem.verification_info
    worth = _generated_grader().call(info["generator"], info["entry"], answer_in_tags(text))
    return float(worth >= 0.99)


def _any(problems: Sequence[Problem]) -> list[str | None]:
    return [None for _ in problems]


def _with(package: str) -> str:
    """The version of this way of judging, and of the package that does it."""
    try:
        return f"1 {package} {version(package)}"
    except PackageNotFoundError:
        return f"1 without {package}"


def _built_in() -> dict[str, TaskType]:
    python = "1 python {}.{}".format(*sys.version_info)
    return {
        "number": TaskType(version="1", faults=_number_faults, score=score_number),
        "maths": TaskType(version=_with("math-verify"), faults=_maths_faults, score=_score_maths, agrees=_maths_agrees),
        "code": TaskType(
            version=python, faults=_code_faults, score=_score_code, agrees=_code_agrees, ready=_sandbox_ready
        ),
        "reasoning-gym": TaskType(version=_with("reasoning-gym"), faults=_any, score=_score_generated),
    }


def _installed(target: str, release: str) -> TaskType:
    """A function of another package: `reward(problem: dict, completion: str, finished: bool) -> float`."""
    grader = Grader(target, REWARD_LIMITS)

    def score(problem: Problem, text: str, finished: bool) -> Any:
        return grader.call(asdict(problem), text, finished)

    return TaskType(version=release, faults=_any, score=score)


@cache
def task_types() -> dict[str, TaskType]:
    """All that are known here. A package cannot replace a built-in one."""
    found = {
        point.name: _installed(point.value, point.dist.version if point.dist else "")
        for point in entry_points(group=GROUP)
    }
    return found | _built_in()
