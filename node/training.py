"""The training process, as the trainer sees it: a policy to load, steps to take, and the folders that come of them.

Which policy, state and batch is decided elsewhere; here is where they lie and what the process is told.
"""

from __future__ import annotations

import logging
import shutil
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from node.child import Child, ChildDied, ChildError, ChildTimeout
from node.config import RunConfig
from node.states import States
from rl.batch import StepBatch

log = logging.getLogger(__name__)
START_TIMEOUT_S, TRAIN_TIMEOUT_S = 600.0, 7200.0
KEPT_FOLDERS = 2


class Training:
    """One `node.trainer_child`. Calls raise the errors of `node.child`."""

    def __init__(self, child: Child, config: RunConfig, states: States, folder: Path) -> None:
        self._child, self._config, self._states, self._folder = child, config, states, folder
        self.reference: Path | None = None
        """Folder of the run's policy 0, which a KL term holds the policy to; set before `load` if it is needed."""

    @property
    def needs_reference(self) -> bool:
        """Whether the recipe has a KL term."""
        return self._config.rl.kl_coefficient > 0

    def path(self, version: int) -> Path:
        """Where the own policy of this version is, or will be."""
        return self._folder / f"policy-{version}"

    async def prepare(self) -> None:
        """Have the process import its libraries, so that `load` is quick. A failure shows again there."""
        try:
            await self._child.call("prepare", timeout_s=START_TIMEOUT_S)
        except (ChildDied, ChildError, ChildTimeout) as fault:
            log.warning("the training process is not ready: %s", fault)

    async def load(self, folder: Path) -> None:
        """Start from the weights in `folder`, without moments."""
        started = await self._child.call(
            "start",
            timeout_s=START_TIMEOUT_S,
            folder=str(folder.absolute()),
            recipe=recipe_of(self._config),
            compute_type=self._config.model.compute_type,
            reference=str(self.reference.absolute()) if self.reference else None,
        )
        log.info("trainer ready after %.1f s, computing in %s", started["seconds"], started["compute_type"])

    async def load_state(self, folder: Path, version: int) -> None:
        """Take up the moments (and unrounded weights) that go with the policy just loaded."""
        await self._child.call("load_state", timeout_s=START_TIMEOUT_S, folder=str(folder.absolute()), version=version)

    async def train(self, batch: StepBatch, target: Path) -> dict[str, Any]:
        """Take the batch's step; the new policy is in `target`."""
        result = await self._child.call(
            "train",
            timeout_s=TRAIN_TIMEOUT_S,
            groups=[asdict(group) for group in batch.batch()],
            save_to=str(target.absolute()),
            step=batch.step,
            submissions=[submission_id.hex() for submission_id in batch.used()],
        )
        log.info("step %d trained in %.1f s", batch.step, result["train_s"])
        for reason in result["skip_reasons"]:
            log.warning("step %d: %s", batch.step, reason)
        if not result["trained_tokens"]:
            log.warning("step %d changed nothing: policy %d is the one before", batch.step, batch.step + 1)
        return result

    async def save_state(self, version: int) -> None:
        """Keep what training goes on with after policy `version`, and forget what is no longer needed."""
        folder = str(self._states.path(version).absolute())
        saved = await self._child.call("save_state", timeout_s=TRAIN_TIMEOUT_S, folder=folder, version=version)
        self._states.made(version)
        log.info("the state of policy %d was written in %.1f s", version, saved["seconds"])
        for path in self._folder.glob("policy-*"):
            number = path.name.removeprefix("policy-")
            if number.isdigit() and int(number) <= version - KEPT_FOLDERS:
                shutil.rmtree(path, ignore_errors=True)


def trainer_argv(ranks: int, folder: Path) -> list[str]:
    """What to start as the training process; several ranks meet in `folder`, which is theirs."""
    if ranks == 1:
        return [sys.executable, "-m", "node.trainer_child"]
    return [sys.executable, "-m", "node.trainer_ranks", str(ranks), str(folder.absolute())]


def recipe_of(config: RunConfig) -> dict[str, Any]:
    """The fields of `rl.recipe.Recipe`."""
    rl = config.rl
    return {
        "learning_rate": rl.learning_rate,
        "warmup_steps": rl.warmup_steps,
        "optimizer_steps": rl.optimizer_steps,
        "clip_epsilon": rl.clip_epsilon,
        "clip_delta": rl.clip_delta,
        "kl_coefficient": rl.kl_coefficient,
        "entropy_coefficient": rl.entropy_coefficient,
        "normalisation": rl.normalisation,
        "longest_completion": config.task.max_new_tokens,
        "advantage_std": rl.advantage_std,
        "importance": rl.importance,
        "importance_cap": rl.importance_cap,
        "grad_norm_clip": rl.grad_norm_clip,
        "temperature": rl.temperature,
        "micro_batch_tokens": config.trainer.micro_batch_tokens,
        "recompute_activations": config.trainer.recompute_activations,
        "compile": config.trainer.compile,
    }
