"""What a policy answered to one problem, asked k times: what each answer was worth, how long it was, how it ended.

Decides how answers are summed up and put side by side with another policy's. A problem of which an answer could not be
graded is counted and left out, never taken for a wrong answer. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import fsum

from rl.scores import Estimate, ks_of, mean_over_problems, pass_at_k


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """Of one problem, one entry an answer."""

    problem_id: str
    rewards: tuple[float, ...]
    """The task's own, 0 to 1; empty where one could not be computed."""
    tokens: tuple[int, ...]
    """Lengths, the EOS included."""
    cut: tuple[bool, ...]
    """Whether it ran into the longest length."""
    target: int | None = None
    """Tokens that the prompt asked for; None without a length reward."""

    @property
    def right(self) -> int:
        """Answers with full marks."""
        return sum(reward == 1.0 for reward in self.rewards)


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Of one policy, over the graded problems."""

    average: Estimate
    """avg@k: mean reward."""
    passes: dict[int, Estimate]
    """pass@k by k."""
    tokens: float
    """Mean length."""
    cut: float
    """Share of answers that ran into the longest length."""
    miss: float | None
    """Mean difference of the length from the target; None without targets."""


Value = Callable[[Answers], float]


def values_of(samples: int) -> dict[int, Value]:
    """By k: pass@k of one problem. 0 stands for avg@k."""
    passes = {k: (lambda one, k=k: pass_at_k(len(one.rewards), one.right, k)) for k in ks_of(samples)}
    return {0: lambda one: fsum(one.rewards) / len(one.rewards)} | passes


def graded(answers: Sequence[Answers]) -> list[Answers]:
    """Those of which every answer has its worth."""
    return [one for one in answers if one.rewards]


def summary(answers: Sequence[Answers], *, samples: int, seed: int) -> Summary:
    """Of graded answers. Raises ValueError where there is none."""
    found = {
        k: mean_over_problems([value(one) for one in answers], lowest=0.0, highest=1.0, seed=seed)
        for k, value in values_of(samples).items()
    }
    lengths = [tokens for one in answers for tokens in one.tokens]
    cuts = [cut for one in answers for cut in one.cut]
    misses = [abs(one.target - tokens) for one in answers if one.target is not None for tokens in one.tokens]
    return Summary(
        average=found.pop(0),
        passes=found,
        tokens=fsum(lengths) / len(lengths),
        cut=sum(cuts) / len(cuts),
        miss=fsum(misses) / len(misses) if misses else None,
    )


def difference(after: Sequence[Answers], before: Sequence[Answers], *, samples: int, seed: int) -> dict[int, Estimate]:
    """By k as `values_of`: mean over the problems of both of how much more the one policy reaches than the other.

    Paired: each problem is compared with itself. Raises ValueError where they have no graded problem in common.
    """
    earlier = {one.problem_id: one for one in before}
    pairs = [(one, earlier[one.problem_id]) for one in after if one.problem_id in earlier]
    return {
        k: mean_over_problems([value(one) - value(other) for one, other in pairs], lowest=-1.0, highest=1.0, seed=seed)
        for k, value in values_of(samples).items()
    }
