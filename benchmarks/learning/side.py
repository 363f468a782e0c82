"""One of two processes that are measured beside each other, a step of each in turn: what passes between, and meters.

A side is started with the path of a case (JSON). It says one line of JSON when it is ready; for each line that it is
sent it takes one step and answers with one line; at the end of its input it leaves. While one side works the other
waits for its line and uses no processor. Standard library only, as each side has an environment of its own.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from pathlib import Path
from typing import Any, TextIO

MIB = 2**20


def forget_peak() -> None:
    """Have the kernel count the peak of this process's memory anew (proc(5), clear_refs 5), loading left out."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")


def peak_mib() -> float:
    """Most memory resident at once since `forget_peak`, in MiB: what is shared with other processes included."""
    return _status("VmHWM")


def resident_mib() -> float:
    """Memory resident now, in MiB."""
    return _status("VmRSS")


def _status(key: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{key}:")) * 1024 / MIB


class Meter:
    """Seconds by the clock and of all of this process's threads, between `start` and `stop`, pauses left out."""

    def __init__(self) -> None:
        self.wall_s = self.cpu_s = 0.0

    def start(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def stop(self) -> None:
        self.wall_s += time.perf_counter() - self._wall
        self.cpu_s += time.process_time() - self._cpu

    def take(self) -> dict[str, float]:
        """What was counted; from zero again."""
        counted = {"wall_s": self.wall_s, "cpu_s": self.cpu_s}
        self.wall_s = self.cpu_s = 0.0
        return counted


class Talk:
    """Lines in and out. Whatever else this process prints goes to standard error."""

    def __init__(self) -> None:
        self._out: TextIO = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)

    def say(self, **fields: Any) -> None:
        self._out.write(json.dumps(fields) + "\n")
        self._out.flush()

    def wait(self) -> None:
        """Until a step is asked for; leaves the process when none will be."""
        if not sys.stdin.readline():
            self._out.flush()
            os._exit(0)  # in the middle of another library's loop


def read_case() -> dict[str, Any]:
    """The case that this process was started with."""
    return json.loads(Path(sys.argv[1]).read_text())
