"""Do the tokens look drawn from the policy? Counts and bets, each against what chance explains.

Pure statistics of what a prefill shows, and their checks: improbable endings, repeated completions, tokens that are
too rare, and -log p that is on the whole too high or too low. All that is random here is judged by `verify.chance`
or by an exponential supermartingale of its own, so that an honest worker fails with a probability that can be written
down. None of them looks at noise: where a seed forces each token, `verify.computation` says far more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from math import exp, log, sqrt

import numpy as np

from rl.rollouts import Rollout
from verify import chance
from verify.policy import RARE, Prefilled
from verify.rejection import Rejection

DRIFT = 0.01
"""Nats by which one token's -log p may on average differ for the worker's arithmetic alone, with the expected value
held fixed. Honest bf16 against float32: below 0.002 (see `verify.thresholds`)."""


def improbable_endings(
    rollouts: Sequence[Rollout], eos_probs: Sequence[Sequence[float]], bound: float
) -> tuple[int, float]:
    """How many completions took an EOS less likely than `bound`, and how many were due to.

    Args:
        eos_probs: per completion, the probability of EOS at each of its tokens.
    """
    seen, expected = 0, 0.0
    for rollout, probs in zip(rollouts, eos_probs, strict=True):
        values = np.asarray(probs, dtype=np.float64)
        seen += int(rollout.finish_reason == "eos" and values[-1] < bound)
        expected += float(values[values < bound].sum())
    return seen, expected


def check_termination(seen: int, expected: float, bound: float) -> Rejection | None:
    """Improbable endings are no more than honest sampling explains; a single one never is a reason."""
    if chance.is_luck(seen, expected):
        return None
    detail = f"{seen} endings with P(EOS) below {bound:g} where {expected:.3g} were due"
    return Rejection(code="termination", detail=detail)


def repetitions(rollouts: Sequence[Rollout], logprobs: Sequence[Sequence[float]]) -> tuple[int, float]:
    """How many completions equal an earlier one of their group, and how many were due to.

    Args:
        logprobs: per completion, natural log-probability of each token under the validator's own prefill.
    """
    seen, expected = 0, 0.0
    pairs = zip(rollouts, logprobs, strict=True)
    for _, members in groupby(pairs, key=lambda pair: pair[0].group):
        earlier: dict[tuple[int, ...], float] = {}
        for rollout, tokens in members:
            expected += min(1.0, sum(earlier.values()))
            seen += int(rollout.completion_ids in earlier)
            earlier[rollout.completion_ids] = exp(min(0.0, float(np.sum(tokens, dtype=np.float64))))
    return seen, expected


def check_repetitions(seen: int, expected: float) -> Rejection | None:
    """Completions repeat each other no more than independent samples would."""
    if chance.is_luck(seen, expected):
        return None
    return Rejection(code="duplicates", detail=f"{seen} repeated completions where {expected:.3g} were due")


@dataclass(frozen=True, slots=True, kw_only=True)
class Surprise:
    """How -log p of all tokens compares with what it was to be. Field names are facts' names."""

    surprise_z: float
    """Sum of (-log p - H) over the root of the summed variances; about standard normal for many honest tokens."""
    surprise_log: float
    """Log of a bet against honest sampling that pays 1 on average; see `surprise`."""
    rare_tokens: int
    rare_tokens_due: float


def surprise(prefilled: Sequence[Prefilled]) -> Surprise:
    """Of all tokens of an unseeded submission.

    z is not normal where few tokens carry all the variance, as in short answers of a confident policy: one honest
    token of p = 1e-4 can make it 90. So it is reported, and its exact form decides. For x = -log p and either sign,
    exp(x / 2 - up) and exp(-x / 2 - down) have mean 1 under honest sampling, token by token; so has the product over
    all tokens, and the average of both products exceeds 1 / a with probability at most a (Markov).
    """
    spreads = [p.spread for p in prefilled if p.spread is not None]
    x = -np.concatenate([p.logprobs for p in prefilled]).astype(np.float64)
    mean, variance, rare, up, down = (
        np.concatenate([getattr(s, name) for s in spreads]).astype(np.float64)
        for name in ("entropies", "variances", "rare", "up", "down")
    )
    slack = DRIFT / 2 * len(x)
    bets = (float((x / 2 - up).sum()) - slack, float((-x / 2 - down).sum()) - slack)
    top = max(bets)
    return Surprise(
        surprise_z=float((x - mean).sum()) / max(sqrt(float(variance.sum())), 1e-6),
        surprise_log=top + log(sum(exp(bet - top) for bet in bets) / 2),
        rare_tokens=int((x > -log(RARE)).sum()),
        rare_tokens_due=float(rare.sum()),
    )


def check_distribution(seen: Surprise) -> Rejection | None:
    """The tokens are neither rarer nor likelier than samples of this policy."""
    if not chance.is_luck(seen.rare_tokens, seen.rare_tokens_due):
        detail = f"{seen.rare_tokens} tokens with p below {RARE:g} where {seen.rare_tokens_due:.3g} were due"
    elif not seen.surprise_log <= -log(chance.FALSE_ALARM):
        detail = f"the tokens' -log p are {seen.surprise_z:+.1f} standard deviations from their mean"
    else:
        return None
    return Rejection(code="distribution", detail=detail)
