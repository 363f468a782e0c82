"""What was measured of a case, as its validator saw it: the first look with the second beside it. It judges nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.verify.collect import WAYS, Way
from benchmarks.verify.generate import rollouts_path
from benchmarks.verify.measure import record_path
from benchmarks.verify.plan import Case
from benchmarks.verify.records import Completion, read_record

SEEDED, UNSEEDED_POOL, FINE = WAYS


def read_case(out: Path, case: Case, way: Way) -> list[Completion]:
    """What was measured of a case, in a seeded pool with the second look if there was one.

    Whoever has its proofs made by the right policy, which it runs in bfloat16, reports that one's numbers too.
    """
    first = _read_pass(out, case, way)
    if way == UNSEEDED_POOL or not record_path(out, case, *FINE).exists():
        return first
    return [replace(a, exact=b) for a, b in zip(first, _read_pass(out, case, FINE), strict=True)]


def _read_pass(out: Path, case: Case, way: Way) -> list[Completion]:
    completions = read_record(rollouts_path(out, case), record_path(out, case, *way))
    if not case.reproved:
        return completions
    return [_reported(one, one.prefilled.logprobs if way != FINE else one.coarse_logprobs) for one in completions]


def _reported(one: Completion, logprobs: np.ndarray | None) -> Completion:
    if logprobs is None:
        raise ValueError("a record in float32 lacks the log-probabilities in bfloat16: delete it, to measure it anew")
    return replace(one, rollout=replace(one.rollout, logprobs=tuple(logprobs.tolist())))
