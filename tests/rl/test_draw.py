from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rl.draw import draw_problems, draw_seed

RUN = bytes(range(32))
ADDRESS = "0x" + "aB" * 20


def seed(*, run: bytes = RUN, step: int = 3, address: str = ADDRESS, counter: int = 1) -> bytes:
    return draw_seed(run, step, address, counter)


def test_golden_values() -> None:
    """Every implementation must agree for ever: a change here strands all nodes of a running pool."""
    assert seed().hex() == "8b2ab1236020fcff199d45f023c1adaf61834191b510afb31a54574ad20a87d7"
    assert draw_problems(seed(), 8, 81) == (60, 57, 76, 55, 61, 73, 33, 34)


def test_the_spelling_of_an_address_does_not_matter() -> None:
    assert seed(address=ADDRESS.lower()) == seed() == seed(address=ADDRESS.removeprefix("0x"))


def test_run_step_address_and_counter_each_change_the_draw() -> None:
    changed = [seed(), seed(run=b"\1" * 32), seed(step=4), seed(address="0x" + "ac" * 20), seed(counter=2)]
    draws = [draw_problems(s, 8, 10_000) for s in changed]
    assert len(set(changed)) == len(set(draws)) == 5


def test_fields_cannot_be_traded_for_each_other() -> None:
    """A linear seed (step * a + counter * b + address) would let a counter imitate a step."""
    seeds = {seed(step=step, counter=counter) for step in range(40) for counter in range(40)}
    assert len(seeds) == 1600
    shifted = int(ADDRESS, 16) + 1
    assert seed(counter=2) != seed(counter=1, address=f"0x{shifted:040x}")


def test_no_difference_between_draws_repeats() -> None:
    draws = [draw_problems(seed(counter=counter), 4, 2**200) for counter in range(64)]
    steps = {after - before for draw in draws for before, after in pairwise(draw)}
    between = {after[0] - before[0] for before, after in pairwise(draws)}
    assert len(steps) == 64 * 3
    assert len(between) == 63


def test_every_problem_is_drawn_about_equally_often() -> None:
    counts = [0] * 40
    for counter in range(500):
        for index in draw_problems(seed(counter=counter), 4, 40):
            counts[index] += 1
    # Mean 50, standard deviation 6.7: five of them either way.
    assert 16 < min(counts) <= max(counts) < 84


@given(st.binary(min_size=32, max_size=32), st.data())
def test_draws_are_distinct_in_range_and_repeatable(drawn_seed: bytes, data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 60))
    count = data.draw(st.integers(1, size))
    drawn = draw_problems(drawn_seed, count, size)
    assert len(set(drawn)) == len(drawn) == count
    assert all(0 <= index < size for index in drawn)
    assert drawn == draw_problems(drawn_seed, count, size)


@pytest.mark.parametrize(("count", "size"), [(0, 5), (-1, 5), (6, 5), (1, 0)])
def test_impossible_draws_are_refused(count: int, size: int) -> None:
    with pytest.raises(ValueError, match="distinct"):
        draw_problems(b"s" * 32, count, size)


@pytest.mark.parametrize("change", [{"run": b"r" * 31}, {"address": "0x" + "ab" * 19}, {"address": "0xzz"}])
def test_malformed_fields_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"32 bytes|hexadecimal"):
        seed(**change)  # type: ignore[arg-type]


def test_negative_numbers_are_refused() -> None:
    with pytest.raises(OverflowError):
        seed(step=-1)
