"""Takes GRPO steps on groups of rollouts and writes the new policy as an HF folder.

Master weights and optimiser state are float32; what is published is bfloat16. It decides nothing about which
rollouts to trust or to wait for. A step whose loss or gradient is not finite raises and changes nothing on disk.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM

from rl.advantage import group_advantages
from rl.attention import attention_for, implementation_for
from rl.batch import TrainingGroup, write_trained_on
from rl.hardware import ComputeType
from rl.loss import grpo_objective, token_statistics
from rl.micro_batches import NOTHING, MicroBatch, micro_batches
from rl.packing import Packed, plan_rows
from rl.ranks import ALONE, Ranks
from rl.recipe import Recipe
from rl.shards import OnePass, shard, whole
from rl.state_files import StateFacts
from rl.trainer_state import load_state, save_state
from rl.whole_folder import whole_folder

SEED = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StepMetrics:
    """What one step showed; means are over trained completion tokens unless said otherwise."""

    loss: float
    grad_norm: float
    """Before clipping; the largest of the step's optimiser steps."""
    clip_ratio: float
    entropy: float
    """Nats per token."""
    kl_behaviour: float
    """KL from the trainer's policy at the start of the step to the workers' reported one, k3 estimate, nats."""
    trained_tokens: int
    rows: int
    """Micro-batches of the step: rows that were forwarded, on all ranks."""
    packing: float
    """Share of those rows' room that held tokens, 0 to 1 (`rl.packing`)."""
    overlong: int
    """Completions that were trained whole although they exceed `micro_batch_tokens`, each in a row of its own."""


class TrainingFault(RuntimeError):
    """The loss or the gradient is not finite; the weights are as they were before the optimiser step."""


