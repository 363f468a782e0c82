"""The online and the offline filter, each with and without, on a quiz of hopeless, middling and easy problems.

Offline: from what the base model answered, eight times each, the problems outside the band are left out of training
(`rl.band`); policies are judged on all problems, and apart on those within the band. Online: groups whose rewards are
all equal are left out of a batch and more are asked for; without, they take a place in it. What a filter costs is
completions, so curves are drawn over completions too, not over steps alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from statistics import fmean

from matplotlib.figure import Figure

from benchmarks.learning.curves import bands, finish, save
from benchmarks.learning.items import Found
from benchmarks.learning.loop import Classroom, Run, Setting
from benchmarks.learning.parallel import Job, base_for, run_all
from benchmarks.learning.quiz import quiz
from benchmarks.learning.spread import spread
from benchmarks.page import markdown
from rl.band import Band
from rl.recipe import Recipe

TITLE = "filters: online and offline, with and without"
SEEDS = 5
STEPS = 25
"""After 60, all four kinds have learnt what there is to learn."""
SHARES = (0.02,) * 16 + (0.3,) * 16 + (0.98,) * 16
"""Of right answers that the base model has read: hopeless, middling, easy."""
ANSWERS = 8
"""By which the offline filter judges a problem, as the report's pass@8."""
RECIPE = Recipe(learning_rate=5e-4, warmup_steps=0, optimizer_steps=1, grad_norm_clip=1.0)
Kind = tuple[bool, bool]
"""Whether filtered online, offline."""
KINDS: tuple[Kind, ...] = ((False, False), (True, False), (False, True), (True, True))


def run(out: Path, *, quick: bool, say: Callable[[str], None]) -> Found:
    seeds, steps = (2, 4) if quick else (SEEDS, STEPS)
    base = base_for(out, SHARES, quick=quick, say=say)
    kept, counts = within_band(base)
    say(f"the band keeps {len(kept)} of {len(SHARES)} problems: {counts}")
    jobs = [
        Job(
            name=f"{title((online, offline))} seed {seed}",
            base=base,
            size=len(SHARES),
            places=kept if offline else (),
            setting=Setting(steps=steps, recipe=RECIPE, seed=seed, online_filter=online, groups=min(16, len(kept))),
        )
        for seed in range(seeds)
        for online, offline in KINDS
    ]
    runs = run_all(jobs, out / "work", say)
    by_kind: dict[Kind, list[Run]] = {kind: [] for kind in KINDS}
    for job, run in zip(jobs, runs, strict=True):
        by_kind[job.setting.online_filter, bool(job.places)].append(run)
    middling = {quiz(len(SHARES)).problem(place).problem_id for place in kept}
    figures = judge(by_kind, middling)
    draw(by_kind, out / "filters.svg")
    return Found(
        figures={"filters": figures, "filters_band": counts},
        table=table(figures, counts),
        plots=("filters.svg",),
    )


def within_band(base: Path) -> tuple[tuple[int, ...], dict[str, int]]:
    """Places of the problems that the offline filter keeps, and how many lie where."""
    task = quiz(len(SHARES))
    asked = Classroom(base, task, Setting(steps=0, recipe=RECIPE, seed=10**6)).score(ANSWERS)
    band = Band()
    verdicts = [band.place(asked.rewards[task.problem(place).problem_id]) for place in range(task.size)]
    counts = {name: verdicts.count(name) for name in ("too-hard", "kept", "too-easy")}
    return tuple(place for place, verdict in enumerate(verdicts) if verdict == "kept"), counts


def judge(by_kind: Mapping[Kind, Sequence[Run]], middling: set[str]) -> dict[str, dict[str, float]]:
    """Of each kind: reward on all problems and on those of the band, and what was generated for it."""
    figures = {}
    for kind, runs in by_kind.items():
        on_all = spread([run.after.reward for run in runs])
        on_band = spread([fmean(run.after.rewards[name] for name in middling) for run in runs])
        figures[title(kind)] = {
            "mean": on_all.mean, "sd": on_all.sd, "band_mean": on_band.mean, "band_sd": on_band.sd,
            "before": fmean(run.before.reward for run in runs),
            "band_before": fmean(run.before.rewards[name] for run in runs for name in middling),
            "completions": fmean(sum(step.completions for step in run.steps) for run in runs),
            "with_signal": fmean(step.with_signal for run in runs for step in run.steps),
            "ended_early": sum(run.ended_early for run in runs), "runs": on_all.runs,
        }  # fmt: skip
    return figures


def title(kind: Kind) -> str:
    online, offline = kind
    return {(0, 0): "no filter", (1, 0): "online", (0, 1): "offline", (1, 1): "both"}[int(online), int(offline)]


def table(figures: Mapping[str, Mapping[str, float]], counts: Mapping[str, int]) -> str:
    first = next(iter(figures.values()))
    head = [
        "filter",
        f"reward on all {sum(counts.values())} problems, mean ± sd of {first['runs']:.0f} runs",
        f"on the {counts['kept']} of the band",
        "completions generated",
        "groups with signal",
    ]
    start = ["(base model)", f"{first['before']:.3f}", f"{first['band_before']:.3f}", "", ""]
    rows = [
        [
            name,
            f"{one['mean']:.3f} ± {one['sd']:.3f}",
            f"{one['band_mean']:.3f} ± {one['band_sd']:.3f}",
            f"{one['completions']:,.0f}",
            f"{one['with_signal']:.0%}",
        ]
        for name, one in figures.items()
    ]
    return markdown(head, [start, *rows])


def draw(by_kind: Mapping[Kind, Sequence[Run]], path: Path) -> None:
    """Share of signal by step; reward by what it cost. Those filtered offline have no easy problems."""
    figure = Figure(figsize=(11, 4), layout="tight")
    left, right = figure.subplots(1, 2)
    signal = {
        title(kind): [(range(len(run.steps)), [step.with_signal for step in run.steps]) for run in runs]
        for kind, runs in by_kind.items()
    }
    bands(left, signal)
    finish(left, title="Groups with signal, of those generated", x="step", y="share")
    reward = {
        title(kind): [
            ([*accumulate(step.completions for step in run.steps)], [step.reward for step in run.steps]) for run in runs
        ]
        for kind, runs in by_kind.items()
    }
    bands(right, reward)
    finish(right, title="Reward on the problems trained on", x="completions generated", y="mean reward")
    save(figure, path)
