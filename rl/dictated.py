"""What a submission must answer, and what its answers are worth: the same for the worker and whoever checks it.

Decides both from the submission's seed, the task and the pool's length reward; neither side has arithmetic of its
own. It generates nothing, and what a task's own reward is, it asks the task. Pure but for that.
"""

from __future__ import annotations

from rl.draw import draw_problems
from rl.lengths import LengthReward, draw_targets, target_of, total_reward, with_target
from rl.tasks import Problem, Task

FULL_AND_NONE = (1.0, 0.0)
"""What an answer can be worth where machines may honestly differ (`Task.tolerates`): nobody gives partial credit."""


def dictated_problems(seed: bytes, count: int, task: Task, lengths: LengthReward | None) -> tuple[Problem, ...]:
    """The problems of one submission, one a group, in order; with `lengths` each asks for the target drawn for it.

    Args:
        seed: the 32 bytes of `rl.draw.draw_seed`, in seeded pools and in others.

    Raises ValueError where the task has fewer problems than `count`.
    """
    problems = tuple(task.problem(index) for index in draw_problems(seed, count, task.size))
    if lengths is None:
        return problems
    targets = draw_targets(seed, count, lengths.targets)
    return tuple(with_target(problem, target) for problem, target in zip(problems, targets, strict=True))


def reward_of(
    task: Task, problem: Problem, text: str, *, finished: bool, tokens: int, lengths: LengthReward | None
) -> float:
    """The reward that a rollout file stores, in 32 bits. Raises RewardFailed.

    Args:
        problem: as dictated.
        finished: whether the completion ended by EOS.
        tokens: of the completion, its EOS included.
    """
    return _total(task.reward(problem, text, finished), problem, tokens, lengths)


def may_claim(
    task: Task,
    problem: Problem,
    text: str,
    claimed: float,
    *,
    finished: bool,
    tokens: int,
    lengths: LengthReward | None,
) -> bool:
    """Whether an honest machine may have stored `claimed`: `reward_of` exactly, or what `Task.agrees` tolerates.

    Arguments as of `reward_of`. Raises RewardFailed.
    """
    if lengths is None:
        return task.agrees(problem, text, finished, claimed)
    if task.tolerates is not None:
        for worth in FULL_AND_NONE:
            # Only the claim itself is turned over: the tolerated worth is the task's, the miss is counted exactly.
            if _total(worth, problem, tokens, lengths) == claimed and task.agrees(problem, text, finished, worth):
                return True
    return _total(task.reward(problem, text, finished), problem, tokens, lengths) == claimed


def _total(worth: float, problem: Problem, tokens: int, lengths: LengthReward | None) -> float:
    return worth if lengths is None else total_reward(worth, target_of(problem), tokens, lengths.alpha)
