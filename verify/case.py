"""One submission under examination: what each check may ask for, computed once and only when asked.

It decides nothing. It parses the file and runs the policy; what may be asked for when is said by the `needs` of the
checks in `verify.verdict`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from rl.draw import draw_seed
from rl.hardware import ComputeType
from rl.prompts import render_prompt
from rl.rollouts import Rollout, RolloutFileInvalid, read_rollouts
from rl.seeded import completion_key
from rl.tasks import Problem, Task
from verify.audit import audited_groups
from verify.checks import dictated_problems
from verify.copies import Earlier, copy_surprise
from verify.look import Look, second_look
from verify.policy import Policy, Prefilled
from verify.rules import Claim, Rules
from verify.sampled import Surprise, improbable_endings, repetitions, surprise


class Case:
    """The terms are plain fields; what follows from them is computed on first use and kept."""

    def __init__(
        self,
        path: Path | None,
        *,
        claim: Claim,
        rules: Rules,
        task: Task,
        load_policy: Callable[[int], Policy],
        earlier: Earlier,
    ) -> None:
        self.path, self.claim, self.rules, self.task = path, claim, rules, task
        self._load_policy, self._earlier = load_policy, earlier
        self._passes: dict[ComputeType, Sequence[Prefilled]] = {}

    @property
    def file(self) -> Path:
        """Of a file that is there."""
        if self.path is None:
            raise ValueError("nobody serves the file")
        return self.path

    @cached_property
    def size_bytes(self) -> int:
        return self.file.stat().st_size

    @cached_property
    def digest(self) -> bytes:
        with self.file.open("rb") as source:
            return hashlib.file_digest(source, "sha256").digest()

    @cached_property
    def parsed(self) -> tuple[Rollout, ...] | RolloutFileInvalid:
        try:
            return read_rollouts(
                self.file, max_rows=self.rules.groups * self.rules.samples, max_bytes=self.rules.max_file_bytes
            )
        except RolloutFileInvalid as invalid:
            return invalid

    @property
    def rollouts(self) -> tuple[Rollout, ...]:
        """Of a file that can be read."""
        if isinstance(self.parsed, RolloutFileInvalid):
            raise self.parsed
        return self.parsed

    @cached_property
    def problems(self) -> tuple[Problem, ...]:
        return dictated_problems(self.claim, self.rules, self.task)

    @cached_property
    def policy(self) -> Policy:
        return self._load_policy(self.rollouts[0].policy_version)

    @cached_property
    def prompts(self) -> tuple[tuple[int, ...], ...]:
        """The canonical prompt of each group."""
        return tuple(map(self.render, self.problems))

    def render(self, problem: Problem) -> tuple[int, ...]:
        """A problem's prompt, as this pool's worker renders it."""
        return render_prompt(self.policy.tokenizer, problem, self.rules.system_prompt)

    @cached_property
    def audited(self) -> tuple[Rollout, ...]:
        """The rollouts that are run through the policy, after the canonical prompts whatever theirs were."""
        seed = self.claim.audit_seed if self.rules.audit_share < 1.0 else b""
        chosen = audited_groups(seed, self.claim.file_hash, self.rules.groups, self.rules.audit_share)
        return tuple(replace(r, prompt_ids=self.prompts[r.group]) for r in self.rollouts if r.group in chosen)

    @cached_property
    def first_look(self) -> Look:
        """In the validator's own arithmetic."""
        prefilled = self._pass(self.policy.compute_type)
        return Look(rollouts=self.audited, prefilled=prefilled, thresholds=self.rules.thresholds)

    @cached_property
    def second_look(self) -> Look:
        """In float32, by bounds as wide as the policy is noisy."""
        exact, coarse = self._pass("float32"), self._pass("bfloat16")
        return second_look(self.audited, exact, coarse, self.rules.second_look)

    @property
    def prefilled(self) -> Sequence[Prefilled]:
        return self.first_look.prefilled

    def _pass(self, compute_type: ComputeType) -> Sequence[Prefilled]:
        """The audited rollouts in that arithmetic, computed once."""
        if compute_type not in self._passes:
            keys = None
            if self.rules.seeded:
                seed = draw_seed(self.claim.run_id, self.claim.step, self.claim.worker, self.claim.counter)
                keys = [completion_key(seed, r.group, r.sample) for r in self.audited]
            self._passes[compute_type] = self.policy.prefill(
                self.audited, sampling=self.rules.sampling, keys=keys, compute_type=compute_type
            )
        return self._passes[compute_type]

    @cached_property
    def copy_surprises(self) -> tuple[float, ...]:
        """Of each audited completion, against earlier ones of its problem."""
        before = {
            group: self._earlier.completions(
                self.claim.run_id, self.problems[group].problem_id, before=self.claim.position
            )
            for group in {r.group for r in self.audited}
        }
        return copy_surprise(
            self.audited, [p.logprobs for p in self.prefilled], [before[r.group] for r in self.audited]
        )

    @cached_property
    def surprise(self) -> Surprise:
        return surprise(self.prefilled)

    @cached_property
    def endings(self) -> tuple[int, float]:
        return improbable_endings(self.audited, [p.eos_probs for p in self.prefilled], self.rules.eos_probability)

    @cached_property
    def repetitions(self) -> tuple[int, float]:
        return repetitions(self.audited, [p.logprobs for p in self.prefilled])
