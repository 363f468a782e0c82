"""The checks that need no forward pass, each one pure function: a `Rejection`, or None where nothing is wrong.

What is honest is never rejected: bounds follow from what an honest worker can produce. They do not know which check
runs when (`verify.verdict`), nor do they read files or run models; what a model says is `verify.computation`'s and
`verify.sampled`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isfinite
from pathlib import Path

from rl import dictated
from rl.draw import draw_seed
from rl.lengths import target_of, with_target, without_target
from rl.prompts import Tokenizer, decode_completion
from rl.rollouts import Rollout
from rl.tasks import Problem, Task
from verify.proofs import proof_fault
from verify.rejection import Rejection
from verify.rules import Claim, Rules

LOGPROB_TOLERANCE = 1e-3
"""A log-probability may exceed 0 by this much rounding."""


def check_served(path: Path | None) -> Rejection | None:
    """Somebody serves the file that was recorded."""
    return Rejection(code="unavailable", detail="nobody serves the file") if path is None else None


def check_size(size_bytes: int, rules: Rules) -> Rejection | None:
    """The file is not empty and not larger than allowed."""
    if not 0 < size_bytes <= rules.max_file_bytes:
        return Rejection(code="size", detail=f"{size_bytes} bytes, allowed are 1 to {rules.max_file_bytes}")
    return None


def check_hash(digest: bytes, claim: Claim) -> Rejection | None:
    """The file is the one that the ledger names."""
    if digest != claim.file_hash:
        return Rejection(code="hash", detail=f"SHA-256 {digest.hex()}, recorded is {claim.file_hash.hex()}")
    return None


def check_in_time(claim: Claim) -> Rejection | None:
    """The step was still open when the ledger recorded the submission."""
    if claim.step < claim.open_step:
        return Rejection(code="late", detail=f"for step {claim.step} when step {claim.open_step} was open")
    return None


def check_rows(rollouts: Sequence[Rollout], rules: Rules) -> Rejection | None:
    """One row for each sample of each group, in that order."""
    wanted = rules.groups * rules.samples
    if len(rollouts) != wanted:
        return Rejection(code="row-count", detail=f"{len(rollouts)} rows, not {wanted}")
    for row, rollout in enumerate(rollouts):
        if (rollout.group, rollout.sample) != divmod(row, rules.samples):
            return Rejection(code="row-count", detail=f"row {row} is group {rollout.group}, sample {rollout.sample}")
    return None


def check_bounds(rollouts: Sequence[Rollout], rules: Rules, vocab_size: int) -> Rejection | None:
    """Every scalar is finite and possible, every per-token list has one entry a token."""
    lowest, highest = rules.reward_range
    for row, rollout in enumerate(rollouts):
        tokens = len(rollout.completion_ids)
        wrong = None
        if not 1 <= tokens <= rules.max_new_tokens:
            wrong = f"{tokens} tokens, allowed are 1 to {rules.max_new_tokens}"
        elif not all(0 <= token < vocab_size for token in rollout.completion_ids):
            wrong = f"a token id outside the vocabulary of {vocab_size}"
        elif len(rollout.logprobs) != tokens:
            wrong = f"{len(rollout.logprobs)} log-probabilities for {tokens} tokens"
        elif not all(isfinite(p) and p <= LOGPROB_TOLERANCE for p in rollout.logprobs):
            wrong = "a log-probability is not a finite number up to 0"
        elif not (isfinite(rollout.reward) and lowest <= rollout.reward <= highest):
            wrong = f"reward {rollout.reward!r}, allowed are {lowest} to {highest}"
        elif rollout.finish_reason not in ("eos", "length"):
            wrong = f"finish reason {rollout.finish_reason[:20]!r}"
        if wrong is not None:
            return Rejection(code="bounds", detail=f"row {row}: {wrong}")
    return None


def dictated_problems(claim: Claim, rules: Rules, task: Task) -> tuple[Problem, ...]:
    """The problems that this submission must solve, one a group, in order, with the lengths that they must ask for."""
    seed = draw_seed(claim.run_id, claim.step, claim.worker, claim.counter)
    return dictated.dictated_problems(seed, rules.groups, task, rules.lengths)


def check_problems(rollouts: Sequence[Rollout], claim: Claim, rules: Rules, task: Task) -> Rejection | None:
    """Step, counter and problems are the ones that the ledger's entry dictates."""
    if not 0 <= claim.counter < rules.max_submissions:
        detail = f"counter {claim.counter}, allowed are 0 to {rules.max_submissions - 1}"
        return Rejection(code="problems", detail=detail)
    problems = dictated_problems(claim, rules, task)
    for row, rollout in enumerate(rollouts):
        if (rollout.step, rollout.counter) != (claim.step, claim.counter):
            wrong = f"step {rollout.step}, counter {rollout.counter}, not {claim.step}, {claim.counter}"
        elif rollout.problem_id != (wanted := problems[rollout.group].problem_id):
            wrong = f"problem {rollout.problem_id[:80]!r}, not {wanted!r}"
        else:
            continue
        return Rejection(code="problems", detail=f"row {row}: {wrong}")
    return None


