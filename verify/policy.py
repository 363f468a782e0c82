"""What the checks need of a policy: its tokenizer, its sizes, and what a prefill of rollouts shows.

`verify.prefill` is the real one; a pure one ships with the tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from rl.hardware import ComputeType
from rl.prompts import Tokenizer
from rl.rollouts import Rollout
from rl.seeded import Sampling

RARE = 1e-3
"""Tokens less likely than this make the second mode that another model's tokens have (INTELLECT-2, section 2.3.2)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """The distribution of x = -log p of a token sampled from p, all float32 [tokens]."""

    entropies: np.ndarray
    """Mean of x."""
    variances: np.ndarray
    rare: np.ndarray
    """Probability of a token whose own probability is below `RARE`."""
    up: np.ndarray
    """Log of the mean of exp(x / 2)."""
    down: np.ndarray
    """Log of the mean of exp(-x / 2)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefilled:
    """One completion seen through the validator's own forward pass; row g belongs to completion token g."""

    states: np.ndarray
    """uint16 [tokens, hidden]: bf16 bits of the final-norm hidden state from which token g was sampled."""
    logprobs: np.ndarray
    """float32 [tokens]: natural log-probability of token g, at the sampling temperature."""
    eos_probs: np.ndarray
    """float32 [tokens]: probability that the model gave to EOS where token g was sampled."""
    margins: np.ndarray | None = None
    """float32 [tokens], seeded pools: logits by which token g lost to the forced one (`rl.seeded.margins`)."""
    spread: Spread | None = None
    """Unseeded pools: what was to be expected of -log p where token g was sampled."""


class Policy(Protocol):
    """One policy version, loaded."""

    tokenizer: Tokenizer
    hidden_size: int
    vocab_size: int
    compute_type: ComputeType
    """What it computes in unless told otherwise."""

    def prefill(
        self,
        rollouts: Sequence[Rollout],
        *,
        sampling: Sampling,
        keys: Sequence[bytes] | None,
        compute_type: ComputeType | None = None,
    ) -> Sequence[Prefilled]:
        """One result for each rollout, in order.

        Args:
            sampling: the rule by which the tokens are said to be chosen.
            keys: of each rollout's noise (`rl.seeded.completion_key`); None in an unseeded pool.
            compute_type: arithmetic of this pass, the policy's own if None.
        """
        ...
