"""What a training step showed, put together from its optimiser steps. Pure; it judges nothing.

An update that was skipped has no part in any mean: its numbers are those that were not finite.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rl.packing import Plan
from rl.recipe import Recipe


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """What one optimiser step showed."""

    sums: dict[str, float]
    """`rl.loss.SUMS` over all its tokens."""
    tokens: int
    grad_norm: float
    fault: str
    """Why it was skipped; empty if it was made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepMetrics:
    """What one step showed; means are over trained completion tokens unless said otherwise.

    If all updates were skipped, there is nothing to take a mean of: those are NaN.
    """

    loss: float
    """Mean of the optimiser steps'."""
    grad_norm: float
    """Before clipping; the largest of the step's optimiser steps."""
    clip_ratio: float
    entropy: float
    """Nats per token."""
    kl_behaviour: float
    """KL from the workers' reported policy to the trainer's at the start of the step, k3 estimate, nats."""
    kl_reference: float | None
    """KL from the policy to the frozen reference, k3 estimate, nats; None without one."""
    truncated_ratio: float | None
    """Share of tokens whose ratio to the workers' policy was cut off; None where the recipe does not look at it."""
    trained_tokens: int
    skipped_updates: int
    """Optimiser steps that were left out because their loss or gradient was not finite."""
    skip_reasons: tuple[str, ...]
    """One sentence for each of them: which update, and what was not finite."""
    rows: int
    """Micro-batches of the step: rows that were forwarded, on all ranks."""
    packing: float
    """Share of those rows' room that held tokens, 0 to 1 (`rl.packing`)."""
    overlong: int
    """Completions that were trained whole although they exceed `micro_batch_tokens`, each in a row of its own."""


def metrics_of(updates: Sequence[Update], plans: Sequence[Plan], recipe: Recipe) -> StepMetrics:
    """The step of these updates, at least one, whose rows were laid out by `plans`."""
    faults = tuple(update.fault for update in updates if update.fault)
    made = [update for update in updates if not update.fault]
    tokens = sum(update.tokens for update in made)

    def mean(name: str) -> float:
        return sum(update.sums[name] for update in made) / tokens if made else math.nan

    return StepMetrics(
        loss=sum(update.sums["loss"] for update in made) / len(made) if made else math.nan,
        grad_norm=max((update.grad_norm for update in made), default=math.nan),
        clip_ratio=mean("clipped"),
        entropy=mean("entropy"),
        kl_behaviour=mean("kl_behaviour"),
        kl_reference=mean("kl_reference") if recipe.kl_coefficient else None,
        truncated_ratio=mean("truncated") if recipe.importance == "behaviour" else None,
        trained_tokens=tokens,
        skipped_updates=len(faults),
        skip_reasons=faults,
        rows=sum(len(plan.rows) for plan in plans),
        packing=sum(plan.tokens for plan in plans) / sum(plan.room for plan in plans),
        overlong=sum(plan.overlong for plan in plans),
    )
