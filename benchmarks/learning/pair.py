"""Runs two sides (`benchmarks.learning.side`) of a case beside each other, a step of each in turn, or one alone.

Decides only whose turn it is. A side that ends early, or does not answer in time, is `SideFailed` with its last words.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from rl.hardware import thread_environment

ROOT = Path(__file__).resolve().parents[2]
QUIET = {
    "HF_HUB_OFFLINE": "1",
    "TRL_EXPERIMENTAL_SILENCE": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "ERROR",
}
ANSWER_TIMEOUT_S = 900.0
LAST_WORDS = 500
Sides = Mapping[str, tuple[Path, str]]
"""Name → the python that runs it, and its module."""


class SideFailed(RuntimeError):
    """A side's process ended, or did not answer; the message holds what it said last."""


class Side:
    """A running side: `step` has it take one."""

    def __init__(self, name: str, python: Path, module: str, case: Path) -> None:
        self._name, self._log = name, case.with_suffix(f".{name}.log")
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                ["nice", "-n", "5", str(python), "-W", "ignore", "-m", module, str(case)],
                cwd=ROOT,
                env=dict(os.environ) | thread_environment(1) | QUIET,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
            )

    def ready(self) -> dict[str, Any]:
        """What it says once it has loaded the case. Raises SideFailed."""
        return self._answer()

    def step(self) -> dict[str, Any]:
        """What the step took. Raises SideFailed."""
        stdin = self._process.stdin
        if stdin is not None:
            with suppress(BrokenPipeError):  # it has ended: there will be no answer
                stdin.write(b"step\n")
                stdin.flush()
        return self._answer()

    def close(self) -> None:
        """Waits for it to leave, which it does at the end of its input; a side that fails to is killed."""
        if self._process.stdin is not None:
            with suppress(BrokenPipeError):
                self._process.stdin.close()
        try:
            self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _answer(self) -> dict[str, Any]:
        stdout = self._process.stdout
        if stdout is None:
            raise SideFailed(f"{self._name} has no pipe")
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            line = stdout.readline() if selector.select(ANSWER_TIMEOUT_S) else b""
        if not line:
            raise SideFailed(f"{self._name} gave no answer{self._end()}; its last words: {self._last_words()}")
        return json.loads(line)

    def _end(self) -> str:
        try:
            status = self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            return f" for {ANSWER_TIMEOUT_S:.0f} s"
        if status == -signal.SIGKILL:
            return " and was killed: was there enough memory?"
        return f" and ended with status {status}"

    def _last_words(self) -> str:
        lines = self._log.read_text(errors="replace").strip().splitlines()[-2:]
        return " | ".join(lines)[-LAST_WORDS:] or "none"


@contextmanager
def started(case: dict[str, Any], folder: Path, sides: Sides) -> Iterator[dict[str, Side]]:
    """All sides of a case, ready. Raises SideFailed."""
    path = folder / "case.json"
    path.write_text(json.dumps(case))
    with ExitStack() as stack:
        running = {}
        for name, (python, module) in sides.items():
            running[name] = Side(name, python, module, path)
            stack.callback(running[name].close)
        for side in running.values():
            side.ready()
        yield running


def in_turn(case: dict[str, Any], folder: Path, sides: Sides) -> Iterator[dict[str, dict[str, Any]]]:
    """What each side's step took, round by round. Raises SideFailed."""
    with started(case, folder, sides) as running:
        for _ in range(case["steps"]):
            yield {name: side.step() for name, side in running.items()}
