"""The hyper-parameters of training: what each means, what it may be, and which of them go together. Pure.

It decides no schedule and computes nothing. A recipe that cannot train is refused when it is written down, not at its
first step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Normalisation = Literal["token", "sequence", "constant"]
Importance = Literal["recomputed", "behaviour"]
NORMALISATIONS: tuple[Normalisation, ...] = ("token", "sequence", "constant")
IMPORTANCES: tuple[Importance, ...] = ("recomputed", "behaviour")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Hyper-parameters of the update; defaults are the report's (arXiv 2505.07291) where it names one.

    Raises ValueError that names the field, its value and what it takes.
    """

    learning_rate: float = 3e-7
    warmup_steps: int = 25
    """Optimiser steps over which the rate grows linearly from 0."""
    optimizer_steps: int = 8
    """Optimiser steps for each batch of rollouts."""
    clip_epsilon: float = 0.2
    clip_delta: float = 4.0
    """Above 1 + clip_epsilon; math.inf is plain, one-sided clipping."""
    kl_coefficient: float = 0.0
    """Weight of the KL to a frozen reference; the report has 0.001. Off by default: it needs a second model."""
    entropy_coefficient: float = 1e-4
    normalisation: Normalisation = "token"
    """What a token's term is divided by (see `rl.loss.token_weights`)."""
    longest_completion: int = 0
    """Tokens; what "constant" divides by beside the number of completions. Needed for that one only."""
    advantage_std: bool = True
    """Divide a group's advantages by their standard deviation (GRPO); False is Dr-GRPO's."""
    importance: Importance = "recomputed"
    """To whose log-probs the ratio is taken: ours at the start of the step, or those that the workers reported."""
    importance_cap: float = 2.0
    """With "behaviour": the ratio of our policy at the start of the step to the worker's is cut off here."""
    grad_norm_clip: float = 0.1
    temperature: float = 1.0
    micro_batch_tokens: int = 1024
    """Packed tokens that are forwarded and held for backward at once."""
    beta1: float = 0.9
    beta2: float = 0.99
    """AdamW's decay of the mean and of the mean square of gradients."""
    weight_decay: float = 0.0
    recompute_activations: bool = False
    """Keep a layer's input only and compute the rest again for backward: less memory, a third more arithmetic."""
    compile: bool = False
    """Compile the layers; off by default, since it collapsed the report's runs."""

    def __post_init__(self) -> None:
        for name in ("learning_rate", "kl_coefficient", "entropy_coefficient", "weight_decay"):
            self._demand(name, 0 <= getattr(self, name) < math.inf, "a finite number, 0 or more")
        for name in ("grad_norm_clip", "temperature", "clip_epsilon"):
            self._demand(name, 0 < getattr(self, name) < math.inf, "a finite number above 0")
        for name, least in (("warmup_steps", 0), ("optimizer_steps", 1), ("micro_batch_tokens", 1)):
            self._demand(name, getattr(self, name) >= least, f"{least} or more")
        for name in ("beta1", "beta2"):
            self._demand(name, 0 <= getattr(self, name) < 1, "a number from 0 to below 1")
        self._demand("clip_epsilon", self.clip_epsilon < 1, "a number below 1")
        self._demand("clip_delta", self.clip_delta > 1 + self.clip_epsilon, "more than 1 + clip_epsilon")
        self._demand("normalisation", self.normalisation in NORMALISATIONS, f"one of {', '.join(NORMALISATIONS)}")
        self._demand("importance", self.importance in IMPORTANCES, f"one of {', '.join(IMPORTANCES)}")
        self._demand("importance_cap", 1 <= self.importance_cap < math.inf, "a finite number, 1 or more")
        least = 1 if self.normalisation == "constant" else 0
        self._demand("longest_completion", self.longest_completion >= least, f"{least} or more tokens")

    def _demand(self, name: str, holds: bool, wanted: str) -> None:
        if not holds:
            raise ValueError(f"{name} = {getattr(self, name)!r} is no recipe: it takes {wanted}")
