"""Has every case generated and measured, each engine and each arithmetic in a process of its own. Resumable.

What lies in the folder is not made again, so a study that was interrupted goes on. While one process generates the
next cases another measures the last. It decides order and environment only.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType

from benchmarks.verify.measure import record_path
from benchmarks.verify.plan import RATES, Case, plan
from rl.hardware import ComputeType, thread_environment

ROOT = Path(__file__).resolve().parents[2]
ENGINE = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "HF_HUB_OFFLINE": "1",
}
MEASURED_UNSEEDED = (
    "honest vllm bfloat16, 1 thread, batch 64",
    "honest vllm bfloat16, 1 thread, batch 16",
    "int8",
    "int4",
    "half the layers",
    "two layers fewer",
    "temperature 0.7",
    "temperature 0.9",
    "top-k 20",
    "other prompt",
    "early stop",
    "edited token",
)
"""Cases that are looked at as an unseeded pool would, too."""


class StudyFailed(RuntimeError):
    """A process of the study ended with a fault; its message stands above."""


def environment(threads: int) -> dict[str, str]:
    """Of a compute process."""
    return dict(os.environ) | thread_environment(threads) | ENGINE


def child(module: str, *arguments: str, threads: int = 1) -> None:
    """Run a module of this package to its end, at a lower priority. Raises StudyFailed."""
    command = ["nice", "-n", "5", sys.executable, "-W", "ignore", "-m", f"benchmarks.verify.{module}", *arguments]
    if subprocess.run(command, cwd=ROOT, env=environment(threads), check=False).returncode != 0:
        raise StudyFailed(f"benchmarks.verify.{module} failed; its message is above")


class Measurer:
    """The validator's process for one arithmetic: cases in, a line for each that is done."""

    def __init__(self, out: Path, scale: str, compute_type: ComputeType) -> None:
        self._out, self._arguments, self._compute_type = out, (str(out), scale, compute_type), compute_type
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Measurer:
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None) -> None:
        if self._process is not None:
            self._process.communicate()

    def measure(self, case: Case, kind: str = "seeded") -> None:
        """Raises StudyFailed."""
        if record_path(self._out, case, self._compute_type, kind).exists():
            return
        if self._process is None:
            command = ["nice", "-n", "5", sys.executable, "-W", "ignore", "-m", "benchmarks.verify.measure"]
            self._process = subprocess.Popen(
                [*command, *self._arguments],
                cwd=ROOT,
                env=environment(1),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{kind}\t{case.name}\n")
        self._process.stdin.flush()
        if not self._process.stdout.readline():
            raise StudyFailed(f"measuring {case.name} failed; the message is above")


def collect(out: Path, *, quick: bool, say: Callable[[str], None]) -> None:
    """Make all that the study reads. Raises StudyFailed."""
    scale, cases = "quick" if quick else "full", plan(quick=quick)
    ways: tuple[ComputeType, ...] = ("bfloat16", "float32")
    with (
        Measurer(out, scale, ways[0]) as coarse,
        Measurer(out, scale, ways[1]) as fine,
        ThreadPoolExecutor(max_workers=1) as background,
    ):

        def measure(some: Sequence[Case]) -> None:
            for case in some:
                coarse.measure(case)
                if case.name in MEASURED_UNSEEDED:
                    coarse.measure(case, "unseeded")
                say(f"measured {case.name}")

        pending: list[Future[None]] = []
        for some in _batches(cases):
            if some[0].weights.startswith("trained"):
                for rate in RATES:
                    child("older", str(out), scale, rate)
            child("generate", str(out), scale, *[case.name for case in some], threads=some[0].engine.threads)
            say(f"generated {len(some)} cases with {some[0].engine}")
            pending.append(background.submit(measure, some))
        pending.append(background.submit(measure, [case for case in cases if case.source]))
        for one in pending:
            one.result()
        for case in cases:
            if case.honest or case.name in FINE:
                fine.measure(case)
                say(f"measured {case.name} in float32")


FINE = ("int8", "int4", "noise 1e-3", "demo int8")
"""Cheats that are also measured by a validator that prefills in float32."""


def _batches(cases: Sequence[Case]) -> list[list[Case]]:
    """Cases by engine; those of trained policies last, since they are trained on honest rollouts."""
    batches: dict[object, list[Case]] = {}
    for case in cases:
        if not case.source:
            batches.setdefault((case.weights.startswith("trained"), case.engine), []).append(case)
    return [batches[key] for key in sorted(batches, key=lambda key: key[0])]  # type: ignore[index]
