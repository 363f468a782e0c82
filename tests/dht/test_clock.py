"""Whose time counts, with clocks that a test turns by hand."""

from __future__ import annotations

import pytest

from dht.clock import (
    ClockSample,
    NetworkClock,
    clock_sample,
    judge_clock,
    median_sample,
    off,
    offset_in_words,
)


def at(offset_s: float, error_s: float = 0.01) -> ClockSample:
    return ClockSample(offset_s=offset_s, error_s=error_s)


def test_an_answer_belongs_to_the_middle_of_its_round_trip() -> None:
    assert clock_sample(sent_unix_s=100.0, theirs_unix_s=703.0, received_unix_s=106.0) == at(600.0, 3.0)
    backwards = clock_sample(sent_unix_s=106.0, theirs_unix_s=703.0, received_unix_s=100.0)
    assert backwards.error_s == 0.0  # our clock was set back meanwhile


@pytest.mark.parametrize(
    ("offsets", "wanted"),
    [([1], 1), ([5, 1, 3600], 5), ([0.1, 3600], 0.1), ([-3600, -0.1], -0.1), ([7, 1, 3, 5], 3), ([-7, -1, -3, -5], -3)],
)
def test_the_median_and_of_two_the_nearer(offsets: list[float], wanted: float) -> None:
    found = median_sample([at(offset) for offset in offsets])
    assert found is not None
    assert found.offset_s == wanted


def test_nobody_asked_has_no_median() -> None:
    assert median_sample([]) is None


@pytest.mark.parametrize(("offset_s", "error_s", "wanted"), [(0.4, 0, False), (-0.6, 0, True), (2, 3, False)])
def test_a_clock_is_off_only_if_that_is_certain(offset_s: float, error_s: float, wanted: bool) -> None:
    assert off(at(offset_s, error_s)) is wanted


@pytest.mark.parametrize(
    ("peers", "chain", "offset_s", "source", "doubted"),
    [
        ([], None, 0, "own", False),
        ([], 3600, 3600, "chain", False),
        ([], 20, 0, "own", False),  # within what a chain's time may be off
        ([0.2, -0.3], 3600, 0, "own", False),  # the chain is the odd one out
        ([2.0], 1, 2.0, "peers", False),
        ([-10.0, -10.2], -9, -10.0, "peers", False),
        ([600.0, 600.1], 601, 600.0, "peers", False),
        ([-3600.0] * 3, -3599, -3600.0, "peers", False),
        ([3600.0], 0, 0, "own", True),  # the peers are the odd ones out
        ([3600.0] * 50, 0, 0, "own", True),  # however many
        ([600.0], None, 600.0, "peers", False),
        ([600.0], -3600, 600.0, "peers", False),  # all three differ: it is the peers' network
    ],
)
def test_two_of_three_clocks_decide(
    peers: list[float], chain: float | None, offset_s: float, source: str, doubted: bool
) -> None:
    verdict = judge_clock([at(p) for p in peers], None if chain is None else at(chain, 0.5))
    assert (verdict.offset_s, verdict.source, verdict.doubted) == (offset_s, source, doubted)
    assert verdict.asked == len(peers)


class Turned:
    """A machine's wall clock, which anybody may set, and its time since boot."""

    def __init__(self) -> None:
        self.wall_s, self.steady_s = 1_000_000.0, 50.0

    def pass_s(self, seconds: float) -> None:
        self.wall_s += seconds
        self.steady_s += seconds

    def clock(self) -> NetworkClock:
        return NetworkClock(wall=lambda: self.wall_s, steady=lambda: self.steady_s)


def test_a_corrected_clock_goes_on_evenly_when_the_machines_is_set() -> None:
    machine = Turned()
    clock = machine.clock()
    assert (clock.now_s(), clock.offset_s, clock.stepped_s) == (1_000_000.0, 0.0, 0.0)
    clock.correct(-600.0)
    machine.pass_s(10)
    assert (clock.now_s(), clock.offset_s, clock.stepped_s) == (999_410.0, -600.0, 0.0)
    machine.wall_s -= 600.0  # somebody puts the machine right
    assert (clock.now_s(), clock.offset_s, clock.stepped_s) == (999_410.0, 0.0, -600.0)
    machine.pass_s(5)
    clock.correct(0.0)
    assert (clock.now_s(), clock.stepped_s) == (999_415.0, 0.0)


@pytest.mark.parametrize(
    ("ahead_s", "words"),
    [
        (0.5, "0.50 s ahead"),
        (-2, "2.00 s behind"),
        (600, "10.0 min ahead"),
        (-3600, "60.0 min behind"),
        (7200, "2.0 h ahead"),
    ],
)
def test_offsets_in_words(ahead_s: float, words: str) -> None:
    assert offset_in_words(ahead_s) == words
