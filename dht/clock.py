"""Decides what time the network has: how far this machine's clock is off it, and whom to believe about that.

Pure but for the two clocks that `NetworkClock` is handed. The directory judges every expiry by this time and not by
the machine's, for hivemind refuses peers beyond ±3 s and a record outlives its writer by a minute only. It refuses to
follow peers whose time both the chain and this machine's own clock contradict, and sets no clock of the machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

AGREE_S = 0.5
"""Clocks this close are left alone: hivemind bears 3 s, a loaded machine answers a ping some tenths late."""
CHAIN_TOLERANCE_S = 60.0
"""How far a chain's time may honestly be off: blocks are seconds apart, and the pending one's time is a guess."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockSample:
    """Another clock minus this machine's, in seconds, known to ± `error_s`."""

    offset_s: float
    error_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockVerdict:
    """The network's time minus this machine's, who says so, and what was asked.

    `doubted`: what peers (or, without any, the chain) say was not followed, because the others contradict it.
    """

    offset_s: float
    source: Literal["own", "peers", "chain"]
    peers: ClockSample | None
    asked: int
    chain: ClockSample | None
    doubted: bool = False


def clock_sample(*, sent_unix_s: float, theirs_unix_s: float, received_unix_s: float) -> ClockSample:
    """What one answer says, as in NTP: the other's time belongs to the middle of the round trip, ± half of it."""
    middle = (sent_unix_s + received_unix_s) / 2
    return ClockSample(offset_s=theirs_unix_s - middle, error_s=max(0.0, received_unix_s - sent_unix_s) / 2)


def median_sample(samples: Sequence[ClockSample]) -> ClockSample | None:
    """The one in the middle; of two there, the one nearer to our own clock, so that one liar of two moves nobody."""
    if not samples:
        return None
    ranked = sorted(samples, key=lambda sample: sample.offset_s)
    middle = ranked[(len(ranked) - 1) // 2 : len(ranked) // 2 + 1]
    return min(middle, key=lambda sample: abs(sample.offset_s))


def off(sample: ClockSample, tolerance_s: float = AGREE_S) -> bool:
    """Whether the other clock certainly differs by more than the tolerance."""
    return abs(sample.offset_s) > max(tolerance_s, sample.error_s)


def judge_clock(samples: Sequence[ClockSample], chain: ClockSample | None) -> ClockVerdict:
    """Two of three decide: own clock, peers' median, chain. Where all three differ, the peers: it is their network.

    Without peers the chain moves us only beyond its own tolerance.
    """
    peers = median_sample(samples)
    offset_s, doubted = 0.0, False
    source: Literal["own", "peers", "chain"] = "own"
    if peers is None:
        if chain is not None and off(chain, CHAIN_TOLERANCE_S):
            offset_s, source = chain.offset_s, "chain"
    elif off(peers):
        chain_backs_us = chain is not None and not off(chain, CHAIN_TOLERANCE_S)
        if chain_backs_us and off(peers, 2 * CHAIN_TOLERANCE_S):
            doubted = True
        else:
            offset_s, source = peers.offset_s, "peers"
    return ClockVerdict(offset_s=offset_s, source=source, peers=peers, asked=len(samples), chain=chain, doubted=doubted)


def offset_in_words(ahead_s: float) -> str:
    """How a person is told of a clock that is `ahead_s` seconds ahead of another."""
    size_s = abs(ahead_s)
    unit_s, unit = next(((u, n) for u, n in ((3600, "h"), (60, "min")) if size_s >= 2 * u), (1, "s"))
    return f"{size_s / unit_s:.{1 if unit_s > 1 else 2}f} {unit} {'ahead' if ahead_s >= 0 else 'behind'}"


def _since_boot_s() -> float:
    """Seconds since boot, sleep included: nobody can set this clock."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class NetworkClock:
    """The network's time in unix seconds. It goes on evenly when somebody sets the machine's clock meanwhile."""

    def __init__(self, *, wall: Callable[[], float] | None = None, steady: Callable[[], float] = _since_boot_s) -> None:
        # Looked up at each call: a test's shim may replace time.time after this module was loaded.
        self._wall = wall or (lambda: time.time())
        self._steady = steady
        self.correct(0.0)

    def now_s(self) -> float:
        """The network's time."""
        return self._network_s + (self._steady() - self._steady_s)

    def wall_s(self) -> float:
        """The machine's own time."""
        return self._wall()

    @property
    def offset_s(self) -> float:
        """The network's time minus the machine's, as it is now."""
        return self.now_s() - self._wall()

    @property
    def stepped_s(self) -> float:
        """By how much somebody set the machine's clock since the last `correct`."""
        return self._corrected_s - self.offset_s

    def correct(self, offset_s: float) -> None:
        """From now on the network's time is the machine's plus `offset_s`."""
        self._steady_s, self._network_s, self._corrected_s = self._steady(), self._wall() + offset_s, offset_s
