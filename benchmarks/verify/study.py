"""From what was measured to figures: how honest work fares, and each cheat, check by check. Pure but for reading.

It chooses no bounds: they are `verify.thresholds`' own for each pair of arithmetics.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.verify.collect import FINE, MEASURED_UNSEEDED
from benchmarks.verify.generate import rollouts_path
from benchmarks.verify.honest import Bound, bounds, moments
from benchmarks.verify.judging import (
    CHECKS,
    STATISTICS,
    UNSEEDED,
    copied,
    drawn,
    findings,
    statistics,
    submissions,
)
from benchmarks.verify.measure import record_path
from benchmarks.verify.plan import Case, plan
from benchmarks.verify.records import Completion, read_record
from benchmarks.verify.tails import area_under_curve
from rl.hardware import ComputeType
from verify.thresholds import Thresholds, thresholds_for

DRAWN = 500
"""Submissions drawn from the completions of a kind."""
SEED = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class HonestKind:
    """Honest work of one setting and pair of arithmetics."""

    setting: str
    decode: ComputeType
    prefill: ComputeType
    completions: int
    submissions: int
    rejected: int
    """Of those submissions, which do not overlap."""
    drawn: int
    drawn_rejected: int
    bounds: list[Bound]
    moments: dict[str, tuple[float, float, float]]

    @property
    def chance(self) -> float:
        """That an honest submission is rejected, at most."""
        return min(1.0, sum(bound.chance for bound in self.bounds))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cheat:
    """One cheat against one validator."""

    name: str
    setting: str
    prefill: ComputeType
    seeded: bool
    completions: int
    caught: float
    """Share of the drawn submissions of 16 that some check rejects."""
    by_check: dict[str, float]
    area: dict[str, float]
    """Area under the ROC curve of each statistic, submissions against honest ones; empty in an unseeded pool."""
    area_of_one: dict[str, float]
    """The same for single completions."""
    misses: int
    """Of `DRAWN`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """All figures, and the statistics that plots show."""

    honest: list[HonestKind]
    unseeded_honest: tuple[int, int]
    """Drawn submissions of honest work in an unseeded pool, and how many of them are rejected."""
    cheats: list[Cheat]
    copies: dict[str, float]
    """Share of submissions that the check against copies rejects, if replayed and if honest."""
    scores: dict[str, dict[str, np.ndarray]]
    """Case → statistic → value of each drawn submission; honest work is "honest" and "demo honest"."""


def read_case(out: Path, case: Case, prefill: ComputeType = "bfloat16", kind: str = "seeded") -> list[Completion]:
    """What was measured of a case."""
    return read_record(rollouts_path(out, case), record_path(out, case, prefill, kind))


def study(out: Path, *, quick: bool, count: int = DRAWN) -> Study:
    """Read and judge everything. Raises FileNotFoundError if something was not collected."""
    cases = plan(quick=quick)
    generator = np.random.default_rng(SEED)
    honest, scores = [], {}
    for (setting, decode, prefill), members in sorted(_honest(cases).items()):
        completions = [one for case in members for one in read_case(out, case, prefill)]
        limits = thresholds_for(decode, prefill)
        honest.append(_honest_kind(setting, decode, prefill, completions, limits, count, generator))
    for setting in ("long", "demo"):
        completions = [one for case in cases if case.honest and case.setting == setting for one in read_case(out, case)]
        scores["honest" if setting == "long" else "demo honest"] = _scores(
            drawn(completions, count, generator), thresholds_for("auto", "bfloat16")
        )
        scores[f"one, {setting}"] = _scores([[one] for one in completions], thresholds_for("auto", "bfloat16"))
    cheats = []
    for case in (case for case in cases if not case.honest):
        for prefill in ("bfloat16", "float32") if case.name in FINE else ("bfloat16",):
            cheats.append(_cheat(out, case, prefill, scores, count, generator))
        if case.name in MEASURED_UNSEEDED:
            cheats.append(_unseeded(out, case, count, generator))
    plain = [case for case in cases if case.honest and case.name in MEASURED_UNSEEDED]
    unseeded = [one for case in plain for one in read_case(out, case, kind="unseeded")]
    samples = drawn(unseeded, count, generator)
    limits = thresholds_for("bfloat16", "bfloat16")
    rejected = sum(bool(findings(one, limits, seeded=False)) for one in samples)
    return Study(
        honest=honest,
        unseeded_honest=(count, rejected),
        cheats=cheats,
        copies=_copies(out, cases),
        scores=scores,
    )


