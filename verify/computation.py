"""Did the claimed policy compute this? Activations, log-probabilities and forced tokens against the prefill's.

Pure statistics and their checks; bounds are `verify.thresholds`'. It refuses to judge tokens by how likely they are:
that is `verify.sampled`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from rl.rollouts import Rollout
from verify import chance
from verify.policy import Prefilled
from verify.proofs import BLOCK_TOKENS, BlockErrors, ProofFault, compare_many
from verify.rejection import Rejection
from verify.thresholds import Gaps, Limits, ProofStatistics, Thresholds, gaps, proof_statistics


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofFit:
    """How a submission's proofs fit the prefill's activations."""

    whole: ProofStatistics
    sequences: tuple[ProofStatistics, ...]
    """Of each completion alone."""


def proof_fit(rollouts: Sequence[Rollout], prefilled: Sequence[Prefilled]) -> ProofFit | ProofFault:
    """Errors of the submission and of each completion; a fault if a proof is malformed."""
    compared = compare_many([p.states for p in prefilled], [r.proofs for r in rollouts])
    errors: list[tuple[BlockErrors, ...]] = []
    for found in compared:
        if isinstance(found, ProofFault):
            return found
        errors.append(found)
    whole = proof_statistics([e for one in errors for e in one], independent_blocks(rollouts))
    return ProofFit(whole=whole, sequences=tuple(proof_statistics(one, len(one)) for one in errors))


def independent_blocks(rollouts: Sequence[Rollout]) -> int:
    """How many proof blocks there are when those with the same prompt and tokens up to their end count once."""
    return len(
        {
            (rollout.group, rollout.completion_ids[: start + BLOCK_TOKENS])
            for rollout in rollouts
            for start in range(0, len(rollout.completion_ids), BLOCK_TOKENS)
        }
    )


def check_proofs(rollouts: Sequence[Rollout], fit: ProofFit | ProofFault, thresholds: Thresholds) -> Rejection | None:
    """The prefill's activations lie as near to the proofs as honest arithmetic brings them."""
    if isinstance(fit, ProofFault):
        return Rejection(code="proof-mismatch", detail=fit.detail)
    for rollout, seen in zip(rollouts, fit.sequences, strict=True):
        broken = thresholds.broken_by(seen, alone=True)
        if broken is not None:
            return Rejection(code="proof-mismatch", detail=f"{_name(rollout)}: {broken}")
    broken = thresholds.broken_by(fit.whole)
    return None if broken is None else Rejection(code="proof-mismatch", detail=broken)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """How far the tokens are from the forced ones."""

    whole: Gaps
    sequences: tuple[Gaps, ...]
    mismatches: int
    """Tokens that are not the forced ones."""


def choices(prefilled: Sequence[Prefilled], thresholds: Thresholds) -> Choices:
    """Margins of a seeded submission, in logits, clipped at the bound of a single token."""
    margins = [p.margins for p in prefilled if p.margins is not None]
    clip = thresholds.margin_most
    flat = np.concatenate(margins)
    return Choices(
        whole=gaps(flat, clip),
        sequences=tuple(gaps(one, clip) for one in margins),
        mismatches=int((flat > 0).sum()),
    )


def check_sampling(rollouts: Sequence[Rollout], seen: Choices, thresholds: Thresholds) -> Rejection | None:
    """Each token is the one that the seed forces, but for ties that arithmetic decides."""
    detail = _too_far(rollouts, seen.sequences, seen.whole, thresholds.margin, "logits behind the forced token")
    due = thresholds.mismatch_share * seen.whole.tokens
    if detail is None and not chance.is_luck(seen.mismatches, due):
        detail = f"{seen.mismatches} of {seen.whole.tokens} tokens are not the forced ones, at most {due:.3g} were due"
    return None if detail is None else Rejection(code="sampling", detail=detail)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogprobGaps:
    """How far the reported log-probabilities are from the prefill's, in nats."""

    whole: Gaps
    sequences: tuple[Gaps, ...]


def logprob_gaps(rollouts: Sequence[Rollout], prefilled: Sequence[Prefilled], thresholds: Thresholds) -> LogprobGaps:
    clip = thresholds.logprob_most
    each = [np.abs(p.logprobs - np.asarray(r.logprobs)) for p, r in zip(prefilled, rollouts, strict=True)]
    return LogprobGaps(whole=gaps(np.concatenate(each), clip), sequences=tuple(gaps(one, clip) for one in each))


def check_logprobs(rollouts: Sequence[Rollout], seen: LogprobGaps, thresholds: Thresholds) -> Rejection | None:
    """Reported log-probabilities are the policy's own."""
    detail = _too_far(rollouts, seen.sequences, seen.whole, thresholds.logprob, "nats from the policy's")
    return None if detail is None else Rejection(code="logprobs", detail=detail)


def _too_far(
    rollouts: Sequence[Rollout], sequences: Sequence[Gaps], whole: Gaps, limits: Callable[..., Limits], words: str
) -> str | None:
    for rollout, one in zip(rollouts, sequences, strict=True):
        broken = limits(alone=True).broken_by(one)
        if broken is not None:
            return f"{_name(rollout)}: {broken} {words}"
    broken = limits(alone=False).broken_by(whole)
    return None if broken is None else f"{broken} {words}"


def _name(rollout: Rollout) -> str:
    return f"group {rollout.group}, sample {rollout.sample}"
