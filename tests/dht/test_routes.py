"""Which deltas are taken: compared with every way there is, and by hand where it matters."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from dht.routes import MAX_STEPS, STEP_BYTES, Link, cheapest

MIB = 1 << 20


def _link(base: int, result: int, mib: int = 2, name: int = 0) -> Link:
    return Link(base=base, result=result, size_bytes=mib * MIB, content=bytes([base % 256, result % 256, name]))


CHAIN = [_link(version, version + 1) for version in range(20)]


def test_one_step_a_chain_and_a_skip() -> None:
    assert cheapest([4], 5, CHAIN, whole_bytes=270 * MIB) == (CHAIN[4],)
    assert cheapest([2], 5, CHAIN, whole_bytes=270 * MIB) == tuple(CHAIN[2:5])
    skip = _link(2, 5, 4)
    assert cheapest([2], 5, [*CHAIN, skip], whole_bytes=270 * MIB) == (skip,)


def test_what_is_here_takes_nothing_and_the_newest_base_is_taken() -> None:
    assert cheapest([5], 5, CHAIN, whole_bytes=270 * MIB) == ()
    assert cheapest([0, 1, 4], 5, CHAIN, whole_bytes=270 * MIB) == (CHAIN[4],)


def test_all_of_it_where_that_is_cheaper_or_the_chain_too_long_or_broken() -> None:
    assert cheapest([2], 5, CHAIN, whole_bytes=5 * MIB) is None
    assert cheapest([0], MAX_STEPS, CHAIN, whole_bytes=1000 * MIB) is not None
    assert cheapest([0], MAX_STEPS + 1, CHAIN, whole_bytes=1000 * MIB) is None
    assert cheapest([], 5, CHAIN, whole_bytes=270 * MIB) is None
    assert cheapest([2], 5, CHAIN[:4], whole_bytes=270 * MIB) is None
    assert cheapest([7], 5, CHAIN, whole_bytes=270 * MIB) is None


def test_links_that_go_nowhere_or_back_are_no_trap() -> None:
    odd = [_link(3, 3), _link(5, 2), _link(4, 9), *CHAIN]
    assert cheapest([3], 5, odd, whole_bytes=270 * MIB) == tuple(CHAIN[3:5])


def test_two_deltas_of_equal_size_are_no_fault() -> None:
    twins = [_link(4, 5, name=1), _link(4, 5, name=2)]
    assert cheapest([4], 5, twins, whole_bytes=270 * MIB) in ((twins[0],), (twins[1],))


def _ways(at: int, want: int, links: list[Link], steps: int = 0) -> Iterator[tuple[Link, ...]]:
    if at == want:
        yield ()
    elif steps < MAX_STEPS:
        for link in links:
            if link.base == at and link.base < link.result <= want:
                yield from ((link, *rest) for rest in _ways(link.result, want, links, steps + 1))


@pytest.mark.parametrize("seed", range(60))
def test_no_way_is_cheaper(seed: int) -> None:
    rng = random.Random(seed)
    links = [_link(b, r, rng.randint(1, 30), n) for n in range(12) for b, r in [sorted(rng.sample(range(7), 2))]]
    have, whole = rng.sample(range(6), 2), rng.randint(1, 60) * MIB

    def cost(way: tuple[Link, ...]) -> int:
        return sum(link.size_bytes + STEP_BYTES for link in way)

    every = [way for at in have for way in _ways(at, 6, links)]
    found, least = cheapest(have, 6, links, whole_bytes=whole), min(map(cost, every), default=None)
    if least is None or least >= whole + STEP_BYTES:
        assert found is None, f"seed {seed}"
    else:
        assert found is not None, f"seed {seed}"
        assert cost(found) == least, f"seed {seed}"
