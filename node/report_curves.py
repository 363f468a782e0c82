"""The curves of a run as one PNG: reward, lengths, gradient norm, entropy, KL, seconds a phase, proof errors.

Draws what an `Observation` holds, also of no step or one. It computes nothing but the smoothed line.
"""

from __future__ import annotations

import io
import json
import math
from typing import Any

from node.live_table import rewards_of
from node.observation import Observation

SMOOTH_STEPS = 3
BLUE, GREY, RED, GREEN, ORANGE = "#2563eb", "#9ca3af", "#dc2626", "#059669", "#d97706"
PANELS = (
    ("length_mean", "completion length (tokens)"),
    ("grad_norm", "gradient norm, before clipping"),
    ("entropy", "entropy (nats a token)"),
    ("kl_behaviour", "KL to the behaviour policy (nats)"),
)
PHASES = (
    ("wait_s", "wait", GREY), ("train_s", "train", BLUE), ("save_s", "save", GREEN), ("publish_s", "publish", ORANGE),
)  # fmt: skip


def draw(observation: Observation) -> bytes:
    """The curves as PNG, also of a run of no step or one."""
    from matplotlib.figure import Figure

    steps = sorted(observation.steps, key=lambda step: step["step"])
    numbers = [step["step"] + 1 for step in steps]
    figure = Figure(figsize=(11, 8.4), dpi=110, facecolor="white")
    grid = figure.add_gridspec(
        3, 3, height_ratios=(1.7, 1, 1), left=0.06, right=0.98, top=0.95, bottom=0.05, hspace=0.42, wspace=0.2
    )
    rewards = rewards_of(observation)
    top = figure.add_subplot(grid[0, :])
    top.plot(numbers, rewards, "o", color=BLUE, alpha=0.45, markersize=5, label="mean reward of the step")
    windows = [rewards[max(0, end - SMOOTH_STEPS) : end] for end in range(1, len(rewards) + 1)]
    smooth = [sum(window) / len(window) for window in windows]
    top.plot(numbers, smooth, color=BLUE, linewidth=2.2, label=f"mean of {SMOOTH_STEPS} steps")
    top.set(title="Task reward", ylim=(-0.02, 1.02), xlabel="step", ylabel="share of right answers")
    if rewards:
        top.legend(loc="lower right", frameon=False)
    else:
        top.text(0.5, 0.5, "no step was trained", ha="center", va="center", transform=top.transAxes, color=GREY)
    for place, (key, title) in enumerate(PANELS):
        panel = figure.add_subplot(grid[1 + place // 3, place % 3])
        panel.plot(numbers, [_number(step.get(key)) for step in steps], ".-", color=BLUE, linewidth=1.2)
        panel.set_title(title)
    phases, floor = figure.add_subplot(grid[2, 1]), [0.0] * len(steps)
    for key, label, colour in PHASES:
        heights = [_number(step.get(key), 0.0) for step in steps]
        phases.bar(numbers, heights, bottom=floor, color=colour, label=label, width=0.8)
        floor = [a + b for a, b in zip(floor, heights, strict=True)]
    phases.set_title("trainer's seconds a step, by phase")
    if steps:
        phases.legend(frameon=False, fontsize=7, ncols=4, loc="upper right")
    phases.set_ylim(0, 1.25 * max(floor, default=0.0) or 1.0)
    proofs = figure.add_subplot(grid[2, 2])
    _draw_proofs(proofs, observation)
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25, linewidth=0.6)
        axes.tick_params(labelsize=8)
        axes.title.set_fontsize(13 if axes is top else 9)
        axes.xaxis.get_major_locator().set_params(integer=True)
        if not axes.has_data() or (not steps and axes is not proofs):
            axes.set(xticks=[], yticks=[])
    sink = io.BytesIO()
    figure.savefig(sink, format="png")
    return sink.getvalue()


def _draw_proofs(axes: Any, observation: Observation) -> None:
    """Each submission's distance from its proofs, honest nodes and the cheat apart; of verdicts that prevailed."""
    for honest, colour, label in ((True, GREEN, "honest"), (False, RED, "cheat")):
        points = [
            (number, value)
            for number, verdict in enumerate(observation.verdicts, start=1)
            if observation.is_outcome(verdict)
            and _honest(verdict, observation) is honest
            and (value := _facts(verdict).get("exponent_mean")) is not None
        ]
        if points:
            axes.scatter(*zip(*points, strict=True), s=14, color=colour, label=label)
    axes.set_title("exponent mismatches of 128, by verdict")
    axes.set_ylim(bottom=0)
    if axes.has_data():
        axes.legend(frameon=False, fontsize=7, loc="center right")


def _honest(verdict: dict[str, Any], observation: Observation) -> bool | None:
    return next((view.honest for view in observation.nodes.values() if view.address == verdict["node"]), None)


def _facts(verdict: dict[str, Any]) -> dict[str, Any]:
    return json.loads(verdict["evidence"])["facts"]


def _number(value: Any, missing: float = math.nan) -> float:
    return missing if value is None else float(value)
