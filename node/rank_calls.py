"""One trainer's calls on several ranks: rank 0 is asked and answers, and every other does the same beside it.

A call is told to all before rank 0 takes its part, as a frame like that of the pipe (no pickled objects). An error that
a call is expected to raise is one of all ranks, and they go on; with any other a follower ends, and whoever started it
ends them all.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from node.frames import FrameDecoder, encode_frame

if TYPE_CHECKING:
    from rl.ranks import Ranks

Handlers = Mapping[str, Callable[..., Any]]
_PR_SET_PDEATHSIG = 1
END_S = 5.0
"""How long rank 0, its talk with the others broken, waits to be ended: their death says more than its error would."""


def die_with_parent() -> None:
    """Have the kernel end this process when the one that started it is gone, however that came about."""
    parent = os.getppid()
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def of_all_ranks() -> tuple[type[Exception], ...]:
    """What a call raises on every rank if on any, so that all are fit for the next one."""
    from rl.state_files import StateInvalid
    from rl.trainer import TrainingFault

    return StateInvalid, TrainingFault


class Meeting:
    """The ranks that this process belongs to, met when first needed: rank 0 reads its pipe before it imports torch."""

    def __init__(self, folder: Path, *, number: int, count: int) -> None:
        self._folder, self.number, self._count = folder, number, count
        self._ranks: Ranks | None = None

    @property
    def ranks(self) -> Ranks:
        if self._ranks is None:
            from rl.ranks import join

            self._ranks = join(self._folder, number=self.number, count=self._count)
        return self._ranks

    def told(self, handlers: Handlers) -> Handlers:
        """Rank 0's handlers: each tells the others first."""

        def tell(name: str) -> Callable[..., Any]:
            def call(**params: Any) -> Any:
                try:
                    self.ranks.tell(encode_frame({"method": name, "params": params}))
                    return handlers[name](**params)
                except RuntimeError as fault:  # what torch raises, also where another rank is gone
                    if not isinstance(fault, of_all_ranks()):
                        threading.Event().wait(END_S)
                    raise

            return call

        return {name: tell(name) for name in handlers}

    def follow(self, handlers: Handlers) -> None:
        """Do what rank 0 is asked to, until it is asked no more."""
        while frame := self.ranks.tell(b""):
            (call,) = FrameDecoder().feed(frame)
            try:
                handlers[call["method"]](**call["params"])
            except of_all_ranks() as fault:
                print(f"rank {self.number}: {type(fault).__name__}: {fault}", file=sys.stderr)

    def end(self) -> None:
        """Rank 0 is asked no more."""
        if self._ranks is not None:
            self._ranks.tell(b"")
