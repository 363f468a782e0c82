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

from benchmarks.verify.measure import record_path
from benchmarks.verify.plan import LEARNED, RATES, Case, EngineKind, plan
from rl.hardware import ComputeType, thread_environment

ROOT = Path(__file__).resolve().parents[2]
ENGINE = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "HF_HUB_OFFLINE": "1",
}
LOW = ("nice", "-n", "5")
Way = tuple[ComputeType, str]
"""A validator's arithmetic, and the pool that it stands for: seeded or unseeded."""
WAYS: tuple[Way, ...] = (("bfloat16", "seeded"), ("bfloat16", "unseeded"), ("float32", "seeded"))
"""The last is also the second look of the first; a quick study has it of honest work only, and no second way."""
FINE = ("int8", "int4", "noise 1e-3", "demo int8")
"""Cheats that are told of a validator whose first look is in float32."""
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
    command = [*LOW, sys.executable, "-W", "ignore", "-m", f"benchmarks.verify.{module}", *arguments]
    if subprocess.run(command, cwd=ROOT, env=environment(threads), check=False).returncode != 0:
        raise StudyFailed(f"benchmarks.verify.{module} failed; its message is above")


class Measurer:
    """A validator's process of one way: cases in, a line for each that is done."""

    def __init__(self, out: Path, scale: str, way: Way) -> None:
        self._out, self._scale, self._way = out, scale, way
        self._process: subprocess.Popen[str] | None = None
        self._thread = ThreadPoolExecutor(max_workers=1)

    def measure(self, case: Case) -> Future[None]:
        """When its turn comes, unless it is there already. The result raises StudyFailed."""
        return self._thread.submit(self._measure, case)

    def close(self) -> None:
        """After what is under way; what waits is dropped."""
        self._thread.shutdown(cancel_futures=True)
        if self._process is not None:
            self._process.communicate()

    def _measure(self, case: Case) -> None:
        if record_path(self._out, case, *self._way).exists():
            return
        if self._process is None:
            arguments = [str(self._out), self._scale, *self._way]
            self._process = subprocess.Popen(
                [*LOW, sys.executable, "-W", "ignore", "-m", "benchmarks.verify.measure", *arguments],
                cwd=ROOT,
                env=environment(1),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        words, answers = self._process.stdin, self._process.stdout
        if words is None or answers is None:
            raise StudyFailed("the measuring process has no pipes")
        try:
            words.write(f"{case.name}\n")
            words.flush()
        except BrokenPipeError as fault:
            raise StudyFailed(f"measuring {case.name} failed; the message is above") from fault
        if not answers.readline():
            raise StudyFailed(f"measuring {case.name} failed; the message is above")


def collect(out: Path, *, quick: bool, say: Callable[[str], None]) -> None:
    """Make all that the study reads. Raises StudyFailed."""
    scale, cases = "quick" if quick else "full", plan(quick=quick)
    measurers = {way: Measurer(out, scale, way) for way in WAYS}
    pending: list[tuple[str, Future[None]]] = []
    try:
        for some in [*_batches(cases), [case for case in cases if case.source]]:
            if not some[0].source:
                _generate(out, scale, some)
                say(f"generated {len(some)} cases with {some[0].engine}")
            for case in some:
                pending += [
                    (f"{case.name}, {' '.join(way)}", measurer.measure(case))
                    for way, measurer in measurers.items()
                    if wanted(case, way, quick=quick)
                ]
        for name, one in pending:
            one.result()
            say(f"measured {name}")
    finally:
        for measurer in measurers.values():
            measurer.close()


def wanted(case: Case, way: Way, *, quick: bool) -> bool:
    """Whether a case is measured in such a way."""
    if case.engine.compute_type == "float32" and not case.honest:
        return way == WAYS[2]
    if way == ("bfloat16", "unseeded"):
        return case.name in MEASURED_UNSEEDED and not quick
    return way[0] == "bfloat16" or not quick or case.honest


def _generate(out: Path, scale: str, some: Sequence[Case]) -> None:
    if some[0].policy:
        for rate, steps in LEARNED.items():
            child("learned", str(out), rate, *map(str, steps))
    if some[0].weights.startswith("trained"):
        for rate in RATES:
            child("older", str(out), scale, rate)
    child("generate", str(out), scale, *[case.name for case in some], threads=some[0].engine.threads)


def _batches(cases: Sequence[Case]) -> list[list[Case]]:
    """Cases by engine; those of trained policies last, since some are trained on honest rollouts."""
    batches: dict[tuple[str, EngineKind], list[Case]] = {}
    for case in cases:
        if not case.source:
            kind = "learned" if case.policy else "trained" if case.weights.startswith("trained") else ""
            batches.setdefault((kind, case.engine), []).append(case)
    return [batches[key] for key in sorted(batches, key=lambda key: ("", "trained", "learned").index(key[0]))]
