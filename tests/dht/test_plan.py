"""Who is asked for what: draws by speed, growing pauses, no second chance for a liar, help for a stalled chunk."""

from __future__ import annotations

import heapq
import random
from collections import Counter

import pytest

from dht.plan import (
    FIRST_PAUSE_S,
    HEDGE_S,
    MAX_FAILURES_IN_A_ROW,
    MAX_IN_FLIGHT,
    PER_PROVIDER,
    ChunkRequest,
    DownloadPlan,
)


def plan_of(chunks: int, *providers: str, seed: int = 0) -> DownloadPlan:
    return DownloadPlan(range(chunks), providers, rng=random.Random(seed))


def test_lowest_chunks_first_and_bounded_in_flight() -> None:
    plan = plan_of(100, "a", "b")
    requests = plan.next(0.0)
    assert [r.index for r in requests] == list(range(2 * PER_PROVIDER))
    assert plan.next(0.0) == []
    assert len(plan_of(100, *map(str, range(50))).next(0.0)) == MAX_IN_FLIGHT


def test_everything_is_delivered_once() -> None:
    plan, seen, now = plan_of(40, "a", "b", "c"), Counter[int](), 0.0
    while not plan.done:
        for request in plan.next(now):
            seen[request.index] += 1
            plan.delivered(request, 1000, now + 0.1)
        now += 0.1
    assert seen == Counter(range(40))
    assert sum(plan.served_bytes.values()) == 40_000
    assert not plan.hopeless


def test_a_fast_provider_is_asked_more_but_a_slow_one_is_not_forgotten() -> None:
    plan, asked = plan_of(2000, "fast", "slow", "idle"), Counter[str]()
    cost_s = {"fast": 0.01, "slow": 0.2, "idle": 0.2}
    arriving: list[tuple[float, int, ChunkRequest]] = []
    now = 0.0
    while not plan.done:
        for request in plan.next(now):
            asked[request.provider] += 1
            heapq.heappush(arriving, (now + cost_s[request.provider], len(arriving) + request.index * 100, request))
        now, _, request = heapq.heappop(arriving)
        plan.delivered(request, 1000, now)
    assert asked["fast"] > 3 * asked["slow"] > 0


def test_a_liar_is_named_and_never_asked_again() -> None:
    plan = plan_of(10, "liar", "honest")
    liar = next(r for r in plan.next(0.0) if r.provider == "liar")
    plan.lied(liar, "wrong bytes")
    plan.add_provider("liar")
    assert plan.offenders == {"liar": "wrong bytes"}
    assert all(r.provider == "honest" for now in range(1, 100) for r in plan.next(float(now)))


def test_failures_pause_longer_and_longer_until_nobody_is_left() -> None:
    plan, now = plan_of(1, "dead"), 0.0
    for failure in range(MAX_FAILURES_IN_A_ROW):
        (request,) = plan.next(now)
        plan.failed(request, "refused", now)
        if not plan.hopeless:
            assert plan.next(now) == []
            assert plan.pause_s(now) == pytest.approx(FIRST_PAUSE_S * 2**failure)
            now += FIRST_PAUSE_S * 2**failure
    assert plan.hopeless
    assert plan.reasons == {"dead": "refused"}
    plan.add_provider("dead")  # the directory still names it: another chance
    assert not plan.hopeless
    assert len(plan.next(now)) == 1


def test_flights_that_fail_together_count_once() -> None:
    plan = plan_of(PER_PROVIDER, "a")
    for request in plan.next(0.0):
        plan.failed(request, "reset", 0.0)
    assert not plan.hopeless
    assert len(plan.next(FIRST_PAUSE_S)) == PER_PROVIDER


def test_a_stalled_chunk_is_asked_of_another() -> None:
    plan = plan_of(1, "a", "b")
    (first,) = plan.next(0.0)
    assert plan.next(HEDGE_S - 0.1) == []
    (second,) = plan.next(HEDGE_S)
    assert {first.provider, second.provider} == {"a", "b"}
    assert plan.next(HEDGE_S + 1) == []
    plan.delivered(second, 10, HEDGE_S + 1)
    assert plan.done
    plan.dropped(first)


def test_not_yet_is_no_fault() -> None:
    plan, now = plan_of(1, "relay"), 0.0
    for _ in range(3 * MAX_FAILURES_IN_A_ROW):
        (request,) = plan.next(now)
        plan.not_yet(request, now)
        assert plan.next(now) == []
        now += plan.pause_s(now)
    assert not plan.hopeless
    assert isinstance(request, ChunkRequest)


def test_no_provider_is_hopeless() -> None:
    assert plan_of(1).hopeless
    assert not plan_of(0).hopeless
