"""Decides the sequence numbers of this node's records: never the same twice, never lower, over restarts and crashes.

Numbers are reserved on disk in blocks before they are used. It refuses a file it cannot read rather than start again
at zero.
"""

from __future__ import annotations

import os
from pathlib import Path

BLOCK = 1000


class SequenceCounter:
    """Monotone integers from `path`; a new file starts at `start`."""

    def __init__(self, path: Path, *, start: int) -> None:
        self._path = path
        try:
            self._next = int(path.read_text()) if path.exists() else start
        except ValueError as error:
            raise ValueError(f"{path} is not a sequence number; restore it, or remove it to start anew") from error
        self._reserved = self._next

    def next(self) -> int:
        """The next number."""
        if self._next >= self._reserved:
            self._reserved = self._next + BLOCK
            temporary = self._path.with_suffix(".new")
            with temporary.open("w") as handle:
                handle.write(str(self._reserved))
                handle.flush()
                os.fsync(handle.fileno())
            os.replace(temporary, self._path)
        self._next += 1
        return self._next - 1
