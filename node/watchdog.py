"""Sees whether a trainer's step goes on, and says which stage is stuck where it does not.

It reads the ledger by itself: what stands still may be the gathering. It tells each stall once, again when it has
lasted twice as long, and when it is over; it ends nothing (`node.stall` decides, and says what a person can do).
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import trio

from ledger.client import Ledger
from ledger.events import Event, OutcomeReached, SubmissionRecorded
from ledger.types import Kind, Outcome
from node.batches import Batches
from node.chain import follow_events
from node.metrics import MetricsLog
from node.spans import Activity, span
from node.stall import Moves, Stall, judge, usual_of

log = logging.getLogger(__name__)
LOOK_S = 5.0
REMEMBERED_GAPS = 32


class Watchdog:
    """Of one trainer. `phase` is told by who trains, `see` by the ledger, the rest it finds in `batches`."""

    def __init__(
        self, batches: Batches, metrics: MetricsLog, *, pool_id: int, now_s: Callable[[], float] = trio.current_time
    ) -> None:
        self._batches, self._metrics, self._pool_id, self._now_s = batches, metrics, pool_id, now_s
        self._phase: tuple[Activity, int] | None = None
        self._gaps: dict[Activity, deque[float]] = {}
        self._pending: dict[bytes, int] = {}
        self._outcomes = dict.fromkeys(Outcome, 0)
        self._moved_s, self._groups, self._seen_groups = 0.0, 0, 0
        self._told: Stall | None = None

    @contextmanager
    def phase(self, activity: Activity, step: int) -> Iterator[None]:
        """The trainer does this for `step` now."""
        with span(self._metrics, activity, step):
            self._phase = activity, step
            self._pending = {key: at for key, at in self._pending.items() if at >= step}
            self._start_anew()
            # A batch that was full before anybody waited for it tells nothing of how long one takes.
            measured = activity is not Activity.WAITING_FOR_ROLLOUTS or not self._batches.step(step).full
            try:
                yield
                if measured:
                    self._move()
            finally:
                self._phase = None

    def see(self, event: Event) -> None:
        """Take in one event of the ledger."""
        first = self._phase[1] if self._phase else 0
        match event:
            case SubmissionRecorded(pool_id=self._pool_id, step=step) if step >= first:
                self._pending[event.submission_id] = step
            case OutcomeReached(kind=Kind.SUBMISSION, pool_id=self._pool_id):
                if self._pending.pop(event.docket_id, -1) >= first:
                    self._outcomes[event.outcome] += 1

    async def follow(self, ledger: Ledger) -> None:
        """See every event, for ever."""
        async for event in follow_events(ledger, ledger.cursor(Path(":memory:"), "watchdog")):
            self.see(event)

    async def run(self) -> NoReturn:
        """Look now and then, for ever."""
        while True:
            self.look()
            await trio.sleep(LOOK_S)

    def look(self) -> Stall | None:
        """What is stuck now; tells what is new about it."""
        if self._phase is None:
            return None
        activity, step = self._phase
        batch = self._batches.step(step)
        if len(batch.groups) > self._groups:
            self._move()
        moves = Moves(
            phase=activity,
            step=step,
            quiet_s=self._now_s() - self._moved_s,
            pending=len(self._pending),
            accepted=self._outcomes[Outcome.ACCEPTED],
            rejected=self._outcomes[Outcome.REJECTED],
            late=self._outcomes[Outcome.LATE],
            read_groups=batch.seen_groups - self._seen_groups,
        )
        stall = judge(moves, usual_of(self._gaps.get(activity, ())))
        if stall is not None and self._is_news(stall):
            log.warning("%s", stall.told)
            self._metrics.write("stuck", stage=stall.stage, step=step, quiet_s=round(stall.quiet_s, 1), told=stall.told)
            self._told = stall
        return stall

    def _is_news(self, stall: Stall) -> bool:
        told = self._told
        return told is None or told.stage is not stall.stage or stall.quiet_s >= 2 * told.quiet_s

    def _move(self) -> None:
        """Something moved: how long that took is the usual from now on."""
        assert self._phase is not None
        quiet_s = self._now_s() - self._moved_s
        gaps = self._gaps.setdefault(self._phase[0], deque(maxlen=REMEMBERED_GAPS))
        gaps.append(quiet_s)
        if self._told is not None:
            log.info("step %d goes on after %.0f s", self._phase[1], quiet_s)
            self._metrics.write("unstuck", stage=self._told.stage, step=self._phase[1], quiet_s=round(quiet_s, 1))
        self._start_anew()

    def _start_anew(self) -> None:
        batch = self._batches.step(self._phase[1]) if self._phase else None
        self._moved_s, self._told = self._now_s(), None
        self._outcomes = dict.fromkeys(Outcome, 0)
        self._groups, self._seen_groups = (len(batch.groups), batch.seen_groups) if batch else (0, 0)
