"""The offline filter: which problems are neither too hard nor too easy for the policy that will learn on them. Pure.

Decides by the share of right answers, both ends included: the INTELLECT-2 report (section 2.2) removes what its base
model solves in more than half of eight answers, and in less than one of eight. It generates nothing, and a problem of
which nothing was learnt it does not place.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import fsum
from typing import Literal

Place = Literal["too-hard", "kept", "too-easy"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """Shares of right answers that are kept, `low` and `high` among them."""

    low: float = 0.125
    high: float = 0.5

    def __post_init__(self) -> None:
        if not 0.0 <= self.low <= self.high <= 1.0:
            raise ValueError(f"a band lies within 0 to 1 and its low end is not above its high, not {self}")

    def place(self, rate: float) -> Place:
        """Where a problem with this solve rate lies. Raises ValueError outside 0 to 1, and for NaN."""
        if not 0.0 <= rate <= 1.0:
            raise ValueError(f"a solve rate is within 0 to 1, not {rate}")
        return "too-hard" if rate < self.low else "kept" if rate <= self.high else "too-easy"


def solve_rate(rewards: tuple[float, ...]) -> float:
    """Mean reward of the answers to one problem, 0 to 1: their share that is right, where no credit is partial."""
    if not rewards:
        raise ValueError("a problem without answers has no solve rate")
    return fsum(rewards) / len(rewards)
