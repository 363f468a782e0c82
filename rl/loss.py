"""The loss of some completion tokens: GRPO with two-sided clipping (INTELLECT-2 report, section 3.4) and its variants.

    loss = sum_i  w_i ( -c_i objective_i  +  kl k3_i  -  entropy H_i )
    objective = min( min(r, delta) A , clip(r, 1 - epsilon, 1 + epsilon) A ),   r = exp(log pi - log pi_old)

For A < 0 plain GRPO lets r grow without bound and one token can wreck the weights; delta > 1 + epsilon caps it.
w normalises over all of an update's tokens, wherever they are computed, so that rows and ranks may be split at will.
Pure: it knows no model. The same in float64, slowly and with its gradient by hand, is `rl.loss_reference`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from rl.recipe import Recipe

SUMS = ("loss", "clipped", "entropy", "kl_behaviour", "kl_reference", "truncated")
"""What `row_loss` adds up over its tokens, by name: the loss itself; tokens that a clip keeps from having a gradient;
entropy; k3 estimates of KL(worker, old) and of KL(policy, reference); tokens whose behaviour ratio was cut off. In nats
where that applies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenTerms:
    """Per-token results; all tensors are float32 [tokens]."""

    objective: torch.Tensor
    """To be maximised; carries the gradient."""
    clipped: torch.Tensor
    """1.0 where a clip is active and the token has no gradient."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """How much one update trains on, over all of its rows on all ranks: what its loss is divided by."""

    tokens: int
    completions: int


def grpo_objective(
    logprobs: torch.Tensor, old_logprobs: torch.Tensor, advantages: torch.Tensor, *, epsilon: float, delta: float
) -> TokenTerms:
    """The clipped objective of each token.

    Args:
        logprobs: float32 [tokens] under the policy being trained, with gradient.
        old_logprobs: float32 [tokens] under the weights at the start of the step, no gradient.
        advantages: float32 [tokens], each token carrying its completion's advantage.
        epsilon: half-width of the trust region, 0.2 in the report.
        delta: upper bound on the ratio for negative advantages, 4 in the report; above 1 + epsilon. math.inf is
            one-sided clipping.
    """
    if not delta > 1 + epsilon:
        raise ValueError(f"delta {delta} must exceed 1 + epsilon = {1 + epsilon}")
    # An infinite ratio would turn its gradient of zero into NaN; e^60 is far beyond any delta.
    ratio = torch.exp(torch.clamp(logprobs - old_logprobs, max=60.0))
    unclipped = torch.clamp(ratio, max=delta) * advantages
    inside = torch.clamp(ratio, 1 - epsilon, 1 + epsilon) * advantages
    still = ((inside < unclipped) | (ratio > delta)).float()
    return TokenTerms(objective=torch.minimum(unclipped, inside), clipped=still)


def k3(logprobs: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Schulman's estimate of KL(policy, other) for a token drawn from the policy: d - 1 - log d, d = other / policy.

    [tokens], nats, never negative. By `logprobs` its gradient is 1 - d.
    """
    gap = other - logprobs
    # expm1: near equality exp(gap) - 1 - gap would be the rounding error of 1.
    return torch.expm1(gap) - gap


def token_weights(lengths: torch.Tensor, extent: Extent, recipe: Recipe) -> torch.Tensor:
    """What each token's loss is multiplied with, [tokens] as `lengths`, the tokens of each token's completion.

    "token": every token of the update counts the same (DAPO, arXiv 2503.14476; the report's choice).
    "sequence": every completion counts the same, whatever its length (GRPO, arXiv 2402.03300).
    "constant": by completions and the longest that one may be, so that no length is favoured (Dr. GRPO, 2503.20783).
    """
    match recipe.normalisation:
        case "token":
            return torch.full_like(lengths, 1 / extent.tokens)
        case "sequence":
            return 1 / (extent.completions * lengths)
        case "constant":
            return torch.full_like(lengths, 1 / (extent.completions * recipe.longest_completion))


def row_loss(
    recipe: Recipe,
    extent: Extent,
    *,
    logprobs: torch.Tensor,
    entropy: torch.Tensor,
    old_logprobs: torch.Tensor,
    behaviour_logprobs: torch.Tensor,
    reference_logprobs: torch.Tensor | None,
    advantages: torch.Tensor,
    lengths: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """One row's part of the update's loss, and its SUMS. Parts of one update add up to its loss.

    Args:
        logprobs, entropy: of the policy being trained, with gradient.
        old_logprobs: of the policy at the start of the step.
        behaviour_logprobs: as the workers reported them. A metric only, unless `recipe.importance` is "behaviour".
        reference_logprobs: of the frozen reference; needed if `recipe.kl_coefficient` is not 0.
        advantages, lengths: of each token's completion.

    All are [tokens] and floating; `tokens` may be 0. Returns float64 [] with gradient, and float64 [len(SUMS)] without.
    """
    terms = grpo_objective(logprobs, old_logprobs, advantages, epsilon=recipe.clip_epsilon, delta=recipe.clip_delta)
    objective, nothing = terms.objective, torch.zeros_like(old_logprobs)
    truncated, kl_reference = nothing, nothing
    if recipe.importance == "behaviour":
        gap, cap = old_logprobs - behaviour_logprobs, math.log(recipe.importance_cap)
        objective = objective * torch.exp(torch.clamp(gap, max=cap))
        truncated = (gap > cap).to(nothing.dtype)
    loss = -(objective + recipe.entropy_coefficient * entropy)
    if recipe.kl_coefficient:
        if reference_logprobs is None:
            raise ValueError("kl_coefficient is not 0 and there is no reference: give its log-probs")
        kl_reference = k3(logprobs, reference_logprobs)
        loss = loss + recipe.kl_coefficient * kl_reference
    # In float64 from here on: what is left of terms of both signs may be much smaller than they are.
    total = (loss.double() * token_weights(lengths.double(), extent, recipe)).sum()
    each = (terms.clipped, entropy, k3(behaviour_logprobs, old_logprobs), kl_reference, truncated)
    return total, torch.stack([total.detach(), *(values.detach().double().sum() for values in each)])
