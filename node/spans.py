"""What a node spent its time on, and what it waited for: lines of kind `span` in its metrics.

Decides only that looks which find the same reason to wait are one wait. A span is written when it ends, however it
ends; who waited for whom follows from the spans of all nodes together (`node.timeline`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum

from node.metrics import MetricsLog


class Activity(StrEnum):
    """What a span of time was spent on."""

    GENERATING = "generating"
    SWAPPING = "taking up a policy"
    UPLOADING = "uploading"
    CHECKING = "checking"
    FETCHING = "fetching"
    TRAINING = "training"
    PUBLISHING = "publishing"
    WAITING_FOR_POLICY = "waiting for a policy"
    WAITING_FOR_VERDICTS = "waiting for verdicts"
    WAITING_FOR_ROLLOUTS = "waiting for rollouts"
    IDLE = "idle"


SHORTEST_S = 0.05
"""Shorter waits are left out: a look at the ledger takes as long."""


@contextmanager
def span(metrics: MetricsLog, activity: Activity, step: int | None = None) -> Iterator[None]:
    """The block was spent on this, for `step` if on one."""
    began_s = metrics.now_s()
    try:
        yield
    finally:
        _write(metrics, activity, step, began_s)


class Waits:
    """What one loop waits for, look by look."""

    def __init__(self, metrics: MetricsLog) -> None:
        self._metrics = metrics
        self._now: tuple[Activity, int | None] | None = None
        self._began_s = 0.0

    def on(self, activity: Activity, step: int | None = None) -> None:
        """There is nothing to do but to wait for this; said again, it goes on."""
        if self._now != (activity, step):
            self.over()
            self._now, self._began_s = (activity, step), self._metrics.now_s()

    def over(self) -> None:
        """There is something to do."""
        if self._now is not None and self._metrics.now_s() - self._began_s >= SHORTEST_S:
            _write(self._metrics, *self._now, self._began_s)
        self._now = None

    @contextmanager
    def kept(self) -> Iterator[None]:
        """A wait that the block's end finds is over then."""
        try:
            yield
        finally:
            self.over()


def _write(metrics: MetricsLog, activity: Activity, step: int | None, began_s: float) -> None:
    # The network's time may be put right meanwhile.
    metrics.write("span", activity=activity, step=step, seconds=round(max(0.0, metrics.now_s() - began_s), 3))
