"""How often honest work would be rejected: seen, and by extrapolation beyond what was seen. Pure.

A submission is rejected if any of its blocks, tokens, completions or its own means lies above a bound. For each bound
the tail of the honest values is fitted (`benchmarks.verify.tails`) to how far they lie towards it, and the chances are
added up over all that a submission of 16 completions has: a union bound, which needs no independence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np

from benchmarks.verify.judging import SUBMISSION, distinct
from benchmarks.verify.records import Completion
from benchmarks.verify.tails import fit_tail
from verify import chance
from verify.computation import choices, independent_blocks, logprob_gaps
from verify.thresholds import Gaps, ProofStatistics, Thresholds, proof_statistics


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """One bound and the honest values that have to keep it."""

    name: str
    bound: float
    worst: float
    """Largest honest value."""
    mean: float
    chance: float
    """That one honest submission breaks it."""
    shape: float
    """Of the fitted tail; 0 is exponential."""


def bounds(
    completions: Sequence[Completion], drawn: Sequence[Sequence[Completion]], thresholds: Thresholds
) -> list[Bound]:
    """Every bound of a seeded pool.

    Args:
        completions: honest ones of one kind.
        drawn: submissions drawn from them.
    """
    blocks = [proof_statistics([e], 1) for one in completions for e in one.errors]
    alone = [proof_statistics(one.errors, len(one.errors)) for one in completions]
    whole = [
        proof_statistics([e for one in some for e in one.errors], independent_blocks(distinct(some))) for some in drawn
    ]
    per = len(blocks) / len(completions) * SUBMISSION
    found = []
    for name, value, bound, step in (
        ("block: exponent mismatches", _field("exponent_max"), thresholds.block_exponents, 1.0),
        ("block: mantissa error, mean", _field("mantissa_max"), thresholds.block_mantissa_mean, 0.0),
        ("block: mantissa error, median", _field("median_max"), thresholds.block_mantissa_median, 1.0),
    ):
        found.append(_bound(name, map(value, blocks), bound, per, step))
    for size, several, many in (("completion", alone, SUBMISSION), ("submission", whole, 1)):
        for kind, bound_of in (("exponent", thresholds.exponent_bound), ("mantissa", thresholds.mantissa_bound)):
            value = _field(f"{kind}_mean")
            excess = [
                _beyond(value(s), bound_of(s.independent_blocks, alone=size == "completion"), s.independent_blocks)
                for s in several
            ]
            found.append(_bound(f"{size}: {kind} errors, mean", excess, 0.0, many))
    prefilled = [one.prefilled for one in completions]
    margins = np.concatenate([p.margins for p in prefilled if p.margins is not None])
    margin_gaps = choices(prefilled, thresholds)
    logprobs = logprob_gaps([one.rollout for one in completions], prefilled, thresholds)
    gaps = [
        np.abs(p.logprobs - np.asarray(one.rollout.logprobs)) for p, one in zip(prefilled, completions, strict=True)
    ]
    for kind, limits, values, alone_gaps, of in (
        ("margin", thresholds.margin, margins, margin_gaps.sequences, _margins_of(thresholds)),
        ("log-prob gap", thresholds.logprob, np.concatenate(gaps), logprobs.sequences, _logprobs_of(thresholds)),
    ):
        tokens = len(values) / len(completions) * SUBMISSION
        found.append(_bound(f"token: {kind}", values, limits(alone=True).most, tokens))
        for size, several_gaps, many in (("completion", alone_gaps, SUBMISSION), ("submission", map(of, drawn), 1)):
            limit = limits(alone=size == "completion")
            excess = [_beyond(one.mean, limit.mean_of(one.tokens), one.tokens) for one in several_gaps]
            found.append(_bound(f"{size}: {kind}, mean", excess, 0.0, many))
    share = float((margins > 0).mean())
    shares = [choices([one.prefilled for one in some], thresholds).mismatches / _tokens(some) for some in drawn]
    found.append(
        Bound(
            name="submission: tokens not forced",
            bound=thresholds.mismatch_share,
            worst=max(shares),
            mean=share,
            chance=chance.FALSE_ALARM if share <= thresholds.mismatch_share else 1.0,
            shape=0.0,
        )
    )
    return found


def _bound(name: str, values: Iterable[float], bound: float, many: float, step: float = 0.0) -> Bound:
    seen = np.array(list(values), dtype=np.float64)
    tail = fit_tail(seen, step)
    likely = 1.0 if seen.max() > bound else min(1.0, many * tail.beyond(bound))
    return Bound(
        name=name, bound=bound, worst=float(seen.max()), mean=float(seen.mean()), chance=likely, shape=tail.shape
    )


def _field(name: str) -> Callable[[ProofStatistics], float]:
    return lambda seen: getattr(seen, name)


def _beyond(mean: float, bound: float, count: int) -> float:
    """How far a mean lies above its bound, times the root of how many it is of: that makes few and many comparable."""
    return (mean - bound) * sqrt(count)


def _margins_of(thresholds: Thresholds) -> Callable[[Sequence[Completion]], Gaps]:
    return lambda some: choices([one.prefilled for one in some], thresholds).whole


def _logprobs_of(thresholds: Thresholds) -> Callable[[Sequence[Completion]], Gaps]:
    return lambda some: logprob_gaps([one.rollout for one in some], [one.prefilled for one in some], thresholds).whole


def _tokens(some: Sequence[Completion]) -> int:
    return sum(len(one.prefilled.logprobs) for one in some)


def moments(completions: Sequence[Completion]) -> Mapping[str, tuple[float, float, float]]:
    """Mean, deviation and largest value of what is measured of a block or a token, by name."""
    blocks = [proof_statistics([e], 1) for one in completions for e in one.errors]
    margins = np.concatenate([one.prefilled.margins for one in completions if one.prefilled.margins is not None])
    gaps = np.concatenate([np.abs(one.prefilled.logprobs - np.asarray(one.rollout.logprobs)) for one in completions])
    named = {
        "exponent mismatches": np.array([b.exponent_mean for b in blocks]),
        "mantissa error": np.array([b.mantissa_mean for b in blocks]),
        "margin": margins,
        "token not forced": (margins > 0).astype(np.float64),
        "log-prob gap": gaps,
    }
    return {name: (float(x.mean()), float(x.std()), float(x.max())) for name, x in named.items()}
