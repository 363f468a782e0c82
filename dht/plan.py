"""Decides which chunk is asked of which provider next, and whom to stop asking. Pure.

Clock and randomness are arguments. Providers are drawn with probability ∝ success rate × bandwidth, both moving
averages that heal with time so that a slow one is explored again. A lie ends a provider for good; silence and absence
cost growing pauses, then the place in the plan.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from dataclasses import dataclass, field

PER_PROVIDER = 4
MAX_IN_FLIGHT = 24
AVERAGE_WEIGHT = 0.3  # of the newest observation in both moving averages
HEALING_S = 30.0
FIRST_PAUSE_S, MAX_FAILURES_IN_A_ROW = 0.25, 5
NOT_YET_PAUSE_S = 0.2
HEDGE_S = 5.0  # a chunk in flight this long may be asked of a second provider


class ContentUnavailable(Exception):
    """Nobody delivered the content; the message gives the reason of each provider.

    Waiting or more providers may help.
    """


def told(content: bytes, reasons: dict[str, str]) -> str:
    """The message of ContentUnavailable."""
    why = "; ".join(f"{url}: {reason}" for url, reason in reasons.items()) or "no provider is known"
    return f"{content.hex()} could not be fetched: {why}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkRequest:
    """Ask `provider` (base URL) for chunk `index`; started at `started_s` on the plan's clock."""

    provider: str
    index: int
    started_s: float


@dataclass(slots=True)
class _Standing:
    success: float = 1.0
    bytes_per_s: float | None = None
    used_s: float = 0.0
    rest_until_s: float = 0.0
    failures: int = 0
    in_flight: int = 0
    served_bytes: int = 0
    out: str = ""
    reasons: list[str] = field(default_factory=list)


class DownloadPlan:
    """State of one download. The owner asks `next`, carries the requests out and reports each exactly once."""

    def __init__(self, missing: Iterable[int], providers: Iterable[str], *, rng: random.Random) -> None:
        self._missing = dict.fromkeys(missing)
        self._in_flight: dict[int, list[ChunkRequest]] = {}
        self._providers: dict[str, _Standing] = {}
        self._rng = rng
        self.offenders: dict[str, str] = {}
        for provider in providers:
            self.add_provider(provider)

    @property
    def done(self) -> bool:
        """Whether every chunk was delivered."""
        return not self._missing

    @property
    def hopeless(self) -> bool:
        """Whether chunks are missing and nobody is left to ask."""
        return not self.done and all(standing.out for standing in self._providers.values())

    @property
    def reasons(self) -> dict[str, str]:
        """Why each provider failed, for the error message."""
        return {url: s.out or "; ".join(s.reasons[-1:]) for url, s in self._providers.items() if s.out or s.reasons}

    @property
    def served_bytes(self) -> dict[str, int]:
        """Verified bytes by provider."""
        return {url: standing.served_bytes for url, standing in self._providers.items()}

    def add_provider(self, provider: str) -> None:
        """Adds one; a provider that fell silent gets another chance, one that lied does not."""
        standing = self._providers.get(provider)
        if standing is None or (standing.out and provider not in self.offenders):
            self._providers[provider] = _Standing()

    def next(self, now_s: float) -> list[ChunkRequest]:
        """Requests to start now, lowest chunk first."""
        requests: list[ChunkRequest] = []
        free = MAX_IN_FLIGHT - sum(map(len, self._in_flight.values()))
        for index in self._missing:
            if free <= len(requests):
                break
            flights = self._in_flight.get(index, [])
            if flights and (len(flights) > 1 or now_s - flights[0].started_s < HEDGE_S):
                continue
            provider = self._draw(now_s, exclude={flight.provider for flight in flights})
            if provider is None:
                if not flights:
                    break  # nobody is free for a chunk that anyone may serve
                continue
            request = ChunkRequest(provider=provider, index=index, started_s=now_s)
            self._providers[provider].in_flight += 1
            self._providers[provider].used_s = now_s
            self._in_flight.setdefault(index, []).append(request)
            requests.append(request)
        return requests

    def pause_s(self, now_s: float) -> float:
        """Seconds until `next` may have something new without any report; at most HEDGE_S."""
        resting = [s.rest_until_s - now_s for s in self._providers.values() if not s.out and s.rest_until_s > now_s]
        hedges = [f[0].started_s + HEDGE_S - now_s for f in self._in_flight.values() if len(f) == 1]
        return max(0.01, min([HEDGE_S, *resting, *(h for h in hedges if h > 0)]))

    def delivered(self, request: ChunkRequest, size_bytes: int, now_s: float) -> None:
        """The chunk arrived, was verified and written."""
        standing = self._finish(request)
        self._missing.pop(request.index, None)
        speed = size_bytes / max(now_s - request.started_s, 1e-6)
        old = standing.bytes_per_s
        standing.bytes_per_s = speed if old is None else old + AVERAGE_WEIGHT * (speed - old)
        standing.success += AVERAGE_WEIGHT * (1.0 - standing.success)
        standing.served_bytes += size_bytes
        standing.failures = 0

    def not_yet(self, request: ChunkRequest, now_s: float) -> None:
        """The provider expects the chunk but does not hold it: no fault, a short pause."""
        self._finish(request).rest_until_s = now_s + NOT_YET_PAUSE_S

    def failed(self, request: ChunkRequest, reason: str, now_s: float) -> None:
        """Transport fault, silence, or absence: a growing pause, out after MAX_FAILURES_IN_A_ROW."""
        standing = self._finish(request)
        standing.success -= AVERAGE_WEIGHT * standing.success
        standing.reasons.append(reason)
        if standing.rest_until_s > now_s:
            return  # a flight that failed together with the one before it
        standing.failures += 1
        standing.rest_until_s = now_s + FIRST_PAUSE_S * 2 ** (standing.failures - 1)
        if standing.failures >= MAX_FAILURES_IN_A_ROW:
            standing.out = reason

    def lied(self, request: ChunkRequest, reason: str) -> None:
        """Bytes that are not the chunk: the provider is never asked again and its name is kept."""
        self._finish(request).out = reason
        self.offenders[request.provider] = reason

    def dropped(self, request: ChunkRequest) -> None:
        """Given up by us (another provider was faster); says nothing about the provider."""
        self._finish(request)

    def _finish(self, request: ChunkRequest) -> _Standing:
        flights = self._in_flight[request.index]
        flights.remove(request)
        if not flights:
            del self._in_flight[request.index]
        standing = self._providers[request.provider]
        standing.in_flight = max(0, standing.in_flight - 1)
        return standing

    def _draw(self, now_s: float, exclude: set[str]) -> str | None:
        free = [
            url for url, s in self._providers.items()
            if not s.out and s.rest_until_s <= now_s and s.in_flight < PER_PROVIDER and url not in exclude
        ]  # fmt: skip
        if not free:
            return None
        best = max((s.bytes_per_s for s in self._providers.values() if s.bytes_per_s is not None), default=1.0)
        return self._rng.choices(free, weights=[self._weight(self._providers[url], best, now_s) for url in free])[0]

    @staticmethod
    def _weight(standing: _Standing, best_bytes_per_s: float, now_s: float) -> float:
        healed = 1.0 - math.exp(-max(0.0, now_s - standing.used_s) / HEALING_S)
        speed = best_bytes_per_s if standing.bytes_per_s is None else standing.bytes_per_s
        speed += (best_bytes_per_s - speed) * healed
        success = standing.success + (1.0 - standing.success) * healed
        return max(success * speed, 1e-9)
