"""A task for the tiny model whose difficulty is set problem by problem, and the model that finds it so difficult.

Each problem asks for the digit behind a letter. The base model has read the right digit in a given share of cases, and
one of the others in the rest; that share is then about the problem's pass rate.
"""

from __future__ import annotations

import random
import string
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.tiny_model import write_tiny_model
from rl.lengths import with_target
from rl.problems import Problem
from rl.tasks import Task, score_number

LETTERS = string.ascii_letters
DIGITS = 10
UPDATES = 1000
"""After which the base model's pass rates are near the shares."""
HEED = 0.2
"""Share of answers read whose length is the one asked for: a base model, too, follows instructions now and then."""


def quiz(size: int, *, alike: bool = False) -> Task:
    """The problems; as many at most as there are letters, small and large. `alike`: all have the same digit."""
    if not 1 <= size <= len(LETTERS):
        raise ValueError(f"a quiz has 1 to {len(LETTERS)} problems, not {size}")
    make = _alike if alike else _problem
    return Task(name="quiz", size=size, make_problem=make, score=score_number, versions={"number": "1"})


def part_of(task: Task, places: Sequence[int]) -> Task:
    """The task of those problems alone, in that order: what an offline filter leaves."""
    kept = tuple(task.problem(place) for place in places)
    return Task(name=f"{task.name}-part", size=len(kept), make_problem=kept.__getitem__, score=task.score)


def write_base(
    folder: Path,
    shares: Sequence[float],
    *,
    alike: bool = False,
    fillers: int = 0,
    targets: Sequence[int] = (),
    updates: int = UPDATES,
    seed: int = 0,
) -> None:
    """Write the base model as a bf16 HF folder.

    Args:
        shares: of each problem, how often the model has read its right digit.
        fillers: how many tildes, drawn evenly from 0 on, may stand before a digit.
        targets: lengths that questions ask for; an answer that it reads has that length in HEED of the cases. None: not
            asked for.
    """

    def read(rng: random.Random) -> tuple[str, str]:
        place = rng.randrange(len(shares))
        problem = _alike(place) if alike else _problem(place)
        tildes = rng.randint(0, fillers)
        if targets:
            target = rng.choice(targets)
            problem = with_target(problem, target)
            tildes = target - 2 if rng.random() < HEED else tildes  # the digit and the end take two
        digit = int(problem.gold_standard_solution)
        if rng.random() >= shares[place]:
            digit = (digit + rng.randrange(1, DIGITS)) % DIGITS
        return problem.prompt, "~" * tildes + str(digit)

    write_tiny_model(folder, read, seed=seed, updates=updates)


def _problem(place: int) -> Problem:
    return Problem(
        problem_id=f"quiz/{LETTERS[place]}",
        source="quiz",
        task_type="number",
        prompt=LETTERS[place],
        gold_standard_solution=str(random.Random(place).randrange(DIGITS)),
    )


def _alike(place: int) -> Problem:
    return replace(_problem(place), gold_standard_solution=_problem(0).gold_standard_solution)
