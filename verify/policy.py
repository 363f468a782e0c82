"""What the checks need of a policy: its tokenizer, its sizes, and what a prefill of rollouts shows.

`verify.prefill` is the real one; a pure one ships with the tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from rl.prompts import Tokenizer
from rl.rollouts import Rollout


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefilled:
    """One completion seen through the validator's own forward pass; row g belongs to completion token g."""

    states: np.ndarray
    """uint16 [tokens, hidden]: bf16 bits of the final-norm hidden state from which token g was sampled."""
    logprobs: np.ndarray
    """float32 [tokens]: natural log-probability of token g, at the sampling temperature."""
    eos_probs: np.ndarray
    """float32 [tokens]: probability that the model gave to EOS where token g was sampled."""


class Policy(Protocol):
    """One policy version, loaded."""

    tokenizer: Tokenizer
    hidden_size: int
    vocab_size: int

    def prefill(self, rollouts: Sequence[Rollout], *, temperature: float) -> Sequence[Prefilled]:
        """One result for each rollout, in order."""
        ...
