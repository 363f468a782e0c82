"""Accepted submissions become the batches of steps, in the ledger's order and in no other.

Two trainers that read the same ledger and the same files fill the same batches: that is what lets one of them finish
what the other began. It believes outcomes on the ledger and nothing else, and reads no file that was not accepted. What
an accepted file holds is looked at once more (`rl.vetting`); no fault of one stops the others, and each is counted.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import trio

from dht.plan import ContentUnavailable
from ledger.client import Ledger
from ledger.events import CaseClosed, Event, OutcomeReached
from ledger.types import CaseState, Kind, Outcome, Submission
from node.chain import follow_events, on_chain
from node.config import RunConfig
from node.dhtd_link import NetworkDown
from node.handover import relay_urls
from node.metrics import MetricsLog
from node.network import Network
from rl.batch import StepBatch
from rl.rollouts import Rollout, RolloutFileInvalid, read_rollouts
from rl.signal import Signal
from rl.vetting import ANYTHING, FAULTS, Bounds

log = logging.getLogger(__name__)
FETCH_TIMEOUT_S = 120.0
REMEMBERED_STEPS = 3
"""Steps below the newest policy whose accepted submissions are remembered, to train them again from an older state."""


def accepted_by(event: Event) -> bytes | None:
    """The submission (or docket) that this event makes accepted: by its verdict, or by an appeal later."""
    match event:
        case OutcomeReached(kind=Kind.SUBMISSION, outcome=Outcome.ACCEPTED):
            return event.docket_id
        case CaseClosed(state=CaseState.OVERTURNED):
            return event.docket_id
    return None


def bounds_of(config: RunConfig, vocabulary: int) -> Bounds:
    """What the run's settings allow a group; `vocabulary` is the model's."""
    return Bounds(
        asynchrony=config.rl.asynchrony,
        group_size=config.rl.group_size,
        vocabulary=vocabulary,
        max_tokens=config.model.max_model_len,
        max_new_tokens=config.task.max_new_tokens,
    )


class Batches:
    """The batches of the steps that are still to be trained, filled from accepted submissions."""

    def __init__(self, *, first_step: int, wanted: int, bounds: Bounds = ANYTHING, online_filter: bool = True) -> None:
        self._wanted, self._bounds, self._online_filter = wanted, bounds, online_filter
        self._steps: dict[int, StepBatch] = {}
        self._accepted: dict[int, dict[bytes, None]] = {}
        self._changed = trio.Event()
        self.open_step = first_step
        """The smallest step that is still short of rollouts."""

    def remember(self, step: int, submission_id: bytes) -> None:
        """Note an accepted submission, trained step or not."""
        self._accepted.setdefault(step, {})[submission_id] = None

    def accepted(self, step: int) -> tuple[bytes, ...]:
        """The accepted submissions of a step as far as they are remembered, in the ledger's order."""
        return tuple(self._accepted.get(step, ()))

    def step(self, number: int) -> StepBatch:
        return self._steps.setdefault(number, self.empty(number))

    def empty(self, number: int) -> StepBatch:
        """A batch of its own for a step, to be filled again."""
        return StepBatch(step=number, wanted=self._wanted, bounds=self._bounds, online_filter=self._online_filter)

    def advance(self) -> None:
        """Look again which step is the open one, and wake who waits."""
        while self.step(self.open_step).full:
            self.open_step += 1
        self._changed.set()
        self._changed = trio.Event()

    def trained(self, version: int) -> None:
        """Policy `version` exists: forget the batches of the steps below, and long before, that there were any."""
        self._steps = {number: batch for number, batch in self._steps.items() if number >= version}
        self._accepted = {n: ids for n, ids in self._accepted.items() if n >= version - REMEMBERED_STEPS}
        self.open_step = max(self.open_step, version)
        self.advance()

    async def wait_full(self, number: int) -> StepBatch:
        while not self.step(number).full:
            await self._changed.wait()
        return self._steps[number]

    async def wait_opened(self, after: int) -> int:
        """The open step, once it is a later one than `after`."""
        while self.open_step <= after:
            await self._changed.wait()
        return self.open_step


