"""Which accepted rollouts make up a step's batch: the online filter of the report, section 2.2. Pure.

Groups are formed by problem and worker, never by position. A group whose advantages are all zero teaches nothing
and does not count; more rollouts are asked for until the batch is full. Nothing is trained twice: a submission
counts once, whatever is announced how often.

A step's batch follows from the order in which the ledger accepted its submissions: whoever reads the same ledger and
files trains on the same groups. What was used is written beside the policy that came of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rl import flat_json
from rl.rollouts import Rollout

TRAINED_ON = "trained-on.json"
"""In a policy's folder: the step and the submissions that made it of the policy before."""
MAX_TRAINED_ON_BYTES = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingGroup:
    """The completions of one problem by one worker."""

    problem_id: str
    prompt_ids: tuple[int, ...]
    completions: tuple[tuple[int, ...], ...]
    rewards: tuple[float, ...]
    behaviour_logprobs: tuple[tuple[float, ...], ...]
    """As reported by the worker; used for a metric only, never for the update."""


@dataclass(slots=True, kw_only=True)
class StepBatch:
    """What has been accepted for one step so far."""

    step: int
    wanted: int
    """Groups with non-zero advantage that make a full batch."""
    groups: list[TrainingGroup] = field(default_factory=list)
    """The usable ones, in the order in which the ledger accepted their submissions."""
    rewards: list[float] = field(default_factory=list)
    """Of every accepted rollout, usable or not: the step's mean reward is the mean of these."""
    lengths: list[int] = field(default_factory=list)
    """Completion lengths in tokens, alongside `rewards`."""
    seen_groups: int = 0
    versions: set[int] = field(default_factory=set)
    _counted: set[bytes] = field(default_factory=set)
    _sources: list[bytes] = field(default_factory=list)

    @property
    def full(self) -> bool:
        return len(self.groups) >= self.wanted

    def add(self, submission_id: bytes, rollouts: Iterable[Rollout]) -> None:
        """Count one accepted submission; a second time it changes nothing."""
        if submission_id in self._counted:
            return
        self._counted.add(submission_id)
        by_problem: dict[str, list[Rollout]] = {}
        for rollout in rollouts:
            by_problem.setdefault(rollout.problem_id, []).append(rollout)
            self.rewards.append(rollout.reward)
            self.lengths.append(len(rollout.completion_ids))
            self.versions.add(rollout.policy_version)
        self.seen_groups += len(by_problem)
        for problem_id, members in by_problem.items():
            if len({r.reward for r in members}) > 1:
                self._sources.append(submission_id)
                self.groups.append(
                    TrainingGroup(
                        problem_id=problem_id,
                        prompt_ids=members[0].prompt_ids,
                        completions=tuple(r.completion_ids for r in members),
                        rewards=tuple(r.reward for r in members),
                        behaviour_logprobs=tuple(r.logprobs for r in members),
                    )
                )

    def batch(self) -> tuple[TrainingGroup, ...]:
        """Exactly `wanted` groups, the earliest first. Raises ValueError while the batch is not full."""
        if not self.full:
            raise ValueError(f"step {self.step} has {len(self.groups)} of {self.wanted} groups")
        return tuple(self.groups[: self.wanted])

    def used(self) -> tuple[bytes, ...]:
        """The submissions whose groups are in `batch()`, in order; their files are enough to train the step again."""
        return tuple(dict.fromkeys(self._sources[: self.wanted]))


def write_trained_on(folder: Path, step: int, submissions: Sequence[str]) -> None:
    """Write TRAINED_ON into an unfinished policy `folder`; submissions are ids in hex."""
    (folder / TRAINED_ON).write_text(json.dumps({"step": step, "submissions": list(submissions)}, indent=1) + "\n")


def read_trained_on(folder: Path) -> tuple[int, tuple[bytes, ...]] | None:
    """Step and submission ids that the policy in `folder` was trained on; None where it does not say, or not so."""
    try:
        with (folder / TRAINED_ON).open("rb") as file:
            history = flat_json.loads(file.read(MAX_TRAINED_ON_BYTES))
        step, submissions = history["step"], tuple(bytes.fromhex(text) for text in history["submissions"])
    except (OSError, ValueError, TypeError, KeyError):
        return None
    wellformed = type(step) is int and all(len(submission_id) == 32 for submission_id in submissions)
    return (step, submissions) if wellformed else None
