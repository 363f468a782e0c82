"""Which accepted rollouts make up a step's batch: the online filter of the report, section 2.2. Pure.

Groups are formed by problem and worker, never by position, and those with a fault are left out (`rl.vetting`). A group
whose advantages are all zero teaches nothing: with the filter it does not count, and more rollouts are asked for until
the batch is full; without it, it takes a place. Nothing is trained twice: a submission counts once, whatever is
announced how often.

A step's batch follows from the order in which the ledger accepted its submissions: whoever reads the same ledger and
files trains on the same groups. What was used is written beside the policy that came of it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rl import flat_json
from rl.rollouts import Rollout
from rl.vetting import ANYTHING, Bounds, Vetted, vet

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
    """Groups that make a full batch; with the filter, of non-zero advantage."""
    bounds: Bounds = ANYTHING
    online_filter: bool = True
    groups: list[TrainingGroup] = field(default_factory=list)
    """Those that count, in the order in which the ledger accepted their submissions."""
    rewards: list[float] = field(default_factory=list)
    """Of every sound rollout, whether its group counts or not: the step's mean reward is the mean of these."""
    lengths: list[int] = field(default_factory=list)
    """Completion lengths in tokens, alongside `rewards`."""
    seen_groups: int = 0
    """Sound ones."""
    no_signal: int = 0
    """Those of them whose rewards are all equal."""
    eos_only: int = 0
    """Completions that are an EOS and nothing else; they are trained on like any other."""
    dropped: Counter[str] = field(default_factory=Counter)
    """Groups and files that were left out, by fault (`rl.vetting.FAULTS`)."""
    versions: set[int] = field(default_factory=set)
    _counted: set[bytes] = field(default_factory=set)
    _refused: set[bytes] = field(default_factory=set)
    _sources: list[bytes] = field(default_factory=list)

    @property
    def full(self) -> bool:
        return len(self.groups) >= self.wanted

    def add(self, submission_id: bytes, rollouts: Sequence[Rollout], *, counter: int | None = None) -> Vetted:
        """Count one accepted submission and tell what it was good for; a second time it changes nothing.

        Args:
            counter: the submission's on the ledger; None asks for none.
        """
        vetted = vet(rollouts, step=self.step, counter=counter, bounds=self.bounds)
        if submission_id in self._counted:
            return vetted
        self._counted.add(submission_id)
        self.dropped += vetted.dropped
        self.seen_groups += len(vetted.groups)
        for members in vetted.groups:
            for rollout in members:
                self.rewards.append(rollout.reward)
                self.lengths.append(len(rollout.completion_ids))
                self.eos_only += len(rollout.completion_ids) == 1 and rollout.finish_reason == "eos"
            self.versions.add(members[0].policy_version)
            flat = len({rollout.reward for rollout in members}) == 1
            self.no_signal += flat
            if not (flat and self.online_filter):
                self._sources.append(submission_id)
                self.groups.append(_training_group(members))
        return vetted

    def refuse(self, submission_id: bytes, fault: str) -> None:
        """Count an accepted submission whose file cannot be had or read, once; `fault` of `rl.vetting.FAULTS`.

        Should the file turn up it can still be added.
        """
        if submission_id not in self._counted | self._refused:
            self._refused.add(submission_id)
            self.dropped[fault] += 1

    def batch(self) -> tuple[TrainingGroup, ...]:
        """Exactly `wanted` groups, the earliest first. Raises ValueError while the batch is not full."""
        if not self.full:
            raise ValueError(f"step {self.step} has {len(self.groups)} of {self.wanted} groups")
        return tuple(self.groups[: self.wanted])

    def used(self) -> tuple[bytes, ...]:
        """The submissions whose groups are in `batch()`, in order; their files are enough to train the step again."""
        return tuple(dict.fromkeys(self._sources[: self.wanted]))


def _training_group(members: Sequence[Rollout]) -> TrainingGroup:
    return TrainingGroup(
        problem_id=members[0].problem_id,
        prompt_ids=members[0].prompt_ids,
        completions=tuple(rollout.completion_ids for rollout in members),
        rewards=tuple(rollout.reward for rollout in members),
        behaviour_logprobs=tuple(rollout.logprobs for rollout in members),
    )


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