class Gathering:
    """Follows the ledger and fetches what `Batches` need."""

    def __init__(
        self, config: RunConfig, ledger: Ledger, network: Network, batches: Batches, metrics: MetricsLog
    ) -> None:
        self._config, self._ledger, self._network, self._batches = config, ledger, network, batches
        self._metrics, self._signal = metrics, Signal()

    async def run(self) -> None:
        """Every accepted submission into its step's batch, from the ledger's beginning, for ever."""
        batches, pool_id = self._batches, self._config.ledger.pool_id
        cursor = self._ledger.cursor(Path(":memory:"), "trainer")
        async for event in follow_events(self._ledger, cursor):
            submission_id = accepted_by(event)
            if submission_id is None or event.pool_id != pool_id:
                continue
            submission = await on_chain(self._ledger.submission, submission_id)
            if submission is None:  # an accusation or an appeal
                continue
            batches.remember(submission.step, submission_id)
            # Steps below the policy's version are trained; a batch that is full takes no more.
            if submission.step < batches.open_step:
                continue
            rollouts = await self._read(submission)
            if submission.step < batches.open_step:
                continue
            self._take(submission, rollouts)
            batches.advance()

    def _take(self, submission: Submission, rollouts: tuple[Rollout, ...] | str) -> None:
        """One more submission of a step that is short of groups, or the fault for which it has no rollouts."""
        batch = self._batches.step(submission.step)
        if isinstance(rollouts, str):
            batch.refuse(submission.submission_id, rollouts)
            found, dropped = [], Counter([rollouts])
        else:
            vetted = batch.add(submission.submission_id, rollouts, counter=submission.counter)
            found, dropped = [[row.reward for row in members] for members in vetted.groups], vetted.dropped
        log.info("step %d has %d of %d groups", batch.step, len(batch.groups), batch.wanted)
        if dropped:
            told = ", ".join(f"{count} {fault} ({FAULTS[fault]})" for fault, count in sorted(dropped.items()))
            log.error("accepted work of %s for step %d is left out: %s", submission.node, submission.step, told)
            self._metrics.write(
                "dropped", step=submission.step, node=submission.node, counter=submission.counter, faults=dict(dropped)
            )
        hint = self._signal.see(found, dropped)
        if hint is not None:
            log.warning("step %d does not fill: %s", batch.step, hint.text)
            self._metrics.write("no-signal", step=batch.step, **asdict(hint))

    async def again(self, step: int, submissions: Sequence[bytes] | None) -> StepBatch | None:
        """The batch of a step that was trained before: of these submissions, or of the first that the ledger accepted.

        None where it cannot be filled any more.
        """
        batch = self._batches.empty(step)
        for submission_id in self._batches.accepted(step) if submissions is None else submissions:
            submission = await on_chain(self._ledger.submission, submission_id)
            if submission is None or submission.step != step:
                return None
            rollouts = await self._read(submission)
            if not isinstance(rollouts, str):
                batch.add(submission_id, rollouts, counter=submission.counter)
            elif submissions is not None:
                return None
            if batch.full:
                return batch
        return None

    async def _read(self, submission: Submission) -> tuple[Rollout, ...] | str:
        """The file's rollouts, or the fault for which there are none."""
        rows = self._config.rl.groups_per_submission * self._config.rl.group_size
        try:
            path = await self._network.content.fetch_blob(
                submission.file_hash,
                max_bytes=self._config.relay.max_submission_bytes,
                timeout_s=FETCH_TIMEOUT_S,
                urls=await relay_urls(self._ledger, self._network, self._config.ledger.pool_id),
            )
            return await trio.to_thread.run_sync(lambda: read_rollouts(path, max_rows=rows))
        except (ContentUnavailable, NetworkDown, RolloutFileInvalid) as fault:
            log.error("an accepted submission of step %d cannot be used: %s", submission.step, fault)
            return "unreadable" if isinstance(fault, RolloutFileInvalid) else "not-served"
