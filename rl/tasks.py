"""What a policy is asked and what an answer is worth: a fixed, indexable list of problems and its rewards.

Everybody must have the same list and come to the same worth, or no validator could recompute a worker's rewards. So a
task has a hash, and a reward that cannot be computed is a `RewardFailed`, never a zero. It never runs code from a
completion outside `rl.sandbox` and never asks a model.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache

from rl.numbers import as_stored, last_number
from rl.problems import Problem, RowInvalid, read_rows
from rl.sources import BUNDLED, Source, parse_source, rows_of
from rl.task_types import Agrees, Score, TaskType, score_number, task_types

__all__ = ("Problem", "RewardFailed", "Task", "last_number", "load_task", "score_number", "task_names")

log = logging.getLogger(__name__)


class RewardFailed(Exception):
    """A reward could not be computed, whence nothing follows about the answer. `__cause__` says why.

    A validator gives no verdict then. A worker must not guess: it leaves the submission and goes on with the next.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A list of problems that can be indexed without being stored, and what an answer to one is worth."""

    name: str
    size: int
    make_problem: Callable[[int], Problem]
    score: Score
    tolerates: Agrees | None = None
    """Whether an honest machine may claim a worth; None: only exactly what `score` says."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Task types and their versions: with the problems, what `sha256` covers."""
    dropped: Mapping[str, int] = field(default_factory=dict)
    """Rows of the data set that are no problems of the task, counted by fault."""

    def problem(self, index: int) -> Problem:
        """The problem at `index` in [0, size). Raises IndexError outside it."""
        if not 0 <= index < self.size:
            raise IndexError(f"task {self.name} has {self.size} problems, not {index}")
        return self.make_problem(index)

    def reward(self, problem: Problem, text: str, finished: bool) -> float:
        """What the answer is worth: 0 to 1, in 32 bits. `finished`: it ended by EOS, not cut. Raises RewardFailed.

        Validators reject what lies outside (`bounds`), so a function that gives 2 must not cost a worker its stake.
        """
        try:
            worth = as_stored(float(self.score(problem, text, finished)))
        except Exception as cause:
            raise RewardFailed(f"{problem.problem_id}: {type(cause).__name__}: {cause}") from cause
        if not 0.0 <= worth <= 1.0:
            raise RewardFailed(f"{problem.problem_id}: the reward function gave {worth}, allowed are 0 to 1")
        return worth

    def agrees(self, problem: Problem, text: str, finished: bool, claimed: float) -> bool:
        """Whether an honest machine may have computed `claimed`. Raises RewardFailed.

        More than `reward(…) == claimed` only where the speed of a machine decides, as it does for programs.
        """
        if self.tolerates is None:
            return self.reward(problem, text, finished) == claimed
        try:
            return self.tolerates(problem, text, finished, claimed)
        except Exception as cause:
            raise RewardFailed(f"{problem.problem_id}: {type(cause).__name__}: {cause}") from cause

    def sha256(self) -> str:
        """Hex hash of everything that participants must agree on: problems in order, and how answers are judged."""
        digest = hashlib.sha256(b"intellect-node/task/1\n" + _canonical(dict(self.versions)))
        for index in range(self.size):
            digest.update(_canonical(asdict(self.make_problem(index))))
        return digest.hexdigest()


def _canonical(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, ensure_ascii=True).encode() + b"\n"


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


_MADE = {
    task.name: task
    for task in (
        Task(name="arithmetic", size=len(_SUMS), make_problem=_sum, score=score_number, versions={"number": "1"}),
        Task(name="digits", size=40, make_problem=_digit, score=score_number, versions={"number": "1"}),
    )
}


def task_names() -> tuple[str, ...]:
    """The names of the tasks that come with the program."""
    return (*_MADE, *BUNDLED)


def check_name(name: str) -> None:
    """Raises ValueError, naming what is known, where `name` is no task's; whether its file is there is not asked."""
    if name.partition("#")[0] not in _MADE and parse_source(name) is None:
        raise ValueError(
            f"unknown task {name!r}; known: {', '.join(task_names())}, a path ending in .jsonl or .parquet, "
            "reasoning-gym:NAME?seed=…&size=…, hf:OWNER/NAME"
        )


@cache
def load_task(name: str) -> Task:
    """The task of that name (`rl.sources` says which there are).

    Raises ValueError: unknown, unreadable, empty, or not the hash that its name demands; SandboxUnavailable and
    NotGraded where this machine cannot judge such answers.
    """
    check_name(name)
    made, _, demanded = name.partition("#sha256=")
    source = parse_source(name)
    task = _MADE[made] if source is None else build_task(source, rows_of(source))
    if demanded and task.sha256() != demanded.lower():
        raise ValueError(
            f"task {made} has the hash {task.sha256()}, not {demanded}: this machine's copy, or a package that makes "
            "or judges its problems, differs from the pool owner's"
        )
    if source is not None:
        log.info("task %s: %d problems, sha256 %s", made, task.size, task.sha256())
    return task


def build_task(source: Source, rows: object) -> Task:
    """A task from the rows of a data set; what cannot be used is dropped and counted. Raises ValueError."""
    try:
        problems, dropped = read_rows(rows, source.title)  # type: ignore[arg-type]
    except RowInvalid as fault:
        raise ValueError(f"task {source.where}: {fault}") from fault
    types = _types_of(source, problems)
    usable = _usable(problems, types, dropped)
    if dropped:
        told = ", ".join(f"{count} {fault}" for fault, count in sorted(dropped.items()))
        log.warning("task %s: %d rows dropped: %s", source.title, dropped.total(), told)
    if not usable:
        raise ValueError(f"task {source.where} has no usable problem; dropped: {dict(dropped)}")

    def score(problem: Problem, text: str, finished: bool) -> float:
        return types[problem.task_type].score(problem, text, finished)

    def agrees(problem: Problem, text: str, finished: bool, claimed: float) -> bool:
        kind = types[problem.task_type]
        if kind.agrees is None:
            return task.reward(problem, text, finished) == claimed
        return kind.agrees(problem, text, finished, claimed)

    task = Task(
        name=source.title,
        size=len(usable),
        make_problem=usable.__getitem__,
        score=score,
        tolerates=agrees,
        versions={name: kind.version for name, kind in types.items()},
        dropped=dropped,
    )
    return task


def _types_of(source: Source, problems: Sequence[Problem]) -> dict[str, TaskType]:
    known = task_types()
    names = sorted({problem.task_type for problem in problems})
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(
            f"task {source.where}: unknown task_type {unknown[0]!r}; known: {', '.join(sorted(known))}. Install the "
            "package that has its reward function (docs/tasks.md)"
        )
    for name in names:
        known[name].ready()
    return {name: known[name] for name in names}


def _usable(problems: Sequence[Problem], types: Mapping[str, TaskType], dropped: Counter[str]) -> list[Problem]:
    """In their order, without those whose type finds a fault in them."""
    faulty: set[str] = set()
    for name, kind in types.items():
        mine = [problem for problem in problems if problem.task_type == name]
        for problem, fault in zip(mine, kind.faults(mine), strict=True):
            if fault is not None:
                dropped[fault] += 1
                faulty.add(problem.problem_id)
    return [problem for problem in problems if problem.problem_id not in faulty]
