"""Finished submissions on their way: made, handed over to a relay, recorded on the ledger, judged.

Decides what is still to be done with each file, from the disk alone: a file is in the outbox before anything is sent,
and stays on the disk until its outcome is known. So whoever is killed at any point goes on where they stopped; relay
and ledger take the same file again for what it is. It refuses to send a file whose bytes are no longer those that were
made, and knows neither relay nor ledger: they are functions that it is given.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import trio

from node.state import NodeState

log = logging.getLogger(__name__)
_ONE = "run = ? AND step = ? AND counter = ?"


class Stage(StrEnum):
    """How far a submission has come."""

    MADE = "made"
    HANDED_OVER = "handed over"
    RECORDED = "recorded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One finished submission; `sha256` is its file's."""

    step: int
    counter: int
    path: Path
    sha256: bytes
    stage: Stage


class Outbox:
    """The submissions of one worker that are not yet done with."""

    def __init__(self, state: NodeState, folder: Path) -> None:
        """Files in `folder` that are in no row of this run were never finished, or are another run's: they go."""
        self._db, self._folder, self._run = state.connection, folder, state.run_id
        self._changed = trio.Event()
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._db.execute("DELETE FROM outbox WHERE run != ?", (self._run,))
        for item in self.items():
            if item.stage is not Stage.RECORDED and not _is_whole(item):
                log.error("submission %d of step %d is damaged on this disk and made anew", item.counter, item.step)
                self.done(item)
        kept = {item.path.name for item in self.items()}
        for path in folder.iterdir():
            if path.name not in kept:
                path.unlink()

    def items(self) -> tuple[Item, ...]:
        """Everything, oldest first."""
        query = "SELECT step, counter, file, sha256, stage FROM outbox WHERE run = ? ORDER BY step, counter"
        rows = self._db.execute(query, (self._run,))
        return tuple(
            Item(step=step, counter=counter, path=self._folder / file, sha256=sha256, stage=Stage(stage))
            for step, counter, file, sha256, stage in rows
        )

    def unsent(self) -> tuple[Item, ...]:
        """What is not recorded yet."""
        return tuple(item for item in self.items() if item.stage is not Stage.RECORDED)

    def has(self, step: int, counter: int) -> bool:
        """Whether this submission was made, and its outcome is not known."""
        query = f"SELECT 1 FROM outbox WHERE {_ONE}"
        return self._db.execute(query, (self._run, step, counter)).fetchone() is not None

    def add(self, step: int, counter: int, path: Path) -> Item:
        """Takes in a finished file of the outbox's folder."""
        sha256 = hashlib.sha256(path.read_bytes()).digest()
        row = (self._run, step, counter, path.name, sha256, Stage.MADE)
        self._db.execute("INSERT INTO outbox VALUES (?, ?, ?, ?, ?, ?)", row)
        self._wake()
        return Item(step=step, counter=counter, path=path, sha256=sha256, stage=Stage.MADE)

    def done(self, item: Item) -> None:
        """Forgets a submission and its file."""
        self._db.execute(f"DELETE FROM outbox WHERE {_ONE}", (self._run, item.step, item.counter))
        item.path.unlink(missing_ok=True)
        self._wake()

    async def send(
        self,
        item: Item,
        *,
        hand_over: Callable[[Path], Awaitable[bytes]],
        record: Callable[[Item], Awaitable[bool]],
    ) -> None:
        """See one submission through to the ledger.

        `hand_over` returns the SHA-256 that a relay acknowledged; `record` whether the ledger has the submission now,
        False where it refused it for good.
        """
        if item.stage is Stage.MADE:
            if await hand_over(item.path) != item.sha256:
                log.error("submission %d of step %d was changed on this disk", item.counter, item.step)
                self.done(item)
                return
            self._reach(item, Stage.HANDED_OVER)
        if await record(item):
            self._reach(item, Stage.RECORDED)
        else:
            self.done(item)

    async def changed(self) -> None:
        """Until something was added, sent or forgotten."""
        await self._changed.wait()

    def _reach(self, item: Item, stage: Stage) -> None:
        self._db.execute(f"UPDATE outbox SET stage = ? WHERE {_ONE}", (stage, self._run, item.step, item.counter))
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = trio.Event()


def _is_whole(item: Item) -> bool:
    return item.path.exists() and hashlib.sha256(item.path.read_bytes()).digest() == item.sha256
