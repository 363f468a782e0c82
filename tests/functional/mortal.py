"""Kills the process that it is armed in, by SIGKILL, at a named call: any function of ours or of a library is a point.

A profile function sees every call and return; the death is that of a machine, not an exception: nothing is cleaned up.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

LOG = "deaths"
PATIENCE_S, POLL_S = 20.0, 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Death:
    """At the `nth` `event` of the function `name`, counted while `inside` runs (if said)."""

    who: str
    """'child' (the training process) or 'node'."""
    name: str
    """Qualified name of a Python function, plain name of a builtin one."""
    event: str = "call"
    """'call', 'return' or 'c_call'."""
    nth: int = 1
    inside: str = ""
    torn: bool = False
    """Of the largest file of an unfinished folder only half is left: the kernel had not been given the rest."""
    once_announced: bool = False
    """Not before the ledger has the policy that was trained last."""
    silent: bool = False
    """The node announces nothing in this life."""

    def __str__(self) -> str:
        place = f" in {self.inside}" if self.inside else ""
        return f"{self.who}: {self.event} {self.nth} of {self.name}{place}{', torn' if self.torn else ''}"


def arm(death: Death, folder: Path, ready: Any = lambda: True) -> None:
    """From now on, in this process. `ready` must say yes, within PATIENCE_S, for the death to come."""
    seen, depth = 0, 0

    def watch(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal seen, depth
        code = frame.f_code
        if death.inside and code.co_qualname == death.inside and event in ("call", "return"):
            depth += 1 if event == "call" else -1
        if event != death.event or (death.inside and not depth):
            return
        if (getattr(argument, "__name__", "") if event == "c_call" else code.co_qualname) == death.name:
            seen += 1
            if seen == death.nth:
                sys.setprofile(None)
                _die(death, folder, ready)

    threading.setprofile(watch)
    sys.setprofile(watch)


def _die(death: Death, folder: Path, ready: Any) -> None:
    until = time.monotonic() + PATIENCE_S
    while not ready():
        if time.monotonic() > until:
            os._exit(9)
        time.sleep(POLL_S)
    if death.torn:
        largest = max(folder.glob("*/*.part*/*"), key=lambda path: path.stat().st_size)
        os.truncate(largest, largest.stat().st_size // 2)
    with (folder / LOG).open("a") as log:
        log.write(f"{death}\n")
    os.kill(os.getpid(), signal.SIGKILL)
