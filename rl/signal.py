"""Whether accepted work still teaches anything, and in words what to change where it does not. Pure.

A group whose rewards are all equal has no advantage. One such is daily bread; when many submissions in a row hold
nothing else, the step never fills and the trainer would wait in silence. It only speaks: what to do is the owner's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

PATIENCE = 8
"""Submissions without signal after which it speaks; then after twice as many each time. At a chance of one half that a
submission has any, 8 in a row happen by chance once in 256."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hint:
    """Why the last submissions taught nothing."""

    cause: str
    """too-hard, too-easy, always-or-never, or unusable: one word for metrics."""
    submissions: int
    """In a row without a group with signal."""
    rollouts: int
    """Sound ones among them."""
    text: str
    """A sentence or two, with what to do."""


_BAND = "keep problems that the base model solves in 12.5 to 50 % of 8 tries (`intellect-node task filter`)"


class Signal:
    """What was seen since a group last had an advantage."""

    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self._submissions = self._rollouts = 0
        self._speak_at = PATIENCE
        self._lowest, self._highest = float("inf"), float("-inf")
        self._dropped: Counter[str] = Counter()

    def see(self, groups: Sequence[Sequence[float]], dropped: Counter[str]) -> Hint | None:
        """Take in one submission: the rewards of its sound groups, and the others by fault. A hint when one is due."""
        if any(len(set(rewards)) > 1 for rewards in groups):
            self._forget()
            return None
        rewards = [reward for group in groups for reward in group]
        self._submissions += 1
        self._rollouts += len(rewards)
        self._lowest, self._highest = min([self._lowest, *rewards]), max([self._highest, *rewards])
        self._dropped += dropped
        if self._submissions < self._speak_at:
            return None
        self._speak_at *= 2
        cause, text = self._why()
        head = f"the last {self._submissions} accepted submissions ({self._rollouts} sound rollouts) taught nothing: "
        return Hint(cause=cause, submissions=self._submissions, rollouts=self._rollouts, text=head + text)

    def _why(self) -> tuple[str, str]:
        if not self._rollouts:
            told = ", ".join(f"{count} {fault}" for fault, count in sorted(self._dropped.items()))
            return "unusable", (
                f"none could be used ({told}). Do trainer, workers and validators run the same settings and version?"
            )
        if self._highest <= 0:
            return "too-hard", (
                f"no answer earned anything. The task is too hard for this policy: {_BAND}, allow longer answers "
                "(task.max_new_tokens), or start from a better model (model.path)"
            )
        if self._lowest >= 1:
            return "too-easy", f"every answer was right. The task is too easy by now: {_BAND}, or end the run"
        return "always-or-never", (
            f"answers to one problem always earned the same, {self._lowest:g} to {self._highest:g}. Larger groups "
            f"(rl.group_size) see rarer answers; else {_BAND}"
        )
