"""Takes GRPO steps on groups of rollouts and writes the new policy as an HF folder.

Master weights and optimiser state are float32; what is published is bfloat16. It decides nothing about which
rollouts to trust or to wait for. An update whose loss or gradient is not finite is left out, and said; a policy with
a weight that is not finite is never written.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM

from rl.advantage import group_advantages
from rl.attention import implementation_for
from rl.batch import TrainingGroup, write_trained_on
from rl.forward import demand_plain_head, statistics
from rl.hardware import ComputeType
from rl.loss import SUMS, Extent, row_loss
from rl.micro_batches import NOTHING, MicroBatch, micro_batches
from rl.packing import plan_rows
from rl.ranks import ALONE, Ranks
from rl.recipe import Recipe
from rl.reference import load_reference
from rl.shards import OnePass, own_part, shard, whole
from rl.state_files import StateFacts
from rl.step_metrics import StepMetrics, Update, metrics_of
from rl.trainer_state import load_state, save_state
from rl.whole_folder import whole_folder

SEED = 0
MOST_SKIPPED_STEPS = 3
"""Steps in a row without a single update, after which there is no sense in asking for more rollouts."""


class TrainingFault(RuntimeError):
    """There is no training on: the weights, or the losses of several steps in a row, are not finite."""


class PolicyTrainer:
    """One policy, its float32 master weights and its optimiser; of several ranks, this one's part of them.

    Every rank makes the same calls with the same arguments. A fault of the weights or of a state is one of all ranks.
    """

    def __init__(
        self,
        folder: Path,
        *,
        recipe: Recipe,
        compute_type: ComputeType,
        ranks: Ranks = ALONE,
        reference: Path | None = None,
    ) -> None:
        """Load the policy in `folder`; `reference` is the folder of the frozen one, read only if the recipe needs it.

        Raises ValueError where the recipe needs one and none is given, or the model's head is of another kind.
        """
        self._source = folder
        self._recipe = recipe
        self._autocast = compute_type == "bfloat16"
        self._ranks, self._device = ranks, ranks.device()
        self._model = AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float32, attn_implementation=implementation_for(self._device)
        )
        demand_plain_head(self._model)
        self._model.train()
        forward = partial(statistics, device=self._device, autocast=self._autocast, temperature=recipe.temperature)
        self._pass = OnePass(self._model, partial(forward, self._model))
        if recipe.recompute_activations:
            self._model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        if recipe.compile:
            for layer in self._model.model.layers:
                layer.compile(dynamic=True)
        half = self._autocast and self._device.type == "cuda"
        if ranks.count == 1:
            self._model.to(self._device)
            if self._device.type == "cpu":
                _add_embedding_rows(self._model)
        else:
            shard(self._pass, self._model.model.layers, ranks=ranks, device=self._device, half=half)
        self._optimizer = torch.optim.AdamW(
            self._model.parameters(), lr=recipe.learning_rate, betas=(recipe.beta1, recipe.beta2),
            weight_decay=recipe.weight_decay, fused=True,
        )  # fmt: skip
        self._updates = 0
        self._skipped_steps = 0
        self._reference: OnePass | None = None
        if recipe.kl_coefficient:
            if reference is None:
                raise ValueError(
                    f"kl_coefficient = {recipe.kl_coefficient} needs a reference: give the folder of the run's base "
                    "policy, or set kl_coefficient to 0"
                )
            frozen = load_reference(reference, autocast=self._autocast, ranks=ranks, device=self._device)
            self._reference = OnePass(frozen, partial(forward, frozen))
            if ranks.count > 1:
                shard(self._reference, frozen.model.layers, ranks=ranks, device=self._device, half=half)

    def step(self, groups: Sequence[TrainingGroup]) -> StepMetrics:
        """Train on one full batch of groups, `optimizer_steps` updates in all."""
        # A model with dropout draws what follows from its place in the run, after a restart as without one.
        torch.manual_seed(SEED + self._updates * self._ranks.count + self._ranks.number)
        minibatches = [list(part) for part in np.array_split(np.arange(len(groups)), self._recipe.optimizer_steps)]
        minibatches = [[groups[i] for i in part] for part in minibatches if len(part)]
        # The first update starts from the weights of the step's start, so its ratio is 1 by definition and
        # the forward pass of the update itself yields log pi_old. Later updates need it taken beforehand.
        old = [None, *(self._old_logprobs(part) for part in minibatches[1:])]
        updates = [self._update(part, known) for part, known in zip(minibatches, old, strict=True)]
        self._note_skipped(updates)
        plans = [
            plan_rows([(g.prompt_ids, g.completions) for g in part], self._recipe.micro_batch_tokens)
            for part in minibatches
        ]
        return metrics_of(updates, plans, self._recipe)

    def _update(self, groups: list[TrainingGroup], old: list[torch.Tensor] | None) -> Update:
        recipe = self._recipe
        # Of all ranks: each has the whole batch.
        lengths = [len(completion) for group in groups for completion in group.completions]
        extent = Extent(tokens=sum(lengths), completions=len(lengths))
        self._optimizer.zero_grad(set_to_none=True)
        seen = torch.zeros(len(SUMS), dtype=torch.float64, device=self._device)
        for number, dealt in enumerate(self._ranks.deal(self._micro_batches(groups))):
            row = dealt or NOTHING
            with torch.no_grad():
                reference = self._reference(row.packed)[0] if self._reference else None
            logprobs, entropy = self._pass(row.packed)
            if dealt is None:
                (0.0 * (logprobs + entropy).sum()).backward()
                continue
            loss, sums = row_loss(
                recipe, extent,
                logprobs=logprobs, entropy=entropy, reference_logprobs=reference,
                old_logprobs=logprobs.detach() if old is None else old[number],
                behaviour_logprobs=self._floats(row.behaviour_logprobs),
                advantages=self._floats(row.advantages), lengths=self._floats(row.lengths),
            )  # fmt: skip
            loss.backward()
            seen += sums
        sums = dict(zip(SUMS, self._ranks.total(seen.tolist()), strict=True))
        norm = whole(torch.nn.utils.clip_grad_norm_(self._model.parameters(), recipe.grad_norm_clip)).item()
        if not (math.isfinite(sums["loss"]) and math.isfinite(norm)):
            # As if there had been no such batch: weights, moments and warm-up stay, so a restart comes to the same.
            self._optimizer.zero_grad(set_to_none=True)
            wrong = [name for name, value in (*sums.items(), ("gradient norm", norm)) if not math.isfinite(value)]
            fault = f"update {self._updates} was skipped, not finite: {', '.join(wrong)} (over {extent.tokens} tokens)"
            return Update(sums=sums, tokens=extent.tokens, grad_norm=norm, fault=fault)
        self._updates += 1
        for parameters in self._optimizer.param_groups:
            parameters["lr"] = recipe.learning_rate * min(1.0, self._updates / max(1, recipe.warmup_steps))
        self._optimizer.step()
        return Update(sums=sums, tokens=extent.tokens, grad_norm=norm, fault="")

    def _note_skipped(self, updates: Sequence[Update]) -> None:
        """A step without an update passes, its policy is the one before; several in a row are the end of training."""
        self._skipped_steps = self._skipped_steps + 1 if all(update.fault for update in updates) else 0
        if self._skipped_steps >= MOST_SKIPPED_STEPS:
            raise TrainingFault(
                f"no update could be made in {self._skipped_steps} steps; the last time: {updates[-1].fault}. The "
                "policy is as before them: look for weights that are not finite in the starting model, or set "
                "model.compute_type to float32, or a lower rl.learning_rate or rl.kl_coefficient"
            )

    @torch.no_grad()
    def _old_logprobs(self, groups: list[TrainingGroup]) -> list[torch.Tensor]:
        dealt = self._ranks.deal(self._micro_batches(groups))
        return [self._pass((each or NOTHING).packed)[0] for each in dealt]

    def _micro_batches(self, groups: list[TrainingGroup]) -> list[MicroBatch]:
        std = self._recipe.advantage_std
        advantages = [group_advantages(np.asarray(group.rewards), std=std) for group in groups]
        return micro_batches(groups, advantages, self._recipe.micro_batch_tokens)

    def _floats(self, values: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(values).float().to(self._device)

    def save(self, folder: Path, *, step: int, submissions: Sequence[str]) -> None:
        """Write the policy as a flat HF folder in bfloat16, with what it was trained on last; whole or not at all.

        Equal weights of an equal history give equal bytes, so that two trainers can compare their policies by hash.
        Raises TrainingFault, on all ranks, for a weight that is not finite; nothing is written then.
        """
        self._demand_finite()
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

    def _demand_finite(self) -> None:
        for name, parameter in self._model.named_parameters():
            broken = (~torch.isfinite(own_part(parameter).to(torch.bfloat16))).sum().item()
            (count,) = self._ranks.total([broken])
            if count:
                raise TrainingFault(
                    f"{count:.0f} weights of {name} are not finite after {self._updates} updates, so the policy is not "
                    "written: start again from the last one, with a lower rl.learning_rate"
                )

    def save_state(self, folder: Path, version: int) -> None:
        """Write what training goes on with after policy `version`, the one these weights were saved as last."""
        facts = StateFacts(version=version, updates=self._updates)
        save_state(folder, self._model, self._optimizer, facts, ranks=self._ranks)

    def load_state(self, folder: Path, version: int) -> None:
        """Go on as the trainer that wrote the state; the policy loaded must be its. Raises StateInvalid."""
        self._updates = load_state(folder, self._model, self._optimizer, version=version).updates


def _add_embedding_rows(model: torch.nn.Module) -> None:
    """Where head and embeddings are one weight, add the rows of the tokens fed into the head's gradient, no others.

    Else each micro-batch fills and adds a second gradient of the whole vocabulary, nearly all zeros: for SmolLM2 two
    passes over 108 MiB, a tenth of a short row's time. An embedding's own sparse gradient AdamW could not take.
    """
    embeddings = model.get_input_embeddings()
    if embeddings.weight is model.lm_head.weight:
        embeddings.sparse = True
