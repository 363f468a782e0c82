"""Whether what an accepted file holds may be trained on: the trainer's own look, after the validators'. Pure.

Validators can be bribed and can be wrong, and one number that is none ends a run. So the rows are sorted into groups by
what they say and not by where they stand, and each group is sound or has one named fault. A group with a fault is left
out as a whole (without one member the others' advantages would be wrong) and counted; nobody is punished for it here,
and no fault ends anything. It never mends a group and never asks whether work is honest: that is `verify`'s.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

from rl.rollouts import Rollout

FAULTS = {
    "not-served": "nobody serves the accepted file",
    "unreadable": "the file is not one of rollouts",
    "another-submission": "the file is of another step or submission than the one that was accepted",
    "no-groups": "the file holds no group",
    "stale": "a policy that is too old for the step made the group",
    "future-policy": "the group claims a policy newer than its step",
    "two-policies": "rollouts of several policies in one group",
    "two-prompts": "several prompts for one problem",
    "one-member": "a group of one completion",
    "group-size": "more or fewer completions than a group has",
    "repeated-sample": "a completion is there twice",
    "empty-rollout": "an empty prompt or completion",
    "too-long": "prompt and completion exceed what the model or the task allows",
    "vocabulary": "a token id outside the vocabulary",
    "logprobs": "log-probabilities that are not finite numbers up to 0, one a token",
    "reward": "a reward that is no finite number within reason",
}
"""Every fault, in words. Those of the first four are of whole files, counted one a file; the others one a group."""

LOGPROB_TOLERANCE = 1e-3
"""A log-probability may exceed 0 by this much rounding, as validators grant (`verify.checks`)."""
LARGEST_REWARD = 1e5
"""Tasks give 0 to 1, and the length reward costs at most a token's worth each (`rl.lengths`): 32,768. What is beyond is
no reward, and without division by the deviation one such would be the whole gradient."""
UNBOUNDED = 2**62


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What the run's settings and its model allow; the defaults allow whatever can be trained on at all."""

    asynchrony: int = UNBOUNDED
    """Versions by which a rollout's policy may be older than its step."""
    group_size: int | None = None
    """Completions of a group; None: two or more."""
    vocabulary: int = UNBOUNDED
    """Token ids are 0 to this, exclusive."""
    max_tokens: int = UNBOUNDED
    """Of prompt and completion together."""
    max_new_tokens: int = UNBOUNDED
    """Of a completion."""


ANYTHING = Bounds()


@dataclass(frozen=True, slots=True, kw_only=True)
class Vetted:
    """What a file is good for."""

    groups: tuple[tuple[Rollout, ...], ...]
    """The sound ones, in the order of their numbers, each in the order of its samples: whatever the rows' order."""
    dropped: Counter[str]
    """The others by fault, keys of `FAULTS`."""


def vet(rollouts: Sequence[Rollout], *, step: int, counter: int | None, bounds: Bounds) -> Vetted:
    """Sort one submission's rollouts into groups by problem, and part the sound from the others.

    A submission is of one run, step and worker, so a problem of it is the (task, problem, worker) of a group. Two
    submissions of a worker are two groups even if they share a problem: their policies may differ.

    Args:
        step, counter: of the submission on the ledger; None asks for no counter.
    """
    if not rollouts:
        return Vetted(groups=(), dropped=Counter(["no-groups"]))
    if any(row.step != step or counter not in (None, row.counter) for row in rollouts):
        return Vetted(groups=(), dropped=Counter(["another-submission"]))
    by_problem: dict[str, list[Rollout]] = {}
    for row in rollouts:
        by_problem.setdefault(row.problem_id, []).append(row)
    groups = [tuple(sorted(members, key=lambda row: row.sample)) for members in by_problem.values()]
    groups.sort(key=lambda members: (members[0].group, members[0].problem_id))
    faults = [fault_of(members, bounds) for members in groups]
    return Vetted(
        groups=tuple(members for members, fault in zip(groups, faults, strict=True) if fault is None),
        dropped=Counter(fault for fault in faults if fault is not None),
    )


def fault_of(members: Sequence[Rollout], bounds: Bounds) -> str | None:
    """What is wrong with the completions of one problem, sorted by sample; a key of `FAULTS`, or None."""
    first = members[0]
    if any(row.policy_version != first.policy_version for row in members):
        return "two-policies"
    if first.policy_version > first.step:
        return "future-policy"
    if first.policy_version < first.step - bounds.asynchrony:
        return "stale"
    if any(row.prompt_ids != first.prompt_ids for row in members):
        return "two-prompts"
    if len(members) == 1:
        return "one-member"
    if bounds.group_size not in (None, len(members)):
        return "group-size"
    if len({row.sample for row in members}) < len(members):
        return "repeated-sample"
    return next((fault for row in members if (fault := _rollout_fault(row, bounds)) is not None), None)


def _rollout_fault(row: Rollout, bounds: Bounds) -> str | None:
    tokens = len(row.completion_ids)
    if not row.prompt_ids or not tokens:
        return "empty-rollout"
    if len(row.prompt_ids) + tokens > bounds.max_tokens or tokens > bounds.max_new_tokens:
        return "too-long"
    if any(min(ids) < 0 or max(ids) >= bounds.vocabulary for ids in (row.prompt_ids, row.completion_ids)):
        return "vocabulary"
    # A sum of float32 is finite in float64 if and only if each of them is.
    if len(row.logprobs) != tokens or not isfinite(sum(row.logprobs)) or max(row.logprobs) > LOGPROB_TOLERANCE:
        return "logprobs"
    if not (isfinite(row.reward) and abs(row.reward) <= LARGEST_REWARD):
        return "reward"
    return None
