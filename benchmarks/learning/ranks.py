"""Several training processes against one: do they come to the same loss and gradient, whatever falls to each of them?

The processes are the trainer's own, started as a node starts them. The gradient is read from the state that they
write: after the first update AdamW's mean is (1 - beta1) times the (clipped) gradient of the whole batch.
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import trio
from safetensors.torch import load_file
from transformers import LlamaConfig, LlamaForCausalLM

from node.child import Child, open_child
from node.training import trainer_argv
from rl.batch import TrainingGroup
from rl.hardware import thread_environment
from rl.recipe import Recipe
from rl.state_files import TENSORS

VOCABULARY, SEED, TIMEOUT_S = 64, 5, 300.0
RECIPE = {"learning_rate": 1e-3, "warmup_steps": 0, "optimizer_steps": 1, "grad_norm_clip": 1e9, "temperature": 0.9}
CASES: Mapping[str, dict[str, Any]] = {
    "micro-batches for all": {"micro_batch_tokens": 64},
    "one micro-batch, the others idle": {"micro_batch_tokens": 4096},
    "activations computed again": {"micro_batch_tokens": 64, "recompute_activations": True},
    "a KL term": {"micro_batch_tokens": 64, "kl_coefficient": 0.5},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """What one update from the same weights on the same batch gave."""

    loss: float
    gradient: dict[str, torch.Tensor]


def make_model(folder: Path, seed: int = SEED) -> Path:
    """A random two-layer Llama as a bf16 HF folder."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=48, intermediate_size=96, num_hidden_layers=2, num_attention_heads=3,
        num_key_value_heads=1, head_dim=16, initializer_range=0.2, tie_word_embeddings=True, eos_token_id=0,
        bos_token_id=None, max_position_embeddings=256,
    )  # fmt: skip
    LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
    return folder


def make_groups(seed: int, count: int = 7) -> list[TrainingGroup]:
    """Groups of four completions of 1 to 12 tokens; an odd number, so that two ranks never have equal work."""
    rng = np.random.default_rng(seed)

    def tokens(most: int) -> tuple[int, ...]:
        return tuple(rng.integers(1, VOCABULARY, rng.integers(1, most + 1)).tolist())

    groups = []
    for number in range(count):
        completions = tuple(tokens(12) for _ in range(4))
        groups.append(
            TrainingGroup(
                problem_id=f"{seed}/{number}",
                prompt_ids=tokens(9),
                completions=completions,
                rewards=tuple(rng.permutation([1.0, 0.5, 0.0, 0.0]).tolist()),
                behaviour_logprobs=tuple(tuple(rng.uniform(-5, -3, len(c)).tolist()) for c in completions),
            )
        )
    return groups


@asynccontextmanager
async def training_process(ranks: int, folder: Path) -> AsyncIterator[Child]:
    """The trainer's processes, one thread each; they log to `folder`/log."""
    argv = trainer_argv(ranks, folder / "ranks")
    async with open_child(
        argv, name=f"trainer of {ranks}", log_path=folder / "log", env=thread_environment(1)
    ) as child:
        yield child


async def start(child: Child, policy: Path, recipe: Mapping[str, Any]) -> None:
    """Load `policy`; where the recipe has a KL term, it is to a model of other weights beside it."""
    reference = policy.with_name("reference")
    if recipe.get("kl_coefficient") and not reference.exists():
        make_model(reference, SEED + 1)
    await child.call(
        "start", timeout_s=TIMEOUT_S, folder=str(policy), recipe={**RECIPE, **recipe}, compute_type="float32",
        reference=str(reference) if reference.exists() else None,
    )  # fmt: skip


async def train(child: Child, groups: list[TrainingGroup], out: Path, step: int) -> dict[str, Any]:
    """One step; policy and state `step` + 1 are in `out`."""
    told = await child.call(
        "train", timeout_s=TIMEOUT_S, groups=[asdict(group) for group in groups],
        save_to=str(out / f"policy-{step + 1}"), step=step, submissions=[],
    )  # fmt: skip
    await child.call("save_state", timeout_s=TIMEOUT_S, folder=str(out / f"state-{step + 1}"), version=step + 1)
    return told


async def update(child: Child, policy: Path, case: str, out: Path) -> Update:
    """The update of one of CASES, from `policy`."""
    await start(child, policy, CASES[case])
    told = await train(child, make_groups(SEED), out, 0)
    tensors = load_file(out / "state-1" / TENSORS)
    return Update(
        loss=told["loss"],
        gradient={
            name.removeprefix("exp_avg/"): tensor / (1 - Recipe().beta1)
            for name, tensor in tensors.items()
            if name.startswith("exp_avg/")
        },
    )


def apart(one: Update, other: Update) -> float:
    """The larger of two relative differences: of the loss, and of the gradient by its norm."""
    if one.gradient.keys() != other.gradient.keys():
        raise ValueError("gradients of two different models")
    wrong = torch.stack([(one.gradient[n] - other.gradient[n]).double().norm() for n in one.gradient]).norm()
    norm = torch.stack([gradient.double().norm() for gradient in one.gradient.values()]).norm()
    return max(abs(one.loss - other.loss) / abs(one.loss), (wrong / norm).item())


async def compare(out: Path, *, ranks: int = 2) -> dict[str, float]:
    """Case → how far `ranks` processes are from a single one."""
    shutil.rmtree(out, ignore_errors=True)
    policy = make_model(out / "policy-0")
    found: dict[int, dict[str, Update]] = {}
    for count in (1, ranks):
        async with training_process(count, out / f"of-{count}") as child:
            found[count] = {case: await update(child, policy, case, out / f"of-{count}") for case in CASES}
    return {case: apart(found[1][case], found[ranks][case]) for case in CASES}


def ranks_rel_err(out: Path, *, ranks: int = 2) -> float:
    """The largest difference of `compare`; `out` is made anew."""
    return max(trio.run(lambda: compare(out, ranks=ranks)).values())
