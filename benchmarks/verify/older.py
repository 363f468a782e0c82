"""Older policies for the study: really trained steps on honest rollouts, by the project's own trainer.

Arguments: folder, "full" or "quick", a learning rate. It writes the policies that are some steps apart from the base
model; the study has the worker run them and the validator the base model. Which of the two is the older makes no
difference to how far apart they are.

The base model was published as bfloat16, so its weights lie exactly on that grid, and a step of 1e-6 would be rounded
away nearly everywhere. A trainer's float32 weights lie anywhere between; so they begin somewhere within the half unit
around what was published, as after many steps. Then a step changes about as many published values as it does in a run.
"""

from __future__ import annotations

import shutil
import sys
from itertools import groupby
from pathlib import Path

import torch
from safetensors.torch import save_file

from benchmarks.verify.generate import rollouts_path, trained_folder
from benchmarks.verify.plan import AGES, find
from benchmarks.verify.records import MAX_ROWS
from node.model import base_model
from rl.batch import TrainingGroup
from rl.engine import read_weights
from rl.hardware import choose_compute_type, read_cpu_flags
from rl.recipe import Recipe
from rl.rollouts import read_rollouts
from rl.trainer import PolicyTrainer

SOURCE = "honest vllm bfloat16, 1 thread, batch 64"
GROUPS = 4
"""Of a step. How far AdamW moves a weight hardly depends on how many there are."""


def main(out: Path, quick: bool, rate: str) -> None:
    """Train as many steps as the oldest policy needs."""
    wanted = {age: trained_folder(out, f"trained {rate} {age}") for age in AGES}
    if all(folder.exists() for folder in wanted.values()):
        return
    groups = _groups(out, quick)
    recipe = Recipe(learning_rate=float(rate), warmup_steps=0, optimizer_steps=1, grad_norm_clip=1.0)
    compute_type = choose_compute_type("auto", read_cpu_flags(), has_gpu=False)
    trainer = PolicyTrainer(_begun(out, rate), recipe=recipe, compute_type=compute_type)
    for step in range(1, max(AGES) + 1):
        metrics = trainer.step([groups[(step * GROUPS + place) % len(groups)] for place in range(GROUPS)])
        print(f"lr {rate}, step {step}: gradient norm {metrics.grad_norm:.3f}", flush=True)
        if step in wanted and not wanted[step].exists():
            wanted[step].parent.mkdir(parents=True, exist_ok=True)
            trainer.save(wanted[step], step=step, submissions=())
            print(f"  of the published values {_changed(wanted[step]):.2%} have changed", flush=True)


def _changed(folder: Path) -> float:
    """Share of values that differ from the base model's."""
    base, other = read_weights(base_model("")), read_weights(folder)
    return sum(int((base[n] != other[n]).sum()) for n in other) / sum(value.numel() for value in other.values())


def _begun(out: Path, rate: str) -> Path:
    """The base model's folder with float32 weights that round to its own."""
    base, folder = base_model(""), out / "policies" / f"begun-{rate}"
    shutil.copytree(base, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.safetensors"))
    generator = torch.Generator().manual_seed(0)
    weights = {name: off_grid(value, generator) for name, value in read_weights(base).items()}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def off_grid(published: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """float32 values drawn evenly from those that round to the bfloat16 ones."""
    exact = published.float()
    unit = torch.ldexp(torch.ones_like(exact), torch.frexp(exact)[1] - 8)
    drawn = exact + unit * (torch.rand(exact.shape, generator=generator) - 0.5)
    return torch.where(drawn.to(torch.bfloat16) == published, drawn, exact)


def _groups(out: Path, quick: bool) -> list[TrainingGroup]:
    """Groups of honest rollouts with unequal rewards."""
    rollouts = read_rollouts(rollouts_path(out, find(SOURCE, quick=quick)), max_rows=MAX_ROWS)
    groups = []
    for _, members in groupby(rollouts, key=lambda r: (r.counter, r.group)):
        same = list(members)
        if len({r.reward for r in same}) > 1:
            groups.append(
                TrainingGroup(
                    problem_id=same[0].problem_id,
                    prompt_ids=same[0].prompt_ids,
                    completions=tuple(r.completion_ids for r in same),
                    rewards=tuple(r.reward for r in same),
                    behaviour_logprobs=tuple(r.logprobs for r in same),
                )
            )
    return groups


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2] == "quick", sys.argv[3])
