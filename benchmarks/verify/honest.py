"""How often honest work would be rejected: seen, and by extrapolation beyond what was seen. Pure.

A look finds something if any of a submission's blocks, tokens, completions or its own means lies above a bound. For
each bound the tail of the honest values is fitted (`benchmarks.verify.tails`) to how far they lie towards it, and the
chances are added up over all that a submission of 16 completions has: a union bound, which needs no independence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np

from benchmarks.verify.judging import SUBMISSION, distinct, noise
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

    @property
    def check(self) -> str:
        """Whose bound it is."""
        marks = {"margin": "sampling", "forced": "sampling", "log-prob": "logprobs"}
        return next((check for mark, check in marks.items() if mark in self.name), "proof-mismatch")


def bounds(
    completions: Sequence[Completion], drawn: Sequence[Sequence[Completion]], thresholds: Thresholds, *, exact: bool
) -> list[Bound]:
    """Every bound of a seeded pool, at the look that rejects.

    Args:
        completions: honest ones of one kind, and their noise if they are passes in float32.
        drawn: submissions drawn from them.
        exact: whether this is the second look, whose bounds are widened by the noise: of each submission its own, of
            blocks, tokens and completions that of all.
    """

    def limits_of(some: Sequence[Completion]) -> Thresholds:
        return thresholds.widened(noise(some)) if exact else thresholds

    each = [limits_of(some) for some in drawn]
    usual = limits_of(completions)
    blocks = [proof_statistics([e], 1) for one in completions for e in one.errors]
    alone = [proof_statistics(one.errors, len(one.errors)) for one in completions]
    whole = [
        proof_statistics([e for one in some for e in one.errors], independent_blocks(distinct(some))) for some in drawn
    ]
    per = len(blocks) / len(completions) * SUBMISSION
    found = []
    for name, value, bound, step in (
        ("block: exponent mismatches", _field("exponent_max"), usual.block_exponents, 1.0),
        ("block: mantissa error, mean", _field("mantissa_max"), usual.block_mantissa_mean, 0.0),
        ("block: mantissa error, median", _field("median_max"), usual.block_mantissa_median, 1.0),
    ):
        found.append(_bound(name, map(value, blocks), bound, per, step))
    for size, several, many, limits in (
        ("completion", alone, SUBMISSION, [usual] * len(alone)),
        ("submission", whole, 1, each),
    ):
        single = size == "completion"
        for kind, bound_of in (("exponent", Thresholds.exponent_bound), ("mantissa", Thresholds.mantissa_bound)):
            value = _field(f"{kind}_mean")
            excess = [
                _beyond(value(s), bound_of(own, s.independent_blocks, alone=single), s.independent_blocks)
                for s, own in zip(several, limits, strict=True)
            ]
            found.append(_bound(f"{size}: {kind} errors, mean", excess, 0.0, many))
    prefilled = [one.prefilled for one in completions]
    margins = np.concatenate([p.margins for p in prefilled if p.margins is not None])
    margin_gaps = choices(prefilled, usual)
    logprobs = logprob_gaps([one.rollout for one in completions], prefilled, usual)
    gaps = [
        np.abs(p.logprobs - np.asarray(one.rollout.logprobs)) for p, one in zip(prefilled, completions, strict=True)
    ]
    for kind, of_kind, values, alone_gaps, of in (
        ("margin", Thresholds.margin, margins, margin_gaps.sequences, _margins_of),
        ("log-prob gap", Thresholds.logprob, np.concatenate(gaps), logprobs.sequences, _logprobs_of),
    ):
        tokens = len(values) / len(completions) * SUBMISSION
        found.append(_bound(f"token: {kind}", values, of_kind(usual, alone=True).most, tokens))
        whole_gaps = [of(some, own) for some, own in zip(drawn, each, strict=True)]
        for size, several_gaps, many, limits in (
            ("completion", alone_gaps, SUBMISSION, [usual] * len(alone_gaps)),
            ("submission", whole_gaps, 1, each),
        ):
            excess = [
                _beyond(one.mean, of_kind(own, alone=size == "completion").mean_of(one.tokens), one.tokens)
                for one, own in zip(several_gaps, limits, strict=True)
            ]
            found.append(_bound(f"{size}: {kind}, mean", excess, 0.0, many))
    share = float((margins > 0).mean())
    shares = [choices([one.prefilled for one in some], usual).mismatches / _tokens(some) for some in drawn]
    found.append(
        Bound(
            name="submission: tokens not forced",
            bound=usual.mismatch_share,
            worst=max(shares),
            mean=share,
            chance=chance.FALSE_ALARM if share <= usual.mismatch_share else 1.0,
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


def _margins_of(some: Sequence[Completion], limits: Thresholds) -> Gaps:
    return choices([one.prefilled for one in some], limits).whole


def _logprobs_of(some: Sequence[Completion], limits: Thresholds) -> Gaps:
    return logprob_gaps([one.rollout for one in some], [one.prefilled for one in some], limits).whole


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
