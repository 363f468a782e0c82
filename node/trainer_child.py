"""The trainer's compute process: optimiser steps on groups that it is given, and checkpoints in a folder.

It has no keys and no network and never sees a rollout that was not accepted. Started by `node.trainer_ranks` it is one
of several processes that train one policy; the first of them answers for all.
"""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from node.child_main import serve_sync, without_stdio
from node.rank_calls import Meeting, die_with_parent


class TrainerProcess:
    """Handlers of the trainer process; the first call, but for `prepare`, must be `start`."""

    def __init__(self, meeting: Meeting | None = None) -> None:
        self._meeting = meeting

    def prepare(self) -> None:
        """Import what takes long, before there is anything to do."""
        import rl.trainer  # noqa: F401

    def start(
        self, *, folder: str, recipe: dict[str, Any], compute_type: str, reference: str | None = None
    ) -> dict[str, Any]:
        """Load the policy in `folder`; `recipe` holds the fields of `rl.recipe.Recipe`, `reference` a frozen policy."""
        began = time.monotonic()
        import torch

        from rl.hardware import choose_compute_type, read_cpu_flags
        from rl.ranks import ALONE
        from rl.recipe import Recipe
        from rl.trainer import PolicyTrainer

        chosen = choose_compute_type(compute_type, read_cpu_flags(), torch.cuda.is_available())
        ranks = self._meeting.ranks if self._meeting else ALONE
        self._trainer = PolicyTrainer(
            Path(folder), recipe=Recipe(**recipe), compute_type=chosen, ranks=ranks,
            reference=Path(reference) if reference else None,
        )  # fmt: skip
        return {"seconds": time.monotonic() - began, "compute_type": chosen}

    def load_state(self, *, folder: str, version: int) -> None:
        """Go on from the state in `folder`, that of the policy just loaded. Raises StateInvalid."""
        self._trainer.load_state(Path(folder), version)

    def train(self, *, groups: list[dict[str, Any]], save_to: str, step: int, submissions: list[str]) -> dict[str, Any]:
        """One step on `groups` (fields of `rl.batch.TrainingGroup`); writes the new policy to `save_to`."""
        from rl.batch import TrainingGroup

        began = time.monotonic()
        metrics = self._trainer.step([_group(TrainingGroup, fields) for fields in groups])
        trained = time.monotonic()
        self._trainer.save(Path(save_to), step=step, submissions=submissions)
        return asdict(metrics) | {"train_s": trained - began, "save_s": time.monotonic() - trained}

    def save_state(self, *, folder: str, version: int) -> dict[str, float]:
        """Write what training goes on with after policy `version`, the one saved last."""
        began = time.monotonic()
        self._trainer.save_state(Path(folder), version)
        return {"seconds": time.monotonic() - began}


def _group(kind: type, fields: dict[str, Any]) -> Any:
    nested = {name: tuple(map(tuple, fields[name])) for name in ("completions", "behaviour_logprobs")}
    flat = {name: tuple(fields[name]) for name in ("prompt_ids", "rewards")}
    return kind(problem_id=fields["problem_id"], **nested, **flat)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=Path, help="folder where the ranks meet; RANK and WORLD_SIZE say the rest")
    folder = parser.parse_args().ranks
    meeting = None
    if folder:
        die_with_parent()
        meeting = Meeting(folder, number=int(os.environ["RANK"]), count=int(os.environ["WORLD_SIZE"]))
    process = TrainerProcess(meeting)
    handlers = {name: getattr(process, name) for name in ("prepare", "start", "load_state", "train", "save_state")}
    if meeting is None:
        serve_sync(handlers)
    elif meeting.number == 0:
        serve_sync(meeting.told(handlers))
        meeting.end()
    else:
        without_stdio()
        meeting.follow(handlers)


if __name__ == "__main__":
    main()
