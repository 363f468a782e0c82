"""A reward function as another package would have it."""

from __future__ import annotations

from typing import Any


def shouting(problem: dict[str, Any], completion: str, finished: bool) -> float:
    if completion == "divide":
        return 1 / 0
    if completion == "nan":
        return float("nan")
    while completion == "forever":
        pass
    return float(completion == problem["gold_standard_solution"])
