"""A task as a file of one's own: written in the schema, split into training and test, filtered by what a policy can do.

Decides what is written and under which hash it can be demanded. Which side or place a problem gets is decided in
`rl.split` and `rl.band`. It never writes over a file that it did not make.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from node.answer_file import AnswerFile
from node.answers_child import PART
from node.asking import Asking, ask
from node.checkpoint_hash import weights_hash
from node.errors import UserError
from node.progress import Progress
from node.whole_file import write_whole
from rl.answers import Answers
from rl.band import Band, solve_rate
from rl.sources import parse_source, rows_of
from rl.split import split
from rl.tasks import Problem, Task, build_task

SAMPLES_SHOWN = 3
RATE = "pass_rate"
"""Of a filtered problem's metadata: the share of answers that were right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A file of problems."""

    path: Path
    problems: int
    sha256: str

    @property
    def name(self) -> str:
        """As `task.name` takes it."""
        return f"{self.path.absolute()}#sha256={self.sha256}"


def described(task: Task) -> dict[str, Any]:
    """What there is to know of a task, in JSON's types."""
    problems = [task.problem(index) for index in range(task.size)]
    return {
        "name": task.name,
        "problems": task.size,
        "sha256": task.sha256(),
        "types": dict(Counter(problem.task_type for problem in problems)),
        "versions": dict(task.versions),
        "dropped": dict(task.dropped),
        "mean_prompt_characters": sum(len(problem.prompt) for problem in problems) / task.size,
        "samples": [asdict(problem) for problem in problems[:: -(-task.size // SAMPLES_SHOWN)]],
    }


def write_problems(path: Path, problems: Iterable[Problem]) -> Written:
    """Write a .jsonl file in the schema, and read it again as everybody else will. Raises UserError."""
    write_whole(path, (json.dumps(asdict(problem)) for problem in problems))
    source = parse_source(str(path))
    if source is None:
        raise UserError(f"{path} does not end in .jsonl", fix="name the file so")
    task = build_task(source, rows_of(source))
    return Written(path=path, problems=task.size, sha256=task.sha256())


def write_split(task: Task, folder: Path, *, test: float, seed: int) -> tuple[Written, Written]:
    """`train.jsonl` and `test.jsonl` in the folder. Raises UserError."""
    paths = folder / "train.jsonl", folder / "test.jsonl"
    for path in paths:
        if path.exists():
            raise UserError(f"{path} exists and is never overwritten", fix="name another folder with --out")
    try:
        sides = split((task.problem(index) for index in range(task.size)), test=test, seed=seed)
    except ValueError as fault:
        raise UserError(str(fault), fix="choose another --test or --seed") from fault
    train, held_out = (write_problems(path, side) for path, side in zip(paths, sides, strict=True))
    return train, held_out


def filtered(task: Task, answers: Iterable[Answers], band: Band) -> tuple[list[Problem], Counter[str]]:
    """The problems that are kept, each with its solve rate, in the task's order; and how many lie where.

    A problem of which an answer could not be graded is counted as `ungraded` and not kept.
    """
    by_id = {one.problem_id: one for one in answers}
    kept, counts = [], Counter({"kept": 0, "too-easy": 0, "too-hard": 0, "ungraded": 0})
    for index in range(task.size):
        problem = task.problem(index)
        one = by_id[problem.problem_id]
        place = band.place(solve_rate(one.rewards)) if one.rewards else "ungraded"
        counts[place] += 1
        if place == "kept":
            kept.append(replace(problem, metadata=problem.metadata | {RATE: str(solve_rate(one.rewards))}))
    return kept, counts


def filter_task(task: Task, asking: Asking, folder: Path, out: Path, band: Band) -> tuple[Written, Counter[str]]:
    """Ask the policy in `folder` every problem, and write to `out` what lies in the band.

    What it answered lies beside, in `OUT.answers.jsonl`: another band needs no other answers, and a filter that was
    stopped goes on there. Raises UserError.
    """
    if out.suffix != ".jsonl":
        raise UserError(f"{out} does not end in .jsonl", fix="name the file so with --out")
    beside = out.with_name(out.name.removesuffix(".jsonl") + ".answers.jsonl")
    if out.exists() and not beside.exists():
        raise UserError(f"{out} exists and was not made by a filter", fix="name another file with --out")
    with AnswerFile(beside, question(task, asking, folder), part=PART) as file:
        if len(file.answers) < task.size:
            progress = Progress("answered", task.size, done=len(file.answers))
            ask(folder, asking, file.append, progress, begin=len(file.answers) // PART)
        kept, counts = filtered(task, file.answers, band)
    if not kept:
        told = ", ".join(f"{count} {place}" for place, count in counts.items())
        raise UserError(f"no problem lies in the band: {told}", fix="widen it with --low and --high")
    return write_problems(out, kept), counts


def question(task: Task, asking: Asking, folder: Path) -> Mapping[str, Any]:
    """All on which the answers depend, machines' arithmetic aside."""
    settings = asking.config
    return {
        "format": 1,
        "task": task.sha256(),
        "problems": len(asking.indices),
        "weights": weights_hash(folder),
        "samples": asking.samples,
        "seed": asking.seed,
        "temperature": settings.rl.temperature,
        "top_k": settings.rl.top_k,
        "top_p": settings.rl.top_p,
        "system_prompt": settings.task.system_prompt,
        "max_new_tokens": settings.task.max_new_tokens,
        "length_targets": settings.task.length_targets,
    }
