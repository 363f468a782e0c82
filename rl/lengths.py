"""The length reward: how long a completion should be, said in its prompt, and what a miss costs.

`r_total = r_task − α·|l_target − l_y|` (INTELLECT-2 report: α = 0.0003, targets from a small set). The
target of a problem follows from the seed of the submission, as the problem itself does: a worker cannot choose it and a
validator finds it again. Pure; what a task's own reward is, it does not know.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from eth_utils import keccak

from rl.numbers import as_stored
from rl.problems import Problem

ALPHA = 0.0003
TARGETS = (1000, 2000, 3000, 4000)
"""Of the report's run TARGET-SHORT."""
MAX_TARGETS = 64
TARGET = "target_length"
"""Of a problem's metadata: the tokens that its prompt asks for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthReward:
    """The pool's settings."""

    targets: tuple[int, ...] = TARGETS
    """Completion lengths to aim at, tokens; distinct, above 0."""
    alpha: float = ALPHA
    """Reward lost per token of difference."""

    def __post_init__(self) -> None:
        if not 1 <= len(self.targets) <= MAX_TARGETS or len(set(self.targets)) != len(self.targets):
            raise ValueError(f"1 to {MAX_TARGETS} distinct target lengths are needed, not {self.targets}")
        if min(self.targets) < 1:
            raise ValueError(f"a target length is at least 1 token, not {min(self.targets)}")
        if not 0 <= self.alpha <= 1:
            raise ValueError(f"alpha {self.alpha} is not within 0 to 1")

    @classmethod
    def of(cls, targets: Sequence[int], alpha: float) -> LengthReward | None:
        """Of the settings as they are written down; no targets mean that there is no length reward."""
        return cls(targets=tuple(targets), alpha=alpha) if targets else None

    def range(self, max_new_tokens: int) -> tuple[float, float]:
        """Lowest and highest total of a task reward within 0 to 1 and a completion of 1 to `max_new_tokens` tokens."""
        worst = max(max(target - 1, max_new_tokens - target) for target in self.targets)
        return as_stored(-self.alpha * worst), 1.0


def draw_targets(seed: bytes, count: int, targets: Sequence[int]) -> tuple[int, ...]:
    """Target lengths of the `count` problems of a submission, in their order.

    Args:
        seed: the 32 bytes of `rl.draw.draw_seed`, from which the problems are drawn too.
    """
    drawn = (keccak(b"intellect-node/length/1" + seed + group.to_bytes(8, "big")) for group in range(count))
    return tuple(targets[int.from_bytes(digest, "big") % len(targets)] for digest in drawn)


def with_target(problem: Problem, target: int) -> Problem:
    """The problem with the sentence in its prompt that asks for `target` tokens, and the number in its metadata."""
    return replace(
        problem,
        prompt=problem.prompt + _sentence(target),
        metadata=problem.metadata | {TARGET: str(target)},
    )


def without_target(problem: Problem) -> Problem:
    """The problem as it was before `with_target`. Raises KeyError where it has no target."""
    rest = {name: value for name, value in problem.metadata.items() if name != TARGET}
    return replace(problem, prompt=problem.prompt.removesuffix(_sentence(target_of(problem))), metadata=rest)


def target_of(problem: Problem) -> int:
    """The target that `with_target` gave. Raises KeyError where it gave none."""
    return int(problem.metadata[TARGET])


def _sentence(target: int) -> str:
    return f"\n\nThink for {target} tokens before giving a response."


def total_reward(task_reward: float, target: int, tokens: int, alpha: float) -> float:
    """The report's sum, as a rollout file stores it.

    Args:
        task_reward: what the answer is worth to the task.
        target: tokens asked for.
        tokens: tokens of the completion, its EOS included.
    """
    return as_stored(task_reward - alpha * abs(target - tokens))
