"""A problem, in the GENESYS schema, and the rows of data sets that become one.

Decides which rows are usable and counts the others by their fault; says nothing about what an answer is worth. Pure:
the same rows give the same problems in the same order, which is what lets every participant draw the same ones.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from rl import flat_json

MAX_PROMPT_CHARS = 32_768
MAX_ID_CHARS = 200
MAX_PROBLEMS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One problem in the GENESYS schema (INTELLECT-2 report, section 2.2)."""

    problem_id: str
    """Unique in its task."""
    source: str
    """The data set that the problem belongs to."""
    task_type: str
    """Which reward function scores it."""
    prompt: str
    """The user's message; `rl.prompts` renders it to token ids."""
    gold_standard_solution: str
    """The right answer, as text; empty where `verification_info` says what is right."""
    verification_info: dict[str, str] = field(default_factory=dict)
    metadata: dict[str, str] = field(default_factory=dict)


class RowInvalid(ValueError):
    """A row is not in the schema at all: the data set is broken, and its owner must know."""


def read_rows(rows: Iterable[object], source: str) -> tuple[list[Problem], Counter[str]]:
    """Problems from rows, and how many rows were dropped, by fault: duplicate-id, no-prompt, prompt-too-long.

    Args:
        rows: mappings with `problem_id`, `task_type`, `prompt`, and any of `gold_standard_solution`,
            `verification_info` and `metadata` (mappings, or JSON of one); other keys are ignored.
        source: what a row without its own `source` gets.

    Raises RowInvalid, with the number of the row from 1.
    """
    problems: dict[str, Problem] = {}
    dropped: Counter[str] = Counter()
    for number, row in enumerate(rows, start=1):
        if number > MAX_PROBLEMS:
            raise RowInvalid(f"more than {MAX_PROBLEMS} rows; split the data set")
        problem = _problem(row, number, source)
        if problem.problem_id in problems:
            dropped["duplicate-id"] += 1
        elif not problem.prompt.strip():
            dropped["no-prompt"] += 1
        elif len(problem.prompt) > MAX_PROMPT_CHARS:
            dropped["prompt-too-long"] += 1
        else:
            problems[problem.problem_id] = problem
    return list(problems.values()), dropped


def _problem(row: object, number: int, source: str) -> Problem:
    if not isinstance(row, Mapping):
        raise RowInvalid(f"row {number} is no object")
    texts = {}
    for key in ("problem_id", "task_type", "prompt", "source", "gold_standard_solution"):
        value = row.get(key)
        if value is None and key in ("source", "gold_standard_solution", "prompt"):
            value = source if key == "source" else ""
        if isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        if not isinstance(value, str):
            raise RowInvalid(f"row {number}: {key} must be text, not {type(value).__name__}")
        texts[key] = value
    if not 1 <= len(texts["problem_id"]) <= MAX_ID_CHARS:
        raise RowInvalid(f"row {number}: problem_id has {len(texts['problem_id'])} characters, not 1 to {MAX_ID_CHARS}")
    infos = {key: _mapping(row.get(key), key, number) for key in ("verification_info", "metadata")}
    return Problem(**texts, **infos)


def _mapping(value: object, key: str, number: int) -> dict[str, str]:
    """Texts by name; what is no text is written as JSON, so that it is the same whatever file it came from."""
    if isinstance(value, str) and value:
        try:
            value = flat_json.loads(value)
        except ValueError as error:
            raise RowInvalid(f"row {number}: {key} is no JSON ({error})") from error
    if not value:
        return {}
    if not isinstance(value, Mapping):
        raise RowInvalid(f"row {number}: {key} must be an object")
    named = {str(name): item for name, item in value.items() if item is not None}
    return {
        name: item if isinstance(item, str) else json.dumps(item, sort_keys=True)
        for name, item in sorted(named.items())
    }