def check_version(rollouts: Sequence[Rollout], claim: Claim) -> Rejection | None:
    """One policy made all rollouts, and it had been announced."""
    version = rollouts[0].policy_version
    if any(rollout.policy_version != version for rollout in rollouts):
        return Rejection(code="version", detail="several policy versions in one file")
    if not 0 <= version <= claim.newest_version:
        return Rejection(code="version", detail=f"policy version {version}, the newest is {claim.newest_version}")
    return None


def check_age(rollouts: Sequence[Rollout], claim: Claim, rules: Rules) -> Rejection | None:
    """The policy is not older than the pool's asynchrony allows."""
    version, oldest = rollouts[0].policy_version, claim.step - rules.max_policy_lag
    if version < oldest:
        return Rejection(code="stale", detail=f"policy {version} for step {claim.step}, the oldest allowed is {oldest}")
    return None


def check_proof_count(rollouts: Sequence[Rollout], hidden_size: int) -> Rejection | None:
    """Every completion carries exactly its proofs, each of the exact size and well formed."""
    for row, rollout in enumerate(rollouts):
        fault = proof_fault(rollout.proofs, tokens=len(rollout.completion_ids), hidden=hidden_size)
        if fault is not None:
            return Rejection(code="proof-count", detail=f"row {row}: {fault.detail}")
    return None


def check_endings(rollouts: Sequence[Rollout], rules: Rules, eos_token_id: int) -> Rejection | None:
    """EOS comes last and only last; without it the completion has the maximum length."""
    for row, rollout in enumerate(rollouts):
        *before, last = rollout.completion_ids
        if eos_token_id in before:
            wrong = "tokens after the EOS"
        elif (last == eos_token_id) != (rollout.finish_reason == "eos"):
            wrong = f"finish reason {rollout.finish_reason!r}, but the last token is {last}"
        elif last != eos_token_id and len(rollout.completion_ids) != rules.max_new_tokens:
            wrong = f"cut after {len(rollout.completion_ids)} of {rules.max_new_tokens} tokens"
        else:
            continue
        return Rejection(code="ending", detail=f"row {row}: {wrong}")
    return None


def check_rewards(
    rollouts: Sequence[Rollout], problems: Sequence[Problem], task: Task, rules: Rules
) -> Rejection | None:
    """Rewards are what an honest machine may say of the answers and their lengths (`rl.dictated.may_claim`)."""
    for row, rollout in enumerate(rollouts):
        if not dictated.may_claim(
            task,
            problems[rollout.group],
            rollout.text,
            rollout.reward,
            finished=rollout.finish_reason == "eos",
            tokens=len(rollout.completion_ids),
            lengths=rules.lengths,
        ):
            return Rejection(code="reward", detail=f"row {row}: the answer is not worth {rollout.reward:g}")
    return None


def check_targets(
    rollouts: Sequence[Rollout],
    rendered: Sequence[tuple[int, ...]],
    problems: Sequence[Problem],
    rules: Rules,
    render: Callable[[Problem], tuple[int, ...]],
) -> Rejection | None:
    """No prompt is right but for the length that it asks for. Of the rest of a prompt it says nothing.

    Args:
        rendered: the canonical prompt of each group.
        problems: of each group, with the dictated target.
        render: a problem's prompt; asked of the first other prompt only, once for each of the pool's targets and once
            without one.
    """
    if rules.lengths is None:
        return None
    row = next((n for n, rollout in enumerate(rollouts) if rollout.prompt_ids != rendered[rollout.group]), None)
    if row is None:
        return None
    dictated_one = problems[rollouts[row].group]
    plain, wanted = without_target(dictated_one), target_of(dictated_one)
    asked = {"no length": plain} | {f"{target} tokens": with_target(plain, target) for target in rules.lengths.targets}
    for said, problem in asked.items():
        if render(problem) == rollouts[row].prompt_ids:
            return Rejection(code="target-length", detail=f"row {row}: asks for {said}, dictated are {wanted} tokens")
    return None


def check_prompts(rollouts: Sequence[Rollout], rendered: Sequence[tuple[int, ...]]) -> Rejection | None:
    """Prompts are the canonical renderings of each group's problem, token for token."""
    for row, rollout in enumerate(rollouts):
        if rollout.prompt_ids != rendered[rollout.group]:
            return Rejection(code="prompt", detail=f"row {row}: not the rendering of {rollout.problem_id[:80]!r}")
    return None


def check_texts(rollouts: Sequence[Rollout], tokenizer: Tokenizer) -> Rejection | None:
    """Texts are their token ids, decoded."""
    for row, rollout in enumerate(rollouts):
        decoded = decode_completion(tokenizer, rollout.completion_ids)
        if rollout.text != decoded:
            detail = f"row {row}: {rollout.text[:60]!r}, but the tokens say {decoded[:60]!r}"
            return Rejection(code="text", detail=detail)
    return None
