"""How far a long command is, on standard error: one line, rewritten, in a terminal; a line now and then elsewhere.

Decides wording and how often. Time is an argument, so that tests need not wait.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TextIO

EVERY_S = 15.0
"""Between lines, where they cannot be rewritten."""


class Progress:
    """Counts up to `total`."""

    def __init__(
        self,
        what: str,
        total: int,
        *,
        done: int = 0,
        out: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`done`: what an earlier start did already; it says nothing of the pace."""
        self._what, self._total, self._begun, self._done = what, total, done, done
        self._out, self._clock = out or sys.stderr, clock
        self._start_s = self._said_s = clock()

    def waits(self, why: str) -> None:
        """What is waited for before the first problem."""
        self._write(f"{self._what}: {why}", stays=False)

    def begins(self) -> None:
        """The first problem is begun: the pace counts from now."""
        self._start_s = self._said_s = self._clock()

    def add(self, count: int) -> None:
        """So many more are done."""
        self._done += count
        now_s = self._clock()
        finished = self._done >= self._total
        if not self._out.isatty() and not finished and now_s - self._said_s < EVERY_S:
            return
        self._said_s = now_s
        self._write(self.line(now_s), stays=finished)

    def line(self, now_s: float) -> str:
        """What is said at that time."""
        took_s, made = now_s - self._start_s, self._done - self._begun
        said = f"{self._what}: {self._done} of {self._total} problems, {took_s:.0f} s"
        if made > 0 and self._done < self._total:
            said += f", about {took_s / made * (self._total - self._done):.0f} s left"
        return said

    def _write(self, line: str, *, stays: bool) -> None:
        """`stays`: the next line does not take its place in a terminal."""
        rewritten = self._out.isatty()
        self._out.write((f"\r\x1b[2K{line}" if rewritten else line) + ("\n" if stays or not rewritten else ""))
        self._out.flush()
