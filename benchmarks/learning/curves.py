"""Plots of several kinds of runs: the mean of each kind as a line, its runs' range as a band."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

WINDOW = 5
"""Steps over which a curve is averaged; the first and last of a curve over fewer."""
Curves = Sequence[tuple[Sequence[float], Sequence[float]]]
"""Each run's x and y."""


def smooth(values: Sequence[float], window: int = WINDOW) -> np.ndarray:
    """Centred moving mean of the same length; near the ends over what there is."""
    data = np.asarray(values, dtype=float)
    half = window // 2
    return np.array([data[max(0, at - half) : at + half + 1].mean() for at in range(len(data))])


def bands(axes: Axes, kinds: Mapping[str, Curves], *, points: int = 200) -> None:
    """Draw each kind over the part of x that all its runs have; mean, and lowest to highest."""
    for name, curves in kinds.items():
        start = max(min(x) for x, _ in curves)
        end = min(max(x) for x, _ in curves)
        grid = np.linspace(start, end, points)
        lines = np.array([np.interp(grid, x, smooth(y)) for x, y in curves])
        [drawn] = axes.plot(grid, lines.mean(axis=0), label=f"{name} ({len(curves)} runs)", linewidth=1.4)
        axes.fill_between(grid, lines.min(axis=0), lines.max(axis=0), color=drawn.get_color(), alpha=0.15, linewidth=0)


def finish(axes: Axes, *, title: str, x: str, y: str) -> None:
    """Words and looks that all plots share."""
    axes.set_title(title, fontsize=10)
    axes.set_xlabel(x, fontsize=9)
    axes.set_ylabel(y, fontsize=9)
    axes.tick_params(labelsize=8)
    axes.grid(linewidth=0.3)
    axes.legend(fontsize=8)


def save(figure: Figure, path: Path) -> None:
    """As SVG; equal figures give equal bytes."""
    with mpl.rc_context({"svg.hashsalt": "bench_learning", "svg.fonttype": "none"}):
        FigureCanvasSVG(figure).print_svg(path, metadata={"Date": None})
