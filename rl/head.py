"""Log-probs and entropies from hidden states and the LM head's weight, a block of the vocabulary at a time.

A long row's logits [tokens, vocabulary] never exist: forward keeps the running maximum and sums of a softmax over
blocks, backward computes each block once more and needs no other memory of it. It costs a fourth matrix product and
saves a dozen passes over memory. SmolLM2's head (576 x 49,152), 1,024 tokens, forward and backward, one thread of an
AMD EPYC, CPU time and memory beyond inputs and gradients (the weight's new gradient of 113 MB in it), with whole logits
and by blocks: float32 2.6 s and 1,027 MB, 2.5 s and 149 MB; bfloat16 1.7 s and 1,083 MB, 1.0 s and 219 MB.

It decides nothing about a loss. Softmax and entropy are in float32 (float64 of float64 states), whatever the product.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd.function import once_differentiable

BLOCK_BYTES = {"cpu": 4 << 20, "cuda": 256 << 20}
"""Float32 logits of one block. CPU: 2 to 8 MiB within 1 % of each other, 32 MiB, beyond the caches, a tenth slower; not
measured on a GPU, where a block should only be large enough to keep the device busy."""
MIN_COLUMNS = 64
"""Narrower blocks are slow products; 2^20 tokens then have 256 MiB of logits at once."""


def token_statistics(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    targets: torch.Tensor,
    *,
    temperature: float = 1.0,
    block_bytes: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probs of `targets` and entropies of their distributions softmax(hidden @ weight.T / temperature).

    Under autocast the product is in its type, otherwise in that of `hidden`. Gradients reach `hidden` and `weight`.

    Args:
        hidden: [tokens, hidden], what the head is fed; `tokens` may be 0.
        weight: [vocabulary, hidden].
        targets: int64 [tokens].
        block_bytes: float32 logits that exist at once; the device's BLOCK_BYTES if None.

    Returns:
        Two tensors [tokens] in nats, float32; float64 if `hidden` is.
    """
    kind = hidden.device.type
    product = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else hidden.dtype
    if block_bytes is None:
        block_bytes = BLOCK_BYTES.get(kind, BLOCK_BYTES["cpu"])
    columns = max(MIN_COLUMNS, block_bytes // (4 * max(1, len(hidden))))
    with torch.autocast(kind, enabled=False):
        return _Statistics.apply(hidden, weight, targets, temperature, columns, product)


class _Statistics(torch.autograd.Function):
    """Per token: z the logits over temperature, m their maximum, s = sum exp(z - m), u = sum exp(z - m) (z - m)."""

    @staticmethod
    def forward(
        ctx: Any, hidden: torch.Tensor, weight: torch.Tensor, targets: torch.Tensor, temperature: float, columns: int,
        product: torch.dtype,
    ) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
        exact = torch.float64 if hidden.dtype == torch.float64 else torch.float32
        states, head = hidden.to(product), weight.to(product)
        most = torch.full((len(states), 1), torch.finfo(exact).min, dtype=exact, device=states.device)
        total, weighted, chosen = torch.zeros_like(most), torch.zeros_like(most), torch.zeros_like(most)
        for first in range(0, len(head), columns):
            logits = _block(states, head, first, columns, temperature, exact)
            here, column = _targets_in(targets, first, logits.shape[1])
            chosen = torch.where(here, logits.gather(1, column), chosen)
            higher = torch.maximum(most, logits.amax(1, keepdim=True))
            fall = most - higher
            share = torch.exp(logits.sub_(higher))
            weighted = (weighted + total * fall) * fall.exp() + torch.linalg.vecdot(share, logits)[:, None]
            total = total * fall.exp() + share.sum(1, keepdim=True)
            most = higher
        entropy = total.log() - weighted / total
        normaliser = most + total.log()
        # The weight itself is kept, not its copy in another type: that one is quick to make again.
        ctx.save_for_backward(hidden, weight, targets, normaliser, entropy)
        ctx.temperature, ctx.columns, ctx.product = temperature, columns, product
        # In this order: where a token is nearly certain the maximum is its logit, and the difference is exact.
        return (chosen - most - total.log())[:, 0], entropy[:, 0]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, by_logprob: torch.Tensor, by_entropy: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """With p = exp(log p): d log p_t / dz_j = [j = t] - p_j, and dH / dz_j = -p_j (log p_j + H)."""
        hidden, weight, targets, normaliser, entropy = ctx.saved_tensors
        states, head = hidden.to(ctx.product), weight.to(ctx.product)
        by_chosen, by_spread = by_logprob[:, None] / ctx.temperature, by_entropy[:, None] / ctx.temperature
        common = by_chosen + by_spread * entropy
        by_states = torch.zeros(states.shape, dtype=normaliser.dtype, device=states.device)
        by_weight = torch.empty_like(weight) if ctx.needs_input_grad[1] else None
        for first in range(0, len(head), ctx.columns):
            logs = _block(states, head, first, ctx.columns, ctx.temperature, normaliser.dtype).sub_(normaliser)
            here, column = _targets_in(targets, first, logs.shape[1])
            share = torch.exp(logs)
            by_logits = logs.mul_(by_spread).add_(common).mul_(share).neg_()
            by_logits.scatter_add_(1, column, torch.where(here, by_chosen, torch.zeros_like(by_chosen)))
            by_logits = by_logits.to(ctx.product)
            by_states += by_logits @ head[first : first + ctx.columns]
            if by_weight is not None:
                by_weight[first : first + ctx.columns] = by_logits.T @ states
        return by_states.to(hidden.dtype), by_weight, None, None, None, None


def _block(
    states: torch.Tensor, head: torch.Tensor, first: int, columns: int, temperature: float, exact: torch.dtype
) -> torch.Tensor:
    """Logits over temperature of the tokens `first` to `first + columns` of the vocabulary."""
    logits = (states @ head[first : first + columns].T).to(exact)
    return logits if temperature == 1.0 else logits.div_(temperature)


def _targets_in(targets: torch.Tensor, first: int, columns: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Whether each target lies in the block, and in which column if so; both [tokens, 1]."""
    column = targets[:, None] - first
    return (column >= 0) & (column < columns), column.clamp(0, columns - 1)
