"""From a submission's file to a verdict: every check in order of cost, ending at the first that fails.

A verdict says something about the submission and only that. A check that crashes, a policy that cannot be loaded, a
dependency that is missing: all raise `CheckFailed`, which is no verdict and slashes nobody.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from rl.rollouts import Rollout, RolloutFileInvalid, read_rollouts
from rl.tasks import Task
from verify import chance, checks
from verify.policy import Policy, Prefilled
from verify.proofs import BlockErrors, ProofFault, compare_many
from verify.rejection import UNPUNISHED, Rejection
from verify.rules import Claim, Rules
from verify.thresholds import proof_statistics

Facts = dict[str, float]


class CheckFailed(Exception):
    """A check could not be made, whence nothing follows about the submission. `__cause__` says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a validator found."""

    outcome: Literal["accepted", "rejected", "late"]
    rejection: Rejection | None
    """The check that failed; None if accepted."""
    facts: Facts
    """What was measured up to that check."""

    def evidence(self) -> bytes:
        """Canonical JSON of the verdict, whose hash goes on the ledger."""
        failed = None if self.rejection is None else asdict(self.rejection)
        return json.dumps({"outcome": self.outcome, "rejection": failed, "facts": self.facts}, sort_keys=True).encode()


def judge(
    path: Path | None, *, claim: Claim, rules: Rules, task: Task, load_policy: Callable[[int], Policy]
) -> Verdict:
    """Check one submission.

    Args:
        path: the submitted file; None if nobody could be made to serve it.
        load_policy: gives the policy of a version between 0 and `claim.newest_version`.

    Raises:
        CheckFailed: a check could not be made.
    """
    facts: Facts = {}
    try:
        findings = _findings(path, claim, rules, task, load_policy, facts)
        rejection = next((finding for finding in findings if finding is not None), None)
    except Exception as cause:
        raise CheckFailed(f"{type(cause).__name__}: {cause}") from cause
    if rejection is None:
        return Verdict(outcome="accepted", rejection=None, facts=facts)
    outcome = "late" if rejection.code in UNPUNISHED else "rejected"
    return Verdict(outcome=outcome, rejection=rejection, facts=facts)


def _findings(
    path: Path | None,
    claim: Claim,
    rules: Rules,
    task: Task,
    load_policy: Callable[[int], Policy],
    facts: Facts,
) -> Iterator[Rejection | None]:
    """What each check finds, cheapest first; later checks rely on earlier ones having found nothing."""
    yield checks.check_in_time(claim)
    if path is None:
        yield Rejection(code="late", detail="nobody serves the file")
        return
    facts["size_bytes"] = path.stat().st_size
    yield checks.check_size(path.stat().st_size, rules)
    yield checks.check_hash(hashlib.sha256(path.read_bytes()).digest(), claim)

    try:
        rollouts = read_rollouts(path, max_rows=rules.groups * rules.samples, max_bytes=rules.max_file_bytes)
    except RolloutFileInvalid as invalid:
        yield Rejection(code="schema", detail=str(invalid))
        return
    yield checks.check_rows(rollouts, rules)
    yield checks.check_problems(rollouts, claim, rules, task)
    yield checks.check_version(rollouts, claim, rules)

    policy = load_policy(rollouts[0].policy_version)
    yield checks.check_bounds(rollouts, rules, policy.vocab_size)
    facts |= {
        "completions": len(rollouts),
        "tokens": sum(len(r.completion_ids) for r in rollouts),
        "reward_mean": sum(r.reward for r in rollouts) / len(rollouts),
    }
    yield checks.check_endings(rollouts, rules, policy.tokenizer.eos_token_id)
    yield checks.check_proof_count(rollouts, policy.hidden_size)
    problems = checks.dictated_problems(claim, rules, task)
    yield checks.check_rewards(rollouts, problems, task)
    yield checks.check_prompts(rollouts, problems, rules, policy.tokenizer)
    yield checks.check_texts(rollouts, policy.tokenizer)

    prefilled = policy.prefill(rollouts, temperature=rules.temperature)
    yield from _computation(rollouts, prefilled, rules, facts)


def _computation(
    rollouts: Sequence[Rollout], prefilled: Sequence[Prefilled], rules: Rules, facts: Facts
) -> Iterator[Rejection | None]:
    """What the policy's own forward pass says: activations, endings, repetitions."""
    compared = compare_many([p.states for p in prefilled], [r.proofs for r in rollouts])
    faults = [c for c in compared if isinstance(c, ProofFault)]
    if faults:
        yield Rejection(code="proof-count", detail=faults[0].detail)
        return
    errors = [error for c in compared for error in c if isinstance(error, BlockErrors)]
    seen = proof_statistics(errors, checks.independent_blocks(rollouts))
    gaps = [np.abs(p.logprobs - np.asarray(r.logprobs)) for p, r in zip(prefilled, rollouts, strict=True)]
    endings = checks.improbable_endings(rollouts, [p.eos_probs for p in prefilled], rules.eos_probability)
    repeats = checks.repetitions(rollouts, [p.logprobs for p in prefilled])
    facts |= asdict(seen) | {
        "logprob_gap_mean": float(np.concatenate(gaps).mean()),
        "improbable_endings": endings[0],
        "improbable_endings_due": endings[1],
        "improbable_endings_log_surprise": chance.log_surprise(*endings),
        "repetitions": repeats[0],
        "repetitions_due": repeats[1],
        "repetitions_log_surprise": chance.log_surprise(*repeats),
    }
    yield checks.check_proofs(seen, rules.thresholds)
    yield checks.check_termination(*endings, rules)
    yield checks.check_repetitions(*repeats)
