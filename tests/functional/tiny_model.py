"""The tests' language model, right some three times in ten at the task "digits": `python tiny_model.py FOLDER`."""

from __future__ import annotations

import random
import sys
from pathlib import Path

from benchmarks.tiny_model import write_tiny_model
from rl.tasks import load_task

RIGHT = 0.25


def make_tiny_model(folder: Path, *, seed: int = 0, updates: int = 250) -> None:
    """Write the model as a bf16 HF folder; takes a few seconds on one core."""
    task = load_task("digits")

    def read(rng: random.Random) -> tuple[str, str]:
        question = rng.randrange(10)
        said = question if rng.random() < RIGHT else rng.randrange(10)
        return task.problem(question).prompt, str(said)

    write_tiny_model(folder, read, seed=seed, updates=updates)


if __name__ == "__main__":
    make_tiny_model(Path(sys.argv[1]))
