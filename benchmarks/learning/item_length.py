"""The length reward: the tiny model learns to be as long as its prompt asks, and goes on being right.

Its base puts any number of tildes before the answer and heeds the length that it is asked for now and then; all
problems have the same answer. The report's α is for thousands of tokens; here targets are a few, and α is larger in
proportion.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean

from matplotlib.figure import Figure

from benchmarks.learning.curves import bands, finish, save
from benchmarks.learning.items import Found
from benchmarks.learning.loop import Run, Setting
from benchmarks.learning.parallel import Job, base_for, run_all
from benchmarks.learning.spread import spread
from benchmarks.page import markdown
from rl.lengths import LengthReward
from rl.recipe import Recipe

TITLE = "length reward: distance between length and target"
SEEDS = 5
STEPS = 80
PROBLEMS = 8
SHARE = 0.9
FILLERS = 20
LENGTH = LengthReward(targets=(4, 10, 16), alpha=0.03)
RECIPE = Recipe(learning_rate=5e-4, warmup_steps=0, optimizer_steps=1, grad_norm_clip=1.0)


def run(out: Path, *, quick: bool, say: Callable[[str], None]) -> Found:
    seeds, steps = (2, 3) if quick else (SEEDS, STEPS)
    base = base_for(out, [SHARE] * PROBLEMS, quick=quick, say=say, alike=True, fillers=FILLERS, targets=LENGTH.targets)
    jobs = [
        Job(
            name=f"seed {seed}",
            base=base,
            size=PROBLEMS,
            alike=True,
            setting=Setting(
                steps=steps, recipe=RECIPE, seed=seed, groups=8, samples=8, max_new_tokens=FILLERS + 4, length=LENGTH
            ),
        )
        for seed in range(seeds)
    ]
    runs = run_all(jobs, out / "work", say)
    draw(runs, out / "length.svg")
    figures = judge(runs)
    return Found(figures={"length": figures}, table=table(figures), plots=("length.svg",))


def judge(runs: Sequence[Run]) -> dict[str, float]:
    """Means over runs, of evaluations before and after; the constant is what no policy blind to its target can beat."""
    gaps, rewards = (
        spread(scores) for scores in ([run.after.length_gap for run in runs], [run.after.reward for run in runs])
    )
    return {
        "gap_before": fmean(run.before.length_gap for run in runs), "gap_after": gaps.mean, "gap_after_sd": gaps.sd,
        "gap_of_best_constant": best_constant(LENGTH.targets),
        "reward_before": fmean(run.before.reward for run in runs), "reward_after": rewards.mean,
        "reward_after_sd": rewards.sd, "runs": gaps.runs,
    }  # fmt: skip


def best_constant(targets: Sequence[int]) -> float:
    """Mean distance to evenly drawn targets of the best single length."""
    return min(fmean(abs(target - length) for target in targets) for length in range(1, max(targets) + 1))


def table(figures: Mapping[str, float]) -> str:
    targets = ", ".join(map(str, LENGTH.targets))
    rows = [
        [
            f"distance to the target ({targets}), tokens",
            f"{figures['gap_before']:.2f}",
            f"{figures['gap_after']:.2f} ± {figures['gap_after_sd']:.2f}",
            f"{figures['gap_of_best_constant']:.2f}",
        ],
        [
            "reward of the task alone",
            f"{figures['reward_before']:.3f}",
            f"{figures['reward_after']:.3f} ± {figures['reward_after_sd']:.3f}",
            "",
        ],
    ]
    head = ["", "before", f"after, mean ± sd of {figures['runs']:.0f} runs", "best without looking at the target"]
    return markdown(head, rows)


def draw(runs: Sequence[Run], path: Path) -> None:
    figure = Figure(figsize=(7, 4), layout="tight")
    axes = figure.subplots()
    curves = [(range(len(run.steps)), [step.length_gap for step in run.steps]) for run in runs]
    bands(axes, {"distance": curves})
    axes.axhline(best_constant(LENGTH.targets), linestyle=":", color="tab:grey", label="best constant length")
    axes.set_ylim(bottom=0.0)
    finish(axes, title="Distance between length and target", x="step", y="tokens")
    save(figure, path)
