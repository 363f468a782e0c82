"""What its owner wants of a running node: work, pause or drain, said through a file in the node's data folder.

Decides how the wish is written and read. A file and no socket, since a wish must outlive the process: a paused node
stays paused over a restart, one that was killed while it drained goes on draining. Whoever may write in the folder,
which is its owner's alone, may wish.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path

import trio

from node.heartbeat import Mode

log = logging.getLogger(__name__)
FILE = "intent"
LOOK_S = 1.0


class Wish(StrEnum):
    """The owner's word; no file means WORK."""

    WORK = "work"
    PAUSE = "pause"
    DRAIN = "drain"


MODES = {Wish.WORK: Mode.WORKING, Wish.PAUSE: Mode.PAUSED, Wish.DRAIN: Mode.DRAINING}


def read_wish(data_dir: Path) -> Wish:
    """What is wished now; a file of other contents is no wish."""
    try:
        return Wish((data_dir / FILE).read_text()[:16].strip())
    except (FileNotFoundError, ValueError):
        return Wish.WORK


def write_wish(data_dir: Path, wish: Wish) -> None:
    """Says it, for now and for the next start."""
    if wish is Wish.WORK:
        (data_dir / FILE).unlink(missing_ok=True)
        return
    partial = data_dir / f"{FILE}.part"
    with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(f"{wish}\n")
        file.flush()
        os.fsync(file.fileno())
    partial.replace(data_dir / FILE)


class Intent:
    """The wish as the running node sees it; kept up to date by `follow`."""

    def __init__(self, data_dir: Path, on_change: Callable[[], None] = lambda: None) -> None:
        self._data_dir, self.on_change = data_dir, on_change
        self._wish = read_wish(data_dir)
        self._draining = trio.Event()
        if self._wish is Wish.DRAIN:
            self._draining.set()

    @property
    def mode(self) -> Mode:
        """By the wish that was seen last."""
        return MODES[self._wish]

    @property
    def takes_work(self) -> bool:
        """Whether new work may be begun."""
        return self._wish is Wish.WORK

    @property
    def draining(self) -> bool:
        """Whether the node is to leave."""
        return self._draining.is_set()

    async def wait_draining(self) -> None:
        """Until the node is to leave."""
        await self._draining.wait()

    def look(self) -> Mode:
        """The mode by the wish as it stands in the folder now. One does not return from draining."""
        wish = read_wish(self._data_dir)
        if wish is not self._wish and self._wish is not Wish.DRAIN:
            log.info("by its owner's wish this node is to %s", wish)
            self._wish = wish
            if wish is Wish.DRAIN:
                self._draining.set()
            self.on_change()
        return self.mode

    async def follow(self) -> None:
        """Look for a new wish until cancelled."""
        while True:
            self.look()
            await trio.sleep(LOOK_S)

    def fulfilled(self) -> None:
        """The node has left: a later start works again."""
        write_wish(self._data_dir, Wish.WORK)
