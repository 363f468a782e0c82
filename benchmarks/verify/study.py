"""From what was measured to figures: how honest work fares, and each cheat, check by check. Pure but for reading.

It chooses no bounds: they are `verify.thresholds`' own for each pair of arithmetics.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.verify.collect import FINE as TOLD_FINE
from benchmarks.verify.collect import Way, wanted
from benchmarks.verify.generate import SECOND
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
from benchmarks.verify.plan import Case, plan
from benchmarks.verify.reading import FINE, SEEDED, UNSEEDED_POOL, read_case
from benchmarks.verify.records import Completion
from benchmarks.verify.tails import area_under_curve
from rl.hardware import ComputeType
from verify.thresholds import Thresholds, thresholds_for

DRAWN = 1000
"""Submissions drawn from the completions of a kind."""
SEED = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class HonestKind:
    """Honest work of one policy, setting and pair of arithmetics."""

    policy: str
    """As of `benchmarks.verify.plan.Case`."""
    setting: str
    decode: ComputeType
    prefill: ComputeType
    completions: int
    submissions: int
    rejected: int
    """Of those submissions, which do not overlap."""
    drawn: int
    drawn_rejected: int
    looked_again: float
    """Share of the drawn ones that a first look alone would have rejected."""
    bounds: list[Bound]
    """Of the look that rejects: the second, unless there was none."""
    first_bounds: list[Bound]
    moments: dict[str, tuple[float, float, float]]

    @property
    def chance(self) -> float:
        """That an honest submission is rejected, at most: by the same check in both looks, so by none more likely
        than in either."""
        looks = [
            [sum(one.chance for one in bounds if one.check == check) for check in CHECKS]
            for bounds in (self.first_bounds, self.bounds)
        ]
        return min(1.0, sum(map(min, *looks)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cheat:
    """One cheat against one validator."""

    name: str
    policy: str
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


def _second_look(decode: ComputeType, completions: Sequence[Completion]) -> Thresholds | None:
    """Bounds of the second look; None where it was not taken, as in most of a quick study."""
    return thresholds_for(decode, "float32") if all(one.exact for one in completions) else None


def study(out: Path, *, quick: bool, count: int = DRAWN) -> Study:
    """Read and judge everything. Raises FileNotFoundError if something was not collected."""
    cases = plan(quick=quick)
    generator = np.random.default_rng(SEED)

    def measured(way: Way, *, honest: bool) -> list[Case]:
        return [case for case in cases if case.honest == honest and wanted(case, way, quick=quick)]

    kinds: dict[tuple[str, str, ComputeType, ComputeType], list[Case]] = defaultdict(list)
    for way in (SEEDED, FINE):
        for case in measured(way, honest=True):
            kinds[case.policy, case.setting, case.engine.compute_type, way[0]].append(case)
    honest = [_honest_kind(out, kind, members, count, generator) for kind, members in kinds.items()]
    scores = {}
    for (policy, setting, decode, prefill), members in kinds.items():
        if (decode, prefill) == ("bfloat16", "bfloat16"):
            completions = [one for case in members for one in read_case(out, case, SEEDED)]
            limits = thresholds_for(decode, prefill)
            scores[_honest_name(policy, setting)] = _scores(drawn(completions, count, generator), limits)
            scores[_honest_name(policy, setting, "one ")] = _scores([[one] for one in completions], limits)
    cheats = [_cheat(out, case, SEEDED, scores, count, generator) for case in measured(SEEDED, honest=False)]
    cheats += [_partial(out, case, cases, count, generator) for case in measured(SEEDED, honest=False) if _apart(case)]
    cheats += [
        _cheat(out, case, FINE, scores, count, generator) for case in measured(FINE, honest=False) if _fine(case)
    ]
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
    kind: tuple[str, str, ComputeType, ComputeType],
    members: Sequence[Case],
    count: int,
    generator: np.random.Generator,
) -> HonestKind:
    policy, setting, decode, prefill = kind
    completions = [one for case in members for one in read_case(out, case, (prefill, "seeded"))]
    limits, second = thresholds_for(decode, prefill), _second_look(decode, completions)
    whole, samples = submissions(completions), drawn(completions, count, generator)
    exact = [one.exact for one in completions if second and one.exact]
    exact_samples = [[one.exact for one in some if second and one.exact] for some in samples]
    first_bounds = bounds(completions, samples, limits, exact=False)
    return HonestKind(
        policy=policy,
        setting=setting,
        decode=decode,
        prefill=prefill,
        completions=len(completions),
        submissions=len(whole),
        rejected=sum(bool(findings(one, limits, second=second)) for one in whole),
        drawn=len(samples),
        drawn_rejected=sum(bool(findings(one, limits, second=second)) for one in samples),
        looked_again=float(np.mean([bool(findings(one, limits)) for one in samples])),
        bounds=bounds(exact, exact_samples, second, exact=True) if second else first_bounds,
        first_bounds=first_bounds,
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
    second = _second_look(case.engine.compute_type, completions)
    found = [findings(one, limits, second=second) for one in samples]
    own, single = _scores(samples, limits), _scores([[one] for one in completions], limits)
    if prefill == "bfloat16":
        scores[case.name] = own
        known = scores[_honest_name(case.policy, case.setting)]
        one = scores[_honest_name(case.policy, case.setting, "one ")]
        area = {name: area_under_curve(known[name], own[name]) for name in STATISTICS}
        area_of_one = {name: area_under_curve(one[name], single[name]) for name in STATISTICS}
    else:
        area = area_of_one = {}
    return Cheat(
        name=case.name,
        policy=case.policy,
        setting=case.setting,
        prefill=prefill,
        seeded=True,
        completions=len(completions),
        caught=float(np.mean([bool(names) for names in found])),
        by_check={name: float(np.mean([name in names for names in found])) for name in CHECKS},
        area=area,
        area_of_one=area_of_one,
    )


def _honest_name(policy: str, setting: str, of: str = "") -> str:
    """Of its scores: "honest" is the first policy's, at length."""
    return " ".join(word for word in (policy, "" if setting == "long" else setting, f"{of}honest") if word)


def _fine(case: Case) -> bool:
    """Whether it is told of a validator that looks in float32 at once."""
    return case.name in TOLD_FINE or case.engine.compute_type == "float32"


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
    mixed = [[changed[row % len(changed)], *others] for row, others in enumerate(rest)]
    second = _second_look(case.engine.compute_type, [one for some in mixed for one in some])
    found = [findings(one, limits, second=second) for one in mixed]
    return Cheat(
        name=f"{case.name}, one in {SUBMISSION}",
        policy=case.policy,
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
        policy=case.policy,
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
