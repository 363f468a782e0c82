"""Asking a policy the problems of a task, several times each: the parent's side of `node.answers_child`.

Decides what is asked, in which order, and how a fault of the child is told. What answers are worth and what follows
from them it does not decide. One child a policy: a crash or a full memory there is an error message here.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trio
from eth_utils import keccak

from node.answers_child import PART
from node.child import ChildDied, ChildError, open_child
from node.config import RunConfig
from node.errors import UserError
from node.generation import engine_environment
from node.progress import Progress
from rl.answers import Answers
from rl.draw import draw_problems
from rl.tasks import Task, load_task

START_TIMEOUT_S, PART_TIMEOUT_S = 900.0, 24 * 3600.0
"""An answer may be 32,768 tokens long, and a machine slow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """What is asked of a policy; two policies asked the same can be compared problem by problem."""

    config: RunConfig
    """Its [task], [rl], [model] and [worker] say how the run of these settings would generate."""
    samples: int
    """Answers to each problem."""
    seed: int
    """Of the noise behind every token, and of the choice where not all problems are asked."""
    indices: tuple[int, ...]
    """Problems, in the order in which they are asked."""

    @property
    def parts(self) -> int:
        return -(-len(self.indices) // PART)


Take = Callable[[list[Answers]], None]


def usable_task(name: str) -> Task:
    """The task of that name. Raises UserError."""
    try:
        return load_task(name)
    except ValueError as fault:
        raise UserError(str(fault), fix="`intellect-node task show NAME` tells what a task holds") from fault


def chosen(task: Task, limit: int | None, seed: int) -> tuple[int, ...]:
    """The problems to ask: all in their order, or `limit` of them, drawn by the seed."""
    if limit is None or limit >= task.size:
        return tuple(range(task.size))
    return draw_problems(keccak(b"intellect-node/limit/1" + seed.to_bytes(8, "big")), limit, task.size)


def ask(folder: Path, asking: Asking, take: Take, progress: Progress, *, begin: int = 0) -> dict[str, Any]:
    """Ask the policy in `folder`; `take` gets the answers part by part, in order, from part `begin` on.

    Returns what computed them, and in which arithmetic. Raises UserError.
    """
    with tempfile.TemporaryDirectory(prefix="intellect-node-") as scratch:
        try:
            return trio.run(_ask, folder, asking, take, progress, begin, Path(scratch) / "engine.log")
        except ChildError as fault:
            raise UserError(
                f"{folder}: {fault.message}", fix="check the folder, the task and the settings that it names"
            ) from fault
        except ChildDied as death:
            raise UserError(
                f"the engine ended with status {death.returncode}; its last words:\n{death.log_tail}",
                fix="free memory, or ask with fewer --samples or --backend transformers",
            ) from death


async def _ask(
    folder: Path, asking: Asking, take: Take, progress: Progress, begin: int, log_path: Path
) -> dict[str, Any]:
    config = asking.config
    progress.waits(f"starting the engine on {folder}")
    async with open_child(
        [sys.executable, "-m", "node.answers_child"], name="engine", log_path=log_path, env=engine_environment(config)
    ) as engine:
        started = await engine.call(
            "start",
            timeout_s=START_TIMEOUT_S,
            folder=str(folder.absolute()),
            backend=config.worker.backend,
            compute_type=config.model.compute_type,
            task=config.task.name,
            indices=asking.indices,
            system_prompt=config.task.system_prompt or None,
            length_targets=config.task.length_targets,
            length_alpha=config.task.length_alpha,
            max_new_tokens=config.task.max_new_tokens,
            sampling={"temperature": config.rl.temperature, "top_k": config.rl.top_k, "top_p": config.rl.top_p},
            samples=asking.samples,
            seed=asking.seed,
        )
        progress.begins()
        for part in range(begin, asking.parts):
            answers = _read(await engine.call("answer", timeout_s=PART_TIMEOUT_S, part=part))
            take(answers)
            progress.add(len(answers))
        return started


def _read(replies: Sequence[dict[str, Any]]) -> list[Answers]:
    return [
        Answers(
            problem_id=reply["problem_id"],
            rewards=tuple(reply["rewards"]),
            tokens=tuple(reply["tokens"]),
            cut=tuple(reply["cut"]),
            target=reply["target"],
        )
        for reply in replies
    ]
