"""What the study's workers are asked: the project's sums, explained at length, and the demo's own short answers.

It decides prompts and lengths alone. Long answers give whole proof blocks of 32 tokens, short ones none.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from rl.tasks import Problem, Task, load_task

_SUMS = load_task("arithmetic")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A pool's task and length."""

    name: str
    task: Task
    max_new_tokens: int
    samples: int
    """Completions of each problem."""


def _explained(index: int) -> Problem:
    problem = _SUMS.problem(index)
    return replace(
        problem,
        problem_id=f"explained/{index}",
        source="explained",
        prompt=problem.prompt.replace("Answer with just the number.", "Explain your steps, then give the answer."),
    )


LONG = Setting(
    name="long",
    task=replace(_SUMS, name="explained", make_problem=_explained),
    max_new_tokens=64,
    samples=4,
)
DEMO = Setting(name="demo", task=_SUMS, max_new_tokens=10, samples=8)
SETTINGS = {setting.name: setting for setting in (LONG, DEMO)}
