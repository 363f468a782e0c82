"""Asynchrony: how the tiny model learns from rollouts that are 0 to 32 policy versions old.

A level is within noise of the synchronous runs if an exact permutation test of the final rewards does not part them
at 5 %. That is no proof of equality: the interval of the difference says how large a loss could have gone unseen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from benchmarks.learning.curves import bands, finish, save
from benchmarks.learning.items import Found
from benchmarks.learning.loop import Run, Setting
from benchmarks.learning.parallel import Job, run_all
from benchmarks.learning.quiz import write_base
from benchmarks.learning.spread import chance, difference, spread
from benchmarks.page import markdown
from rl.recipe import Recipe

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


def run(out: Path, *, quick: bool, say: Callable[[str], None]) -> Found:
    levels, seeds, steps = ((0, 4), 2, 6) if quick else (LEVELS, SEEDS, STEPS)
    base = out / "base"
    if not base.exists():
        say("making the base model")
        write_base(base, [SHARE] * PROBLEMS)
    jobs = [
        Job(
            name=f"level {level} seed {seed}",
            base=base,
            size=PROBLEMS,
            setting=Setting(steps=steps, recipe=RECIPE, seed=seed, lag=level, groups=16),
        )
        for seed in range(seeds)
        for level in levels
    ]
    runs = run_all(jobs, out / "work", say)
    by_level = {
        level: [run for job, run in zip(jobs, runs, strict=True) if job.setting.lag == level] for level in levels
    }
    draw(by_level, out / "async.svg")
    figures = judge({level: [run.after.reward for run in some] for level, some in by_level.items()})
    start = runs[0].before.reward
    return Found(
        figures={"async": figures, "async_start": start},
        table=table(figures, start=start, steps=steps),
        plots=("async.svg",),
    )


def judge(finals: Mapping[int, Sequence[float]]) -> dict[str, dict[str, float | bool]]:
    """Of each level, from its runs' final rewards: mean, spread, and how it differs from level 0."""
    figures = {}
    for level, values in finals.items():
        found = spread(values)
        gap, low, high = difference(values, finals[0])
        p = chance(values, finals[0])
        figures[str(level)] = {
            "mean": found.mean, "sd": found.sd, "low": found.low, "high": found.high, "runs": found.runs,
            "less_than_sync": -gap, "less_low": -high, "less_high": -low, "p": p, "within_noise": p > NOISE,
        }  # fmt: skip
    return figures


def table(figures: Mapping[str, Mapping[str, float | bool]], *, start: float, steps: int) -> str:
    rows = [
        [
            level,
            f"{one['mean']:.3f} ± {one['sd']:.3f}",
            f"{one['low']:.3f} to {one['high']:.3f}",
            *(
                ["", "", ""]
                if level == "0"
                else [
                    f"{-one['less_than_sync']:+.3f} ({-one['less_high']:+.3f} to {-one['less_low']:+.3f})",
                    f"{one['p']:.3f}",
                    "yes" if one["within_noise"] else "no",
                ]
            ),
        ]
        for level, one in figures.items()
    ]
    runs = next(iter(figures.values()))["runs"]
    head = [
        "level", f"reward after {steps} steps, mean ± sd of {runs} runs (start: {start:.2f})", "95 % of the mean",
        "against level 0 (95 %)", "p", "within noise",
    ]  # fmt: skip
    return markdown(head, rows)


def draw(by_level: Mapping[int, Sequence[Run]], path: Path) -> None:
    """Reward of each policy by its version; the last one's is that of its evaluation."""
    figure = Figure(figsize=(8, 4.5), layout="tight")
    axes = figure.subplots()
    curves = {
        f"level {level}": [
            (
                [*range(len(run.steps) - level), len(run.steps)],
                [*(step.reward for step in run.steps[level:]), run.after.reward],
            )
            for run in runs
        ]
        for level, runs in by_level.items()
    }
    bands(axes, curves)
    finish(axes, title="Reward by age of rollouts: mean and range of runs", x="policy version", y="mean reward")
    save(figure, path)
