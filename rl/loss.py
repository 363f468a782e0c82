"""The GRPO objective with two-sided clipping (INTELLECT-2 report, section 3.4), per token.

    objective = min( min(r, delta) * A , clip(r, 1 - epsilon, 1 + epsilon) * A ),   r = exp(log pi - log pi_old)

For A < 0 plain GRPO lets r grow without bound and one token can wreck the weights; delta > 1 + epsilon caps it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenTerms:
    """Per-token results; all tensors are float32 [tokens]."""

    objective: torch.Tensor
    """To be maximised; carries the gradient."""
    clipped: torch.Tensor
    """1.0 where a clip is active and the token has no gradient."""


def grpo_objective(
    logprobs: torch.Tensor, old_logprobs: torch.Tensor, advantages: torch.Tensor, *, epsilon: float, delta: float
) -> TokenTerms:
    """The clipped objective of each token.

    Args:
        logprobs: float32 [tokens] under the policy being trained, with gradient.
        old_logprobs: float32 [tokens] under the weights at the start of the step, no gradient.
        advantages: float32 [tokens], each token carrying its completion's advantage.
        epsilon: half-width of the trust region, 0.2 in the report.
        delta: upper bound on the ratio for negative advantages, 4 in the report; above 1 + epsilon.
    """
    if delta <= 1 + epsilon:
        raise ValueError(f"delta {delta} must exceed 1 + epsilon = {1 + epsilon}")
    # An infinite ratio would turn its gradient of zero into NaN; e^60 is far beyond any delta.
    ratio = torch.exp(torch.clamp(logprobs - old_logprobs, max=60.0))
    unclipped = torch.clamp(ratio, max=delta) * advantages
    inside = torch.clamp(ratio, 1 - epsilon, 1 + epsilon) * advantages
    still = ((inside < unclipped) | (ratio > delta)).float()
    return TokenTerms(objective=torch.minimum(unclipped, inside), clipped=still)


def token_statistics(logits: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probs of `targets` [tokens] and entropies, float32 [tokens] in nats, from logits [tokens, vocabulary]."""
    log_distribution = torch.log_softmax(logits.float(), dim=-1)
    chosen = log_distribution.gather(-1, targets[:, None]).squeeze(-1)
    return chosen, -(log_distribution.exp() * log_distribution).sum(-1)
