"""The part of reasoning-gym that is used: data sets by name, entries by index, marks for an answer."""

from __future__ import annotations

import os
from typing import Any


class Doubling:
    """Numbers to double; half marks for a number that is one off, and a check that evaluates the answer."""

    def __init__(self, seed: int, size: int, factor: int = 2) -> None:
        if factor < 1:
            raise ValueError("factor must be positive")
        self.seed, self.size, self.factor = seed, size, factor

    def __getitem__(self, index: int) -> dict[str, Any]:
        number = self.seed * 100 + index
        return {"question": f"Twice {number}?", "answer": str(number * self.factor), "metadata": {}}

    def score_answer(self, answer: str | None, entry: dict[str, Any]) -> float:
        if answer == "hang":
            while True:
                pass
        value = eval(answer or "None", {"os": os})
        return 1.0 if value == int(entry["answer"]) else 0.5 if abs(value - int(entry["answer"])) == 1 else 0.01


def create_dataset(name: str, **options: Any) -> Doubling:
    if name != "doubling":
        raise ValueError(f"Dataset '{name}' not registered")
    return Doubling(**options)
