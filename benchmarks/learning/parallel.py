"""Runs of the loop beside each other, each in a process with one thread. One core is left where there are more than 2.

Decides nothing: what a run is, its job says, and the results come in the jobs' order.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.learning.loop import Run, Setting, learn
from benchmarks.learning.quiz import UPDATES, part_of, quiz, write_base

QUICK_UPDATES = 150


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One run on a quiz."""

    name: str
    """For people, and for the folder of its policies."""
    base: Path
    size: int
    """Problems of the quiz, on all of which the policy is judged."""
    places: tuple[int, ...] = ()
    """Those that are trained on; none: all."""
    alike: bool = False
    """See `quiz.quiz`."""
    setting: Setting


def base_for(out: Path, shares: Sequence[float], *, quick: bool, say: Callable[[str], None], **reading: Any) -> Path:
    """The folder of the base model that has read so (`quiz.write_base`); made once, in a quick study less well read."""
    updates = QUICK_UPDATES if quick else UPDATES
    base = out / f"base-{updates}"
    if not base.exists():
        say("making the base model")
        with TemporaryDirectory(dir=out) as partial:
            write_base(Path(partial) / "base", shares, updates=updates, **reading)
            (Path(partial) / "base").rename(base)
    return base


def run_all(jobs: Sequence[Job], work: Path, say: Callable[[str], None]) -> list[Run]:
    """Every job's run. `work`: a folder for policies, of which nothing stays."""
    cores = len(os.sched_getaffinity(0))
    with ProcessPoolExecutor(cores - 1 if cores > 2 else cores, mp_context=get_context("spawn")) as pool:
        waiting = {pool.submit(_run, job, work): job for job in jobs}
        for done, future in enumerate(as_completed(waiting), start=1):
            run = future.result()
            say(f"{done} of {len(jobs)}: {waiting[future].name}, {run.before.reward:.2f} → {run.after.reward:.2f}")
        found = {job.name: future.result() for future, job in waiting.items()}
    return [found[job.name] for job in jobs]


def _run(job: Job, work: Path) -> Run:
    import torch
    import transformers

    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    task = quiz(job.size, alike=job.alike)
    trained_on = part_of(task, job.places) if job.places else task
    return learn(job.base, trained_on, job.setting, work / job.name.replace(" ", "-"), judged_by=task)