def _honest(cases: Sequence[Case]) -> dict[tuple[str, ComputeType, ComputeType], list[Case]]:
    kinds = defaultdict(list)
    for case in cases:
        if case.honest:
            for prefill in ("bfloat16", "float32"):
                kinds[case.setting, case.engine.compute_type, prefill].append(case)
    return kinds  # type: ignore[return-value]


def _honest_kind(
    setting: str,
    decode: ComputeType,
    prefill: ComputeType,
    completions: list[Completion],
    limits: Thresholds,
    count: int,
    generator: np.random.Generator,
) -> HonestKind:
    whole, samples = submissions(completions), drawn(completions, count, generator)
    return HonestKind(
        setting=setting,
        decode=decode,
        prefill=prefill,
        completions=len(completions),
        submissions=len(whole),
        rejected=sum(bool(findings(one, limits)) for one in whole),
        drawn=len(samples),
        drawn_rejected=sum(bool(findings(one, limits)) for one in samples),
        bounds=bounds(completions, samples, limits),
        moments=dict(moments(completions)),
    )


def _scores(samples: Sequence[Sequence[Completion]], limits: Thresholds) -> dict[str, np.ndarray]:
    found = [statistics(one, limits) for one in samples]
    return {name: np.array([one[name] for one in found]) for name in STATISTICS}


def _cheat(
    out: Path,
    case: Case,
    prefill: ComputeType,
    scores: dict[str, dict[str, np.ndarray]],
    count: int,
    generator: np.random.Generator,
) -> Cheat:
    completions = read_case(out, case, prefill)
    limits = thresholds_for(case.engine.compute_type, prefill)
    samples = _drawn_with_one(case, completions, count, generator)
    found = [findings(one, limits) for one in samples]
    own, single = _scores(samples, limits), _scores([[one] for one in completions], limits)
    if prefill == "bfloat16":
        scores[case.name] = own
        known = scores["honest" if case.setting == "long" else "demo honest"]
        one = scores[f"one, {case.setting}"]
        area = {name: area_under_curve(known[name], own[name]) for name in STATISTICS}
        area_of_one = {name: area_under_curve(one[name], single[name]) for name in STATISTICS}
    else:
        area = area_of_one = {}
    return Cheat(
        name=case.name,
        setting=case.setting,
        prefill=prefill,
        seeded=True,
        completions=len(completions),
        caught=float(np.mean([bool(names) for names in found])),
        by_check={name: float(np.mean([name in names for names in found])) for name in CHECKS},
        area=area,
        area_of_one=area_of_one,
        misses=sum(not names for names in found),
    )


def _drawn_with_one(
    case: Case, completions: list[Completion], count: int, generator: np.random.Generator
) -> list[list[Completion]]:
    """Of a cheat that alters one completion in 16, each submission has exactly one that is altered."""
    if case.one_in == 1:
        return drawn(completions, count, generator)
    changed, left = completions[:: case.one_in], [c for row, c in enumerate(completions) if row % case.one_in]
    rest = drawn(left, count, generator, size=case.one_in - 1)
    return [[changed[row % len(changed)], *others] for row, others in enumerate(rest)]


def _unseeded(out: Path, case: Case, count: int, generator: np.random.Generator) -> Cheat:
    completions = read_case(out, case, kind="unseeded")
    limits = thresholds_for(case.engine.compute_type, "bfloat16")
    found = [findings(one, limits, seeded=False) for one in drawn(completions, count, generator)]
    return Cheat(
        name=case.name,
        setting=case.setting,
        prefill="bfloat16",
        seeded=False,
        completions=len(completions),
        caught=float(np.mean([bool(names) for names in found])),
        by_check={name: float(np.mean([name in names for names in found])) for name in UNSEEDED},
        area={},
        area_of_one={},
        misses=sum(not names for names in found),
    )


def _copies(out: Path, cases: Sequence[Case]) -> dict[str, float]:
    """A replay against its source, and honest work against other honest work."""
    found = {}
    for case in cases:
        if case.alteration == "replay":
            source = next(one for one in cases if one.name == case.source)
            pairs = zip(submissions(read_case(out, case)), submissions(read_case(out, source)), strict=False)
            found[case.name] = float(np.mean([copied(own, before) for own, before in pairs]))
    return found
