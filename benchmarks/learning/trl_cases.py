"""What both trainers are given: settings of the comparison, their rollouts, and the case file that a side reads. Pure,
and without what only one of their two environments has.

Fixed rollouts are drawn token ids: what they say makes no difference to time or memory, how long they are does. Half of
each group is worth 1, so that every group has a gradient in both programs.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rl.numbers import last_number
from rl.recipe import Recipe

GROUP_SIZE = 8
RECIPE = {
    "learning_rate": 1.5e-5,
    "clip_epsilon": 0.2,
    "clip_delta": 4.0,
    "entropy_coefficient": 1e-4,
    "grad_norm_clip": 1.0,
    "temperature": 1.0,
    "micro_batch_tokens": 256,
}
"""The demo's (`node.sections`); each side gives these to its own trainer."""
SEQUENCES_AT_ONCE = 8
"""TRL's micro-batch, its own default; here it is as many completions as one group has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Shape of a step's rollouts, in tokens; a completion's length is drawn evenly."""

    name: str
    groups: int
    prompt: int
    shortest: int
    longest: int

    def rollouts(self, vocabulary: int, seed: int = 0) -> list[dict[str, Any]]:
        """Fields of `rl.batch.TrainingGroup` for each group, reproducible."""
        drawn = random.Random(seed)

        def ids(count: int) -> list[int]:
            return [drawn.randrange(vocabulary) for _ in range(count)]

        return [
            {
                "prompt_ids": ids(self.prompt),
                "completions": [ids(drawn.randint(self.shortest, self.longest)) for _ in range(GROUP_SIZE)],
                "rewards": [float(number % 2) for number in range(GROUP_SIZE)],
            }
            for _ in range(self.groups)
        ]


SHORT = Setting(name="short", groups=10, prompt=44, shortest=6, longest=24)
"""The demo's sums."""
LONG = Setting(name="long", groups=2, prompt=100, shortest=64, longest=128)


def fixed(
    setting: Setting, *, model: str, vocabulary: int, compute_type: str, recompute: bool, rounds: int, scratch: str
) -> dict[str, Any]:
    """The case of training on a setting's rollouts, `rounds` times the same."""
    return _case(model, compute_type, scratch) | {
        "groups": setting.rollouts(vocabulary),
        "recompute": recompute,
        "max_new_tokens": setting.longest,
        "steps": rounds,
    }


def generated(
    problems: list[dict[str, Any]], *, model: str, compute_type: str, prompts_per_step: int, steps: int, scratch: str
) -> dict[str, Any]:
    """The case of generating and training in turn. Problems: `text` and `prompt_ids` of the prompt, `answer`."""
    return _case(model, compute_type, scratch) | {
        "groups": [],
        "problems": problems,
        "prompts_per_step": prompts_per_step,
        "recompute": False,
        "max_new_tokens": 24,
        "steps": steps,
    }


def _case(model: str, compute_type: str, scratch: str) -> dict[str, Any]:
    Recipe(**RECIPE)  # refuses what cannot train
    return {
        "model": model,
        "compute_type": compute_type,
        "recipe": RECIPE,
        "group_size": GROUP_SIZE,
        "sequences_at_once": SEQUENCES_AT_ONCE,
        "seed": 1,
        "scratch": scratch,
    }


def tokens(case: dict[str, Any]) -> int:
    """Completion tokens of a step with fixed rollouts."""
    return sum(len(ids) for group in case["groups"] for ids in group["completions"])


class Given:
    """Fixed rollouts, as TRL asks for them: a row of its data set a group, and the group's completions in turn."""

    def __init__(self, groups: list[dict[str, Any]]) -> None:
        self._groups = groups

    def rows(self) -> list[dict[str, Any]]:
        return [{"prompt": str(number)} for number in range(len(self._groups))]

    def rollouts(self, prompts: list[str], trainer: object) -> dict[str, Any]:
        places = list(_places(prompts))
        completions = [self._groups[group]["completions"][sample] for group, sample in places]
        return {
            "prompt_ids": [self._groups[group]["prompt_ids"] for group, _ in places],
            "completion_ids": completions,
            "logprobs": [[0.0] * len(tokens) for tokens in completions],  # used with vLLM only
        }

    def rewards(self, prompts: list[str], **rest: Any) -> list[float]:
        return [self._groups[group]["rewards"][sample] for group, sample in _places(prompts)]


def _places(prompts: list[str]) -> Iterator[tuple[int, int]]:
    """Group and place in it of each prompt; TRL repeats a prompt for each of its completions, one after another."""
    for name, same in itertools.groupby(prompts):
        for sample, _ in enumerate(same):
            yield int(name), sample


def right_numbers(completions: list[str], answer: list[str], **rest: Any) -> list[float]:
    """1.0 for a completion whose last number is the answer."""
    return [float(last_number(text) == last_number(gold)) for text, gold in zip(completions, answer, strict=True)]