class PolicyTrainer:
    """One policy, its float32 master weights and its optimiser; of several ranks, this one's part of them.

    Every rank makes the same calls with the same arguments. A fault of the weights or of a state is one of all ranks.
    """

    def __init__(self, folder: Path, *, recipe: Recipe, compute_type: ComputeType, ranks: Ranks = ALONE) -> None:
        self._source = folder
        self._recipe = recipe
        self._autocast = compute_type == "bfloat16"
        self._ranks, self._device = ranks, ranks.device()
        self._model = AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float32, attn_implementation=implementation_for(self._device)
        )
        self._model.train()
        self._pass = OnePass(self._model, self._statistics)
        if recipe.recompute_activations:
            self._model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        if recipe.compile:
            for layer in self._model.model.layers:
                layer.compile(dynamic=True)
        if ranks.count == 1:
            self._model.to(self._device)
        else:
            half = self._autocast and self._device.type == "cuda"
            shard(self._pass, self._model.model.layers, ranks=ranks, device=self._device, half=half)
        self._optimizer = torch.optim.AdamW(
            self._model.parameters(), lr=recipe.learning_rate, betas=(recipe.beta1, recipe.beta2),
            weight_decay=recipe.weight_decay, foreach=True,
        )  # fmt: skip
        self._updates = 0

    def step(self, groups: Sequence[TrainingGroup]) -> StepMetrics:
        """Train on one full batch of groups, `optimizer_steps` updates in all."""
        # A model with dropout draws what follows from its place in the run, after a restart as without one.
        torch.manual_seed(SEED + self._updates * self._ranks.count + self._ranks.number)
        minibatches = [list(part) for part in np.array_split(np.arange(len(groups)), self._recipe.optimizer_steps)]
        minibatches = [[groups[i] for i in part] for part in minibatches if len(part)]
        # The first update starts from the weights of the step's start, so its ratio is 1 by definition and
        # the forward pass of the update itself yields log pi_old. Later updates need it taken beforehand.
        old = [None, *(self._old_logprobs(part) for part in minibatches[1:])]
        totals = {"loss": 0.0, "clipped": 0.0, "entropy": 0.0, "kl": 0.0}
        tokens, norms = 0, []
        for part, old_logprobs in zip(minibatches, old, strict=True):
            norms.append(self._update(part, old_logprobs, totals))
            tokens += sum(len(c) for group in part for c in group.completions)
        plans = [
            plan_rows([(g.prompt_ids, g.completions) for g in part], self._recipe.micro_batch_tokens)
            for part in minibatches
        ]
        return StepMetrics(
            loss=totals["loss"] / len(minibatches),
            grad_norm=max(norms),
            clip_ratio=totals["clipped"] / tokens,
            entropy=totals["entropy"] / tokens,
            kl_behaviour=totals["kl"] / tokens,
            trained_tokens=tokens,
            rows=sum(len(plan.rows) for plan in plans),
            packing=sum(plan.tokens for plan in plans) / sum(plan.room for plan in plans),
            overlong=sum(plan.overlong for plan in plans),
        )

    def _update(self, groups: list[TrainingGroup], old: list[torch.Tensor] | None, totals: dict[str, float]) -> float:
        recipe = self._recipe
        # Of all ranks: each has the whole batch.
        denominator = sum(len(c) for group in groups for c in group.completions)
        self._optimizer.zero_grad(set_to_none=True)
        seen = dict.fromkeys(totals, 0.0)
        for number, dealt in enumerate(self._ranks.deal(self._micro_batches(groups))):
            one = dealt or NOTHING
            logprobs, entropy = self._pass(one.packed)
            if dealt is None:
                (0.0 * (logprobs + entropy).sum()).backward()
                continue
            old_logprobs = logprobs.detach() if old is None else old[number]
            advantages, behaviour = (
                torch.from_numpy(values).float().to(self._device) for values in (one.advantages, one.behaviour_logprobs)
            )
            terms = grpo_objective(
                logprobs, old_logprobs, advantages, epsilon=recipe.clip_epsilon, delta=recipe.clip_delta
            )
            loss = -(terms.objective + recipe.entropy_coefficient * entropy).sum() / denominator
            loss.backward()
            gap = old_logprobs - behaviour
            seen["loss"] += loss.item()
            seen["clipped"] += terms.clipped.sum().item()
            seen["entropy"] += entropy.detach().sum().item()
            seen["kl"] += (torch.exp(gap) - 1 - gap).sum().item()
        for key, value in zip(totals, self._ranks.total(tuple(seen.values())), strict=True):
            totals[key] += value
        norm = whole(torch.nn.utils.clip_grad_norm_(self._model.parameters(), recipe.grad_norm_clip)).item()
        if not np.isfinite(norm) or not np.isfinite(totals["loss"]):
            self._optimizer.zero_grad(set_to_none=True)
            raise TrainingFault(f"gradient norm {norm}, loss {totals['loss']} at update {self._updates}")
        self._updates += 1
        for parameters in self._optimizer.param_groups:
            parameters["lr"] = recipe.learning_rate * min(1.0, self._updates / max(1, recipe.warmup_steps))
        self._optimizer.step()
        return norm

    @torch.no_grad()
    def _old_logprobs(self, groups: list[TrainingGroup]) -> list[torch.Tensor]:
        dealt = self._ranks.deal(self._micro_batches(groups))
        return [self._pass((each or NOTHING).packed)[0] for each in dealt]

    def _micro_batches(self, groups: list[TrainingGroup]) -> list[MicroBatch]:
        advantages = [group_advantages(np.asarray(group.rewards)) for group in groups]
        return micro_batches(groups, advantages, self._recipe.micro_batch_tokens)

    def _statistics(self, packed: Packed) -> tuple[torch.Tensor, torch.Tensor]:
        ids, positions, rows, targets = (
            torch.from_numpy(array).to(self._device)
            for array in (packed.ids, packed.positions, packed.source_rows, packed.targets)
        )
        with torch.autocast(self._device.type, torch.bfloat16, enabled=self._autocast):
            hidden = self._model.model(
                input_ids=ids[None], position_ids=positions[None], use_cache=False,
                **attention_for(packed, self._device),
            ).last_hidden_state[0]  # fmt: skip
            logits = self._model.lm_head(hidden[rows])
        return token_statistics(logits / self._recipe.temperature, targets)

    def save(self, folder: Path, *, step: int, submissions: Sequence[str]) -> None:
        """Write the policy as a flat HF folder in bfloat16, with what it was trained on last; whole or not at all.

        Equal weights of an equal history give equal bytes, so that two trainers can compare their policies by hash.
        """
        tied = set(getattr(self._model, "all_tied_weights_keys", {}) or {})
        weights = {}
        for name, tensor in self._model.state_dict().items():
            if name not in tied:
                gathered = whole(tensor)
                if self._ranks.number == 0:
                    weights[name] = gathered.to(torch.bfloat16).contiguous().cpu()
        if self._ranks.number:
            return
        with whole_folder(folder) as partial:
            for file in sorted(self._source.iterdir()):
                if file.is_file() and file.suffix != ".safetensors" and not file.name.endswith(".index.json"):
                    shutil.copyfile(file, partial / file.name)
            save_file(weights, partial / "model.safetensors", metadata={"format": "pt"})
            write_trained_on(partial, step, submissions)

    def save_state(self, folder: Path, version: int) -> None:
        """Write what training goes on with after policy `version`, the one these weights were saved as last."""
        facts = StateFacts(version=version, updates=self._updates)
        save_state(folder, self._model, self._optimizer, facts, ranks=self._ranks)

    def load_state(self, folder: Path, version: int) -> None:
        """Go on as the trainer that wrote the state; the policy loaded must be its. Raises StateInvalid."""
        self._updates = load_state(folder, self._model, self._optimizer, version=version).updates
