"""From what was measured to figures: how honest work fares, and each cheat, check by check. Pure but for reading.

It chooses no bounds: they are `verify.thresholds`' own for each pair of arithmetics.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.verify.collect import WAYS, Way, wanted
from benchmarks.verify.generate import SECOND, rollouts_path
from benchmarks.verify.honest import Bound, bounds, moments
from benchmarks.verify.judging import (
    CHECKS,
    STATISTICS,
    SUBMISSION,
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

DRAWN = 1000
"""Submissions drawn from the completions of a kind."""
SEED = 0
SEEDED, UNSEEDED_POOL, FINE = WAYS


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """All figures, and the statistics that plots show."""

    honest: list[HonestKind]
    unseeded_honest: tuple[int, int]
    """Drawn submissions of honest work in an unseeded pool, and how many of them are rejected; (0, 0) if quick."""
    cheats: list[Cheat]
    copies: dict[str, float]
    """Replays → share of submissions that the check against copies rejects."""
    scores: dict[str, dict[str, np.ndarray]]
    """Case → statistic → value of each drawn submission; honest work is "honest" and "demo honest"."""


def read_case(out: Path, case: Case, way: Way) -> list[Completion]:
    """What was measured of a case; whoever has its proofs made by the right policy reports that one's numbers too."""
    completions = read_record(rollouts_path(out, case), record_path(out, case, *way))
    if not case.reproved:
        return completions
    return [
        replace(one, rollout=replace(one.rollout, logprobs=tuple(one.prefilled.logprobs.tolist())))
        for one in completions
    ]


def study(out: Path, *, quick: bool, count: int = DRAWN) -> Study:
    """Read and judge everything. Raises FileNotFoundError if something was not collected."""
    cases = plan(quick=quick)
    generator = np.random.default_rng(SEED)

    def measured(way: Way, *, honest: bool) -> list[Case]:
        return [case for case in cases if case.honest == honest and wanted(case, way, quick=quick)]

    kinds: dict[tuple[str, ComputeType, ComputeType], list[Case]] = defaultdict(list)
    for way in (SEEDED, FINE):
        for case in measured(way, honest=True):
            kinds[case.setting, case.engine.compute_type, way[0]].append(case)
    honest = [_honest_kind(out, kind, members, count, generator) for kind, members in kinds.items()]
    scores = {}
    for setting, name in (("long", "honest"), ("demo", "demo honest")):
        members = [
            case
            for case in measured(SEEDED, honest=True)
            if case.setting == setting and case.engine.compute_type == "bfloat16"
        ]
        completions = [one for case in members for one in read_case(out, case, SEEDED)]
        limits = thresholds_for("bfloat16", "bfloat16")
        scores[name] = _scores(drawn(completions, count, generator), limits)
        scores[f"one, {setting}"] = _scores([[one] for one in completions], limits)
    cheats = [_cheat(out, case, SEEDED, scores, count, generator) for case in measured(SEEDED, honest=False)]
    cheats += [_partial(out, case, cases, count, generator) for case in measured(SEEDED, honest=False) if _apart(case)]
    cheats += [_cheat(out, case, FINE, scores, count, generator) for case in measured(FINE, honest=False)]
    cheats += [_unseeded(out, case, count, generator) for case in measured(UNSEEDED_POOL, honest=False)]
    return Study(
        honest=honest,
        unseeded_honest=_unseeded_honest(out, measured(UNSEEDED_POOL, honest=True), count, generator),
        cheats=cheats,
        copies=_copies(out, cases),
        scores=scores,
    )


def _honest_kind(
    out: Path,
    kind: tuple[str, ComputeType, ComputeType],
    members: Sequence[Case],
    count: int,
    generator: np.random.Generator,
) -> HonestKind:
    setting, decode, prefill = kind
    completions = [one for case in members for one in read_case(out, case, (prefill, "seeded"))]
    limits = thresholds_for(decode, prefill)
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


def _unseeded_honest(out: Path, members: Sequence[Case], count: int, generator: np.random.Generator) -> tuple[int, int]:
    if not members:
        return 0, 0
    completions = [one for case in members for one in read_case(out, case, UNSEEDED_POOL)]
    limits = thresholds_for("bfloat16", "bfloat16")
    samples = drawn(completions, count, generator)
    return count, sum(bool(findings(one, limits, seeded=False)) for one in samples)


def _scores(samples: Sequence[Sequence[Completion]], limits: Thresholds) -> dict[str, np.ndarray]:
    found = [statistics(one, limits) for one in samples]
    return {name: np.array([one[name] for one in found]) for name in STATISTICS}


def _cheat(
    out: Path,
    case: Case,
    way: Way,
    scores: dict[str, dict[str, np.ndarray]],
    count: int,
    generator: np.random.Generator,
) -> Cheat:
    completions, prefill = read_case(out, case, way), way[0]
    limits = thresholds_for(case.engine.compute_type, prefill)
    samples = drawn(completions, count, generator)
    if case.trick == "best of 2":  # where both tries were worth the same, nothing was done
        samples = [some for some in samples if any(map(_second, some))]
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
    )


def _apart(case: Case) -> bool:
    """Whether a cheat changes completions one by one, and may so change few."""
    return case.alteration in ("early stop", "edited token") or case.trick == "best of 2"


def _second(one: Completion) -> bool:
    return one.rollout.problem_id.endswith(SECOND)


def _partial(out: Path, case: Case, cases: Sequence[Case], count: int, generator: np.random.Generator) -> Cheat:
    """Submissions with one changed completion among 15 honest ones of the same engine and setting."""
    changed = [one for one in read_case(out, case, SEEDED) if not case.trick or _second(one)]
    source = next(one for one in cases if one.honest and one.setting == case.setting and one.engine == case.engine)
    rest = drawn(read_case(out, source, SEEDED), count, generator, size=SUBMISSION - 1)
    limits = thresholds_for(case.engine.compute_type, "bfloat16")
    found = [findings([changed[row % len(changed)], *others], limits) for row, others in enumerate(rest)]
    return Cheat(
        name=f"{case.name}, one in {SUBMISSION}",
        setting=case.setting,
        prefill="bfloat16",
        seeded=True,
        completions=len(changed),
        caught=float(np.mean([bool(names) for names in found])),
        by_check={name: float(np.mean([name in names for names in found])) for name in CHECKS},
        area={},
        area_of_one={},
    )


def _unseeded(out: Path, case: Case, count: int, generator: np.random.Generator) -> Cheat:
    completions = read_case(out, case, UNSEEDED_POOL)
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
    )


def _copies(out: Path, cases: Sequence[Case]) -> dict[str, float]:
    """Each replay against its source."""
    found = {}
    for case in cases:
        if case.alteration == "replay":
            source = next(one for one in cases if one.name == case.source)
            own, before = (submissions(read_case(out, one, SEEDED)) for one in (case, source))
            pairs = zip(own, before[: len(own)], strict=True)
            found[case.name] = float(np.mean([copied(*pair) for pair in pairs]))
    return found
