"""Asynchrony: how the tiny model learns from rollouts that are 0 to 32 policy versions old.

A level is within noise of the synchronous runs if an exact permutation test of the final rewards does not part them
at 5 %. That is no proof of equality: the interval of the difference says how large a loss could have gone unseen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from matplotlib.figure import Figure

from benchmarks.learning.curves import bands, finish, save
from benchmarks.learning.items import Found
from benchmarks.learning.loop import Run, Setting
from benchmarks.learning.parallel import Job, base_for, run_all
from benchmarks.learning.spread import chance, difference, spread
from benchmarks.page import markdown
from rl.recipe import Importance, Recipe

TITLE = "asynchrony: final reward by how old rollouts are"
LEVELS = (0, 1, 2, 4, 8, 16, 32)
SEEDS = 6
STEPS = 90
"""At which synchronous runs still rise: later all levels are near 1 and look alike."""
PROBLEMS = 20
SHARE = 0.3
"""Of right answers that the base model has read."""
RECIPE = Recipe(learning_rate=5e-4, warmup_steps=0, optimizer_steps=1, grad_norm_clip=1.0)
NOISE = 0.05
TRUNCATED = (16, 32)
"""Levels that are also run with the ratio taken to the workers' reported log-probs, truncated."""
Kind = tuple[int, Importance]
SYNC: Kind = (0, "recomputed")


def run(out: Path, *, quick: bool, say: Callable[[str], None]) -> Found:
    seeds, steps = (2, 6) if quick else (SEEDS, STEPS)
    kinds: list[Kind] = [(level, "recomputed") for level in ((0, 4) if quick else LEVELS)]
    kinds += [(level, "behaviour") for level in ((4,) if quick else TRUNCATED)]
    base = base_for(out, [SHARE] * PROBLEMS, quick=quick, say=say)
    jobs = [
        Job(
            name=f"level {level} {importance} seed {seed}",
            base=base,
            size=PROBLEMS,
            setting=Setting(
                steps=steps, recipe=replace(RECIPE, importance=importance), seed=seed, lag=level, groups=16
            ),
        )
        for seed in range(seeds)
        for level, importance in kinds
    ]
    runs = run_all(jobs, out / "work", say)
    by_kind: dict[Kind, list[Run]] = {kind: [] for kind in kinds}
    for job, run in zip(jobs, runs, strict=True):
        by_kind[job.setting.lag, job.setting.recipe.importance].append(run)
    draw(by_kind, out / "async.svg")
    judged = judge({kind: [run.after.reward for run in some] for kind, some in by_kind.items()})
    start = fmean(run.before.reward for run in runs)
    return Found(
        figures={
            "async": {str(level): one for (level, by), one in judged.items() if by == "recomputed"},
            "async_behaviour": {str(level): one for (level, by), one in judged.items() if by == "behaviour"},
            "async_start": start,
        },
        table=table(judged, start=start, steps=steps),
        plots=("async.svg",),
    )


def judge(finals: Mapping[Kind, Sequence[float]]) -> dict[Kind, dict[str, float | bool]]:
    """Of each kind, from its runs' final rewards: mean, spread, and how it differs from the synchronous one."""
    figures: dict[Kind, dict[str, float | bool]] = {}
    for kind, values in finals.items():
        found = spread(values)
        gap, low, high = difference(values, finals[SYNC])
        p = chance(values, finals[SYNC])
        figures[kind] = {
            "mean": found.mean, "sd": found.sd, "low": found.low, "high": found.high, "runs": found.runs,
            "less_than_sync": -gap, "less_low": -high, "less_high": -low, "p": p, "within_noise": p > NOISE,
        }  # fmt: skip
    return figures


def table(figures: Mapping[Kind, Mapping[str, float | bool]], *, start: float, steps: int) -> str:
    rows = [
        [
            title(kind),
            f"{one['mean']:.3f} ± {one['sd']:.3f}",
            f"{one['low']:.3f} to {one['high']:.3f}",
            *(
                ["", "", ""]
                if kind == SYNC
                else [
                    f"{-one['less_than_sync']:+.3f} ({-one['less_high']:+.3f} to {-one['less_low']:+.3f})",
                    f"{one['p']:.3f}",
                    "yes" if one["within_noise"] else "no",
                ]
            ),
        ]
        for kind, one in figures.items()
    ]
    runs = next(iter(figures.values()))["runs"]
    head = [
        "level", f"reward after {steps} steps, mean ± sd of {runs} runs (start: {start:.2f})", "95 % of the mean",
        "against level 0 (95 %)", "p", "within noise",
    ]  # fmt: skip
    return markdown(head, rows)


def title(kind: Kind) -> str:
    level, importance = kind
    return f"{level}" if importance == "recomputed" else f"{level}, ratio to the workers' log-probs"


def draw(by_kind: Mapping[Kind, Sequence[Run]], path: Path) -> None:
    """Reward of each policy by its version, as its rollouts had it; the last ones have none, and are in the table."""
    figure = Figure(figsize=(8, 4.5), layout="tight")
    axes = figure.subplots()
    curves = {
        f"level {title(kind)}": [
            ([step.version for step in late], [step.reward for step in late])
            for late in (run.steps[kind[0] :] for run in runs)
        ]
        for kind, runs in by_kind.items()
    }
    bands(axes, curves)
    finish(axes, title="Reward by age of rollouts: mean and range of runs", x="policy version", y="mean reward")
    save(figure, path)
