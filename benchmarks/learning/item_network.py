"""SmolLM2-135M through the whole network: `run local` on some sums, then `eval` on others, beside the base model.

Everything is the command line that anybody has. The problems are split by a hash before anything is trained; the
held-out ones are asked once before and once after, with the same noise (`rl.scores` says what the intervals are).
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from shutil import rmtree
from typing import Any

from matplotlib.figure import Figure

from benchmarks.learning.curves import finish, save, smooth
from benchmarks.learning.items import Found
from benchmarks.page import markdown
from node.model import base_model

TITLE = "the whole network: SmolLM2-135M learns sums, and is judged on others"
ROOT = Path(__file__).resolve().parents[2]
TASK, HELD_OUT = "arithmetic", "0.25"
MINUTES, QUICK_STEPS = 15, 3
SAMPLES, QUICK_SAMPLES, QUICK_LIMIT = 32, 2, 4
SEED = "1"
KEPT = ("steps", "minutes", "submissions", "tokens_per_s", "cheats_ejected", "honest_rejected", "rewards")
"""Of a run's report."""


class CommandFailed(RuntimeError):
    """A command of the program ended with a fault."""


def run(out: Path, *, quick: bool, say: Callable[[str], None]) -> Found:
    split = ask(out, "task", "split", TASK, "--test", HELD_OUT, "--out", str(out / "split"), "--json")
    say(f"{split['train']['problems']} problems to learn on, {split['test']['problems']} held out")
    network = out / "run"
    if network.exists():
        rmtree(network)
    limit = ["--steps", str(QUICK_STEPS)] if quick else []
    say(f"the network runs, at most {MINUTES} minutes")
    call(
        out, "run", "local", "--task", split["train"]["name"], "--minutes", str(MINUTES), "--seed", SEED, *limit,
        "--out", str(network),
    )  # fmt: skip
    report = json.loads((network / "report.json").read_text())
    say(f"{report['steps']} steps in {report['minutes']} minutes")
    evaluations = {}
    for side in ("test", "train"):
        say(f"asking both policies the {side} problems")
        some = ["--samples", str(QUICK_SAMPLES), "--limit", str(QUICK_LIMIT)] if quick else ["--samples", str(SAMPLES)]
        evaluations[side] = ask(
            out, "eval", str(network / "model"), "--base", str(base_model("")), "--task", split[side]["name"], *some,
            "--json",
        )  # fmt: skip
    draw(report["rewards"], evaluations["test"], out / "network.svg")
    figures = figures_of(report, evaluations["test"], evaluations["train"])
    return Found(figures=figures, table=table(figures), plots=("network.svg",))


def ask(out: Path, *words: str) -> Any:
    """What a command of the program prints as JSON."""
    return json.loads(call(out, *words))


def call(out: Path, *words: str) -> str:
    """Standard output of a command; its other words go to a log in `out`. Raises CommandFailed."""
    log = out / f"{words[0]}.log"
    with log.open("w") as sink:
        command = [sys.executable, "-W", "ignore", "-m", "node.cli", *words]
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=sink, text=True, check=False)
    if done.returncode != 0:
        said = (done.stdout + log.read_text())[-2000:]
        raise CommandFailed(f"intellect-node {' '.join(words)} ended with {done.returncode}:\n{said}")
    return done.stdout


def figures_of(report: Mapping[str, Any], test: Mapping[str, Any], train: Mapping[str, Any]) -> dict[str, Any]:
    """What `--json` holds of a run's report and of both evaluations."""
    sides = {"held out": test, "trained on": train}
    return {
        "eval_before": test["base"]["avg"]["mean"],
        "eval_after": test["model"]["avg"]["mean"],
        "eval": {
            name: {"before": one["base"]["avg"], "after": one["model"]["avg"], "difference": one["difference"]["avg"]}
            for name, one in sides.items()
        },
        "eval_problems": test["problems"],
        "eval_samples": test["samples"],
        "network": {key: report[key] for key in KEPT},
    }


def table(figures: Mapping[str, Any]) -> str:
    head = ["problems", f"avg@{figures['eval_samples']} before", "after", "difference, paired"]
    rows = [
        [name, *(told(one[side], signed=side == "difference") for side in ("before", "after", "difference"))]
        for name, one in figures["eval"].items()
    ]
    network = figures["network"]
    words = (
        f"{network['steps']} steps, {network['minutes']:.1f} minutes, {network['submissions']} submissions, "
        f"{network['tokens_per_s']:.0f} tokens/s; {network['cheats_ejected']} cheat ejected, "
        f"{network['honest_rejected']} honest submissions rejected."
    )
    return markdown(head, rows) + "\n\n" + words


def told(estimate: Mapping[str, float], *, signed: bool) -> str:
    sign = "+" if signed else ""
    return f"{estimate['mean']:{sign}.1%} ({estimate['low']:{sign}.1%} to {estimate['high']:{sign}.1%})"


def draw(rewards: Sequence[float], test: Mapping[str, Any], path: Path) -> None:
    """The run's reward by step, and the held-out problems' before its first and after its last."""
    figure = Figure(figsize=(7, 4), layout="tight")
    axes = figure.subplots()
    steps = range(len(rewards))
    axes.plot(steps, rewards, linewidth=0.8, alpha=0.5, color="tab:blue")
    axes.plot(steps, smooth(rewards), linewidth=1.6, color="tab:blue", label="rollouts of the run, mean of 5 steps")
    for place, side in ((0, "base"), (len(rewards), "model")):
        one = test[side]["avg"]
        axes.errorbar(
            [place], [one["mean"]], [[one["mean"] - one["low"]], [one["high"] - one["mean"]]], fmt="o",
            color="tab:red", capsize=4, label="held-out problems, 95 %" if side == "base" else None,
        )  # fmt: skip
    axes.set_ylim(0.0, 1.0)
    finish(axes, title="SmolLM2-135M through the network", x="step", y="mean reward")
    save(figure, path)
