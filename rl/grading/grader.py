"""Calls of one function in a grading process (`rl.grading.child`), from any thread, with a certain end.

Decides when that process is started, given up and replaced. A limit counts from the moment a call begins: waiting
behind others costs nothing, so a thousand gradings at once end like one by one. It never turns a fault into a reward.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
import weakref
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
START_TIMEOUT_S = 120.0
GRACE_S = 10.0
"""Beyond a call's own wall limit, before its process is held to be stuck."""
MAX_LINE_BYTES = 2 << 20


class NotGraded(Exception):
    """No value came of a call: nothing follows about the answer. `kind`: raised, overran, died, over-budget."""

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(f"{kind}: {detail}")
        self.kind = kind


class OverBudget(NotGraded):
    """The call made more function calls than allowed, as it would on every machine with the same packages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallLimits:
    """What one call may use."""

    calls: int
    """Function calls, Python's and C's together; 0: not counted, and not slowed by counting (about a half)."""
    cpu_s: int
    wall_s: float
    memory_bytes: int = 2 << 30
    """Address space, what the imported packages take included."""
    confined: bool = False
    """Whether a call must fail where the kernel cannot confine it (`rl.grading.confine`); it is confined if it can."""


class Grader:
    """One function's grading process, started at the first call. `target` is `module:function`, from and to JSON."""

    def __init__(self, target: str, limits: CallLimits) -> None:
        self.target, self.limits = target, limits
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._unread = b""
        self.started = 0
        """How many processes were needed so far."""

    def call(self, *arguments: Any) -> Any:
        """What the function returns. Raises NotGraded."""
        return self.count(*arguments)[0]

    def count(self, *arguments: Any) -> tuple[Any, int]:
        """What the function returns, and how many calls it made (0 where they are not counted). Raises NotGraded."""
        with self._lock:
            for fresh in (False, True):
                process = self._started()
                try:
                    return self._value(self._ask(process, json.dumps(arguments).encode() + b"\n"))
                except (BrokenPipeError, EOFError) as ended:  # killed by something else meanwhile: once more
                    self._stop()
                    if fresh:
                        raise NotGraded("died", f"the grading process of {self.target} ended twice") from ended
        raise AssertionError

    def close(self) -> None:
        """End the process; a later call starts another."""
        with self._lock:
            self._stop()

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is None:
            return self._process
        self._stop()
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-s", "-m", "rl.grading.child", self.target, json.dumps(asdict(self.limits))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment(),
            process_group=0,
        )
        self._ending = weakref.finalize(self, end, self._process)
        self._unread = b""
        self.started += 1
        try:
            self._line(self._process, START_TIMEOUT_S)
        except EOFError:
            self._stop()
            raise NotGraded(
                "died", f"{self.target} cannot be imported by {sys.executable}; is its package installed?"
            ) from None
        return self._process

    def _stop(self) -> None:
        if self._process is not None:
            self._ending()
            self._process = None

    def _ask(self, process: subprocess.Popen[bytes], line: bytes) -> bytes:
        assert process.stdin is not None
        process.stdin.write(line)
        process.stdin.flush()
        return self._line(process, self.limits.wall_s + GRACE_S)

    def _line(self, process: subprocess.Popen[bytes], timeout_s: float) -> bytes:
        assert process.stdout is not None
        until, line = time.monotonic() + timeout_s, self._unread
        while b"\n" not in line:
            ready = select.select([process.stdout], [], [], max(0.0, until - time.monotonic()))[0]
            part = os.read(process.stdout.fileno(), 1 << 16) if ready else b""
            if not ready or len(line) > MAX_LINE_BYTES:
                self._stop()
                raise NotGraded("overran", f"the grading process of {self.target} was stuck and was killed")
            if not part:
                raise EOFError
            line += part
        line, _, self._unread = line.partition(b"\n")
        return line

    @staticmethod
    def _value(line: bytes) -> tuple[Any, int]:
        reply = json.loads(line)
        if "value" in reply:
            return reply["value"], reply["calls"]
        raise (OverBudget if reply["fault"] == "over-budget" else NotGraded)(reply["fault"], reply["detail"])


def environment() -> dict[str, str]:
    """No secrets, and everything fixed that could make two machines count differently."""
    paths = [str(ROOT), *(path for path in sys.path if path and Path(path).is_dir())]
    return {
        "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)),
        "PYTHONHASHSEED": "0",
        "LC_ALL": "C.UTF-8",
        "OMP_NUM_THREADS": "1",
        "MPMATH_NOGMPY": "1",
        "SYMPY_GROUND_TYPES": "python",
    }


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill a grading process with the call it is at, and reap it."""
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            try:
                stream.close()
            except BrokenPipeError:
                continue
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
