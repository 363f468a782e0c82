"""Drawn batches, and how far the float32 loss and its gradient are from the float64 reference on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM

from rl.advantage import group_advantages
from rl.batch import TrainingGroup
from rl.head import token_statistics
from rl.loss import Extent, row_loss
from rl.loss_reference import Rollouts, log_softmax, loss_of
from rl.recipe import Recipe
from rl.trainer import PolicyTrainer

GROUP_SIZE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Relative errors of one batch."""

    loss_rel_err: float
    """By the sum of the loss's absolute terms: rounding is in proportion to these, however little is left of them."""
    loss_rest_err: float
    """By the loss itself, in which terms of both signs have cancelled."""
    grad_rel_err: float
    """Norm of the difference by norm of the gradient, by all logits."""
    clipped: float
    """Share of tokens that a clip keeps from having a gradient."""


def draw_rollouts(seed: int, recipe: Recipe, *, tokens: int = 160, vocabulary: int = 97) -> Rollouts:
    """A batch of groups of GROUP_SIZE, float32 inputs; ratios from far below to far above every clip.

    Of `tokens` every completion has at least one; a group in four has equal rewards.
    """
    rng = np.random.default_rng(seed)
    completions = max(2, min(tokens, 24) // GROUP_SIZE * GROUP_SIZE)
    completion_of = np.sort(
        np.concatenate([np.arange(completions), rng.integers(0, completions, tokens - completions)])
    )
    group_of = np.arange(completions) // GROUP_SIZE
    rewards = rng.normal(size=completions).round(2)
    rewards[group_of % 4 == 3] = 0.5
    logits = rng.normal(scale=2.0, size=(tokens, vocabulary)).astype(np.float32)
    targets = rng.integers(0, vocabulary, tokens)
    now = np.array(
        [log_softmax(row / recipe.temperature)[t] for row, t in zip(logits.astype(float), targets, strict=True)]
    )

    def near(scale: float) -> np.ndarray:
        return (now - rng.normal(scale=scale, size=tokens)).astype(np.float32)

    old = near(0.2)
    wild = rng.random(tokens) < 0.2
    return Rollouts(
        logits=logits, targets=targets, completion_of=completion_of, group_of=group_of, rewards=rewards,
        old_logprobs=np.where(wild, near(2.0), old), behaviour_logprobs=near(0.5), reference_logprobs=near(0.3),
    )  # fmt: skip


def float32_loss(rollouts: Rollouts, recipe: Recipe) -> tuple[float, np.ndarray]:
    """Loss and derivative by the logits as the trainer computes them, in float32.

    The head's weight is the identity: hidden states are the logits, exactly.
    """
    logits = torch.from_numpy(rollouts.logits).float().requires_grad_()
    logprobs, entropy = token_statistics(
        logits, torch.eye(logits.shape[1]), torch.from_numpy(rollouts.targets), temperature=recipe.temperature
    )
    advantages = np.zeros(len(rollouts.rewards))
    for group in np.unique(rollouts.group_of):
        own = rollouts.group_of == group
        advantages[own] = group_advantages(rollouts.rewards[own], std=recipe.advantage_std)
    lengths = np.bincount(rollouts.completion_of, minlength=len(advantages))

    def floats(values: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(np.asarray(values)).float()

    loss, _ = row_loss(
        recipe,
        Extent(tokens=len(rollouts.targets), completions=len(advantages)),
        logprobs=logprobs,
        entropy=entropy,
        old_logprobs=logprobs.detach() if rollouts.old_logprobs is None else floats(rollouts.old_logprobs),
        behaviour_logprobs=floats(rollouts.behaviour_logprobs),
        reference_logprobs=floats(rollouts.reference_logprobs),
        advantages=floats(advantages[rollouts.completion_of]),
        lengths=floats(lengths[rollouts.completion_of]),
    )
    loss.backward()
    assert logits.grad is not None
    return loss.item(), logits.grad.numpy()


def compare(rollouts: Rollouts, recipe: Recipe) -> Comparison:
    """One batch by both."""
    wanted = loss_of(rollouts, recipe)
    loss, gradient = float32_loss(rollouts, recipe)
    return Comparison(
        loss_rel_err=abs(loss - wanted.loss) / wanted.size,
        loss_rest_err=abs(loss - wanted.loss) / abs(wanted.loss),
        grad_rel_err=float(np.linalg.norm(gradient - wanted.by_logits) / np.linalg.norm(wanted.by_logits)),
        clipped=float(wanted.clipped.mean()),
    )


def _double_logits(folder: Path, groups: Sequence[TrainingGroup], *, grad: bool) -> tuple[Any, torch.Tensor]:
    """A float64 model and its logits at every completion token, [tokens, vocabulary], one pass a completion."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager")
    rows = []
    with torch.set_grad_enabled(grad):
        for group in groups:
            for completion in group.completions:
                ids = torch.tensor([group.prompt_ids + completion])
                rows.append(model(input_ids=ids, use_cache=False).logits[0, len(group.prompt_ids) - 1 : -1])
        return model, torch.cat(rows)


def against_double(folder: Path, reference: Path, recipe: Recipe, groups: Sequence[TrainingGroup]) -> Comparison:
    """The trainer's first update on `groups`, in float32, and the same by unpacked float64 passes and `loss_of`.

    `recipe` has one optimiser step and a gradient norm that nothing exceeds. Gradients are compared by all weights.
    """
    model, logits = _double_logits(folder, groups, grad=True)
    _, frozen = _double_logits(reference, groups, grad=False)
    targets = np.array([token for g in groups for completion in g.completions for token in completion])
    lengths = [len(completion) for g in groups for completion in g.completions]
    rollouts = Rollouts(
        logits=logits.detach().numpy(), targets=targets, completion_of=np.repeat(np.arange(len(lengths)), lengths),
        group_of=np.repeat(np.arange(len(groups)), [len(g.completions) for g in groups]),
        rewards=np.array([reward for g in groups for reward in g.rewards]), old_logprobs=None,
        behaviour_logprobs=np.array([x for g in groups for logprobs in g.behaviour_logprobs for x in logprobs]),
        reference_logprobs=np.array(
            [log_softmax(row / recipe.temperature)[t] for row, t in zip(frozen.numpy(), targets, strict=True)]
        ),
    )  # fmt: skip
    wanted = loss_of(rollouts, recipe)
    logits.backward(torch.from_numpy(wanted.by_logits))
    policy = PolicyTrainer(folder, recipe=recipe, compute_type="float32", reference=reference)
    loss = policy.step(groups).loss
    exact = {name: parameter.grad for name, parameter in model.named_parameters()}
    missed = {name: parameter.grad.double() - exact[name] for name, parameter in policy._model.named_parameters()}
    norm, error = (torch.cat([g.flatten() for g in each.values()]).norm().item() for each in (exact, missed))
    return Comparison(
        loss_rel_err=abs(loss - wanted.loss) / wanted.size,
        loss_rest_err=abs(loss - wanted.loss) / abs(wanted.loss),
        grad_rel_err=error / norm,
        clipped=float(wanted.clipped.mean()),
    )
