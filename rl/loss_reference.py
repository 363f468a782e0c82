"""The whole objective once more, slowly, in float64 numpy: what `rl.loss` and `rl.head` are held against.

Written from the papers, token by token, with the gradient by hand; it shares nothing with them but the recipe.
It is not for training: a batch is as large as its logits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from rl.recipe import Recipe


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollouts:
    """One update's tokens, in any order, with all that the loss depends on."""

    logits: np.ndarray
    """[tokens, vocabulary], before the temperature."""
    targets: np.ndarray
    """[tokens]: the token that was sampled."""
    completion_of: np.ndarray
    """[tokens]: index of its completion; no completion is without a token."""
    group_of: np.ndarray
    """[completions]: number of its group."""
    rewards: np.ndarray
    """[completions]."""
    old_logprobs: np.ndarray | None
    """[tokens]: at the start of the step; None: now is the start of the step."""
    behaviour_logprobs: np.ndarray
    """[tokens]: as the workers reported them."""
    reference_logprobs: np.ndarray
    """[tokens]: of the frozen reference."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The loss, its gradient, and what both are made of."""

    loss: float
    by_logits: np.ndarray
    """[tokens, vocabulary]: derivative of the loss."""
    advantages: np.ndarray
    """[completions]."""
    logprobs: np.ndarray
    """[tokens], nats."""
    entropies: np.ndarray
    """[tokens], nats."""
    clipped: np.ndarray
    """bool [tokens]: the clipped objective has no gradient."""
    kl_reference: np.ndarray
    """[tokens], nats; zeros if the recipe has no KL term."""
    size: float
    """Sum of the absolute terms of the loss: what its rounding errors are in proportion to, when terms cancel out."""


def advantages_of(rewards: np.ndarray, group_of: np.ndarray, *, std: bool) -> np.ndarray:
    """[completions]: (r - mean) / std in each group, the std unbiased; 0 where a group's rewards are all equal."""
    advantages = np.zeros(len(rewards))
    for completion, group in enumerate(group_of):
        own = [float(reward) for reward, other in zip(rewards, group_of, strict=True) if other == group]
        if min(own) == max(own):
            continue
        mean = math.fsum(own) / len(own)
        advantages[completion] = float(rewards[completion]) - mean
        if std:
            advantages[completion] /= math.sqrt(math.fsum((r - mean) ** 2 for r in own) / (len(own) - 1))
    return advantages


def log_softmax(logits: np.ndarray) -> np.ndarray:
    """[vocabulary] of one token's [vocabulary]."""
    most = float(logits.max())
    return logits - most - math.log(math.fsum(math.exp(x - most) for x in logits))


def clipped_objective(
    logprob: float, old: float, advantage: float, epsilon: float, delta: float
) -> tuple[float, float, bool]:
    """One token's objective, its derivative by the log-prob, and whether a clip has made that 0."""
    ratio = math.exp(min(logprob - old, 700.0))  # e^709 is float64's end
    capped = min(ratio, delta) * advantage
    inside = min(max(ratio, 1 - epsilon), 1 + epsilon) * advantage
    if inside < capped or ratio > delta:
        return min(capped, inside), 0.0, True
    return capped, ratio * advantage, False


def divisor(recipe: Recipe, length: int, tokens: int, completions: int) -> float:
    """What the terms of a token are divided by, in a completion of `length` tokens."""
    return {
        "token": float(tokens),
        "sequence": float(completions * length),
        "constant": float(completions * recipe.longest_completion),
    }[recipe.normalisation]


def loss_of(rollouts: Rollouts, recipe: Recipe) -> Outcome:
    """The loss that `recipe` says, and its derivative by every logit."""
    tokens, vocabulary = rollouts.logits.shape
    completions = len(rollouts.group_of)
    lengths = np.bincount(rollouts.completion_of, minlength=completions)
    advantages = advantages_of(rollouts.rewards, rollouts.group_of, std=recipe.advantage_std)
    terms: list[float] = []
    by_logits = np.zeros((tokens, vocabulary))
    logprobs, entropies, kl_reference = np.zeros(tokens), np.zeros(tokens), np.zeros(tokens)
    clipped = np.zeros(tokens, dtype=bool)
    for i in range(tokens):
        target, completion = int(rollouts.targets[i]), int(rollouts.completion_of[i])
        logs = log_softmax(rollouts.logits[i].astype(np.float64) / recipe.temperature)
        shares = np.exp(logs)
        logprob = logprobs[i] = float(logs[target])
        entropy = entropies[i] = -math.fsum(shares * logs)
        old = logprob if rollouts.old_logprobs is None else float(rollouts.old_logprobs[i])
        objective, slope, clipped[i] = clipped_objective(
            logprob, old, float(advantages[completion]), recipe.clip_epsilon, recipe.clip_delta
        )
        if recipe.importance == "behaviour":
            weight = min(math.exp(min(old - float(rollouts.behaviour_logprobs[i]), 700.0)), recipe.importance_cap)
            objective, slope = weight * objective, weight * slope
        by_logprob = -slope
        parts = [-objective, -recipe.entropy_coefficient * entropy]
        if recipe.kl_coefficient:
            gap = float(rollouts.reference_logprobs[i]) - logprob
            kl_reference[i] = math.exp(gap) - gap - 1
            parts.append(recipe.kl_coefficient * kl_reference[i])
            by_logprob += recipe.kl_coefficient * (1 - math.exp(gap))
        share = 1 / divisor(recipe, int(lengths[completion]), tokens, completions)
        terms += [share * part for part in parts]
        # z are the logits over temperature: d log p_t / dz_j = [j = t] - p_j, and dH / dz_j = -p_j (log p_j + H).
        chosen = np.arange(vocabulary) == target
        by_z = by_logprob * (chosen - shares) + recipe.entropy_coefficient * shares * (logs + entropy)
        by_logits[i] = share * by_z / recipe.temperature
    return Outcome(
        loss=math.fsum(terms), by_logits=by_logits, advantages=advantages, logprobs=logprobs, entropies=entropies,
        clipped=clipped, kl_reference=kl_reference, size=math.fsum(map(abs, terms)),
    )  # fmt: skip
