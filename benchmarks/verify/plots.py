"""The study's plots: where honest submissions and cheats lie, statistic by statistic, and the curves that follow."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from benchmarks.verify.judging import STATISTICS
from benchmarks.verify.study import Study
from benchmarks.verify.tails import curve

SHOWN = ("mantissa error, mean", "exponent mismatches, mean", "margin, mean", "margin, largest")
POINTS = 120
"""Of a curve that are drawn."""
CURVES = (
    "1 step older at 1e-6",
    "4 steps older at 3e-6",
    "noise 1e-3",
    "int8",
    "int4",
    "two layers fewer",
    "temperature 0.9",
    "top-k 20",
    "best of 2",
)


def draw(study: Study, folder: Path) -> None:
    """Write `verification-separation.svg` and `verification-roc.svg`."""
    _separation(study, folder / "verification-separation.svg")
    _curves(study, folder / "verification-roc.svg")


def _separation(study: Study, path: Path) -> None:
    coarse = [c for c in study.cheats if (c.policy, c.setting, c.prefill) == ("", "long", "bfloat16") and c.seeded]
    names = ["honest", *[cheat.name for cheat in coarse if cheat.name in study.scores]]
    figure = Figure(figsize=(13, 0.3 * len(names) + 1.2), layout="tight")
    axes = figure.subplots(1, len(SHOWN), sharey=True)
    for axis, statistic in zip(axes, SHOWN, strict=True):
        values = [study.scores[name][statistic] for name in names]
        for row, one in enumerate(values):
            low, middle, high = np.quantile(one, [0.0, 0.5, 1.0])
            colour = "tab:green" if row == 0 else "tab:red"
            axis.plot([low, high], [row, row], color=colour, linewidth=2.5, solid_capstyle="butt")
            axis.plot([middle], [row], "o", color=colour, markersize=4)
        axis.axvline(float(values[0].max()), color="tab:green", linewidth=0.8, linestyle=":")
        axis.set_title(statistic, fontsize=9)
        linear = 0.01 if "margin" in statistic else 1.0
        axis.set_xscale("symlog", linthresh=linear)
        axis.set_xlim(left=-linear / 10)
        axis.tick_params(labelsize=7)
        axis.grid(axis="x", linewidth=0.3)
    axes[0].set_yticks(range(len(names)), names, fontsize=8)
    axes[0].invert_yaxis()
    _save(figure, path)


def _curves(study: Study, path: Path) -> None:
    figure = Figure(figsize=(15, 3.4), layout="tight")
    axes = figure.subplots(1, len(STATISTICS[:5]), sharey=True)
    for axis, statistic in zip(axes, STATISTICS[:5], strict=True):
        for name in CURVES:
            if name in study.scores:
                false, true = curve(study.scores["honest"][statistic], study.scores[name][statistic])
                shown = np.linspace(0, len(false) - 1, POINTS).astype(int)
                axis.plot(false[shown], true[shown], label=name, linewidth=1.2)
        axis.set_title(statistic, fontsize=9)
        axis.set_xlabel("honest above the bound", fontsize=8)
        axis.tick_params(labelsize=7)
        axis.grid(linewidth=0.3)
    axes[0].set_ylabel("cheats above the bound", fontsize=8)
    axes[-1].legend(fontsize=7, loc="lower right")
    _save(figure, path)


def _save(figure: Figure, path: Path) -> None:
    with mpl.rc_context({"svg.hashsalt": "bench_verify", "svg.fonttype": "none"}):  # equal figures give equal bytes
        FigureCanvasSVG(figure).print_svg(path, metadata={"Date": None})
