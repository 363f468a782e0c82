"""Who waited for whom, as a picture: one row a node, time to the right, a line wherever a policy was published.

Draws what a `Timeline` holds of the last steps, also of none. What moves in the background (fetching, uploading) is the
thin part of a row, so that it hides nothing that was computed meanwhile.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from node.spans import Activity
from node.timeline import Span, Timeline

SHOWN_STEPS = 12
MAX_ROWS = 24
MAX_BARS = 4000
"""Of one picture; a run of many short spans is drawn from its end."""
ROLES = ("trainer", "worker", "validator", "relay")
GREY, RED = "#e5e7eb", "#dc2626"
COLOURS = {
    Activity.TRAINING: "#2563eb", Activity.GENERATING: "#059669", Activity.CHECKING: "#7c3aed",
    Activity.PUBLISHING: "#d97706", Activity.SWAPPING: "#0891b2", Activity.UPLOADING: "#84cc16",
    Activity.FETCHING: "#f59e0b", Activity.WAITING_FOR_ROLLOUTS: "#fca5a5", Activity.WAITING_FOR_POLICY: "#f87171",
    Activity.WAITING_FOR_VERDICTS: "#fecaca", Activity.IDLE: GREY,
}  # fmt: skip
BACKGROUND = (Activity.FETCHING, Activity.UPLOADING)


def draw_timeline(timeline: Timeline) -> bytes:
    """The last SHOWN_STEPS steps as PNG."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    steps = timeline.steps()[-SHOWN_STEPS:]
    spans = list(timeline.spans)
    zero_s = steps[0].began_s if steps else min((span.began_s for span in spans), default=0.0)
    # Until the first worker generates there is only waiting.
    zero_s = max(zero_s, min((span.began_s for span in spans if span.activity is Activity.GENERATING), default=zero_s))
    end_s = steps[-1].ended_s if steps else max((span.ended_s for span in spans), default=zero_s)
    spans = [span for span in spans if span.ended_s > zero_s and span.began_s < end_s][-MAX_BARS:]
    rows = _rows(spans)
    figure = Figure(figsize=(11, 1.6 + 0.34 * max(1, len(rows))), dpi=110, facecolor="white", layout="constrained")
    axes = figure.add_subplot()
    for activity, colour in COLOURS.items():
        for number, name in enumerate(rows):
            bars = [
                (max(span.began_s, zero_s) - zero_s, min(span.ended_s, end_s) - max(span.began_s, zero_s))
                for span in spans
                if span.node == name and span.activity is activity
            ]
            low, height = (number + 0.22, 0.16) if activity in BACKGROUND else (number - 0.38, 0.58)
            axes.broken_barh(bars, (low, height), facecolors=colour, linewidth=0)
    for waits in steps:
        at = waits.ended_s - zero_s
        axes.axvline(at, color=RED, linewidth=0.7, alpha=0.6)
        axes.text(at, -0.62, str(waits.step + 1), fontsize=6, ha="right", color=RED)
    axes.set(
        yticks=range(len(rows)),
        yticklabels=rows,
        xlabel="seconds",
        title="Who waited for whom (red: a policy is published)",
    )
    axes.set_ylim(max(1, len(rows)) - 0.5, -0.9)
    axes.set_xlim(0, max(end_s - zero_s, 1.0))
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(labelsize=8, left=False)
    axes.title.set_fontsize(11)
    seen = {span.activity for span in spans}
    if seen:
        patches = [Patch(color=colour, label=str(a)) for a, colour in COLOURS.items() if a in seen]
        figure.legend(handles=patches, loc="outside lower center", ncols=6, fontsize=7, frameon=False)
    else:
        axes.text(0.5, 0.5, "nothing was recorded", ha="center", va="center", transform=axes.transAxes)
    return _png(figure)


def _rows(spans: Sequence[Span]) -> list[str]:
    """Names from the trainer down; of many nodes those that did most."""
    busy: dict[tuple[int, str], float] = {}
    for span in spans:
        key = (ROLES.index(span.role) if span.role in ROLES else len(ROLES), span.node)
        busy[key] = busy.get(key, 0.0) + span.seconds
    most = sorted(busy, key=lambda key: (key[0] > 0, -busy[key]))[:MAX_ROWS]
    return [name for _, name in sorted(most)]


def _png(figure: Any) -> bytes:
    sink = io.BytesIO()
    figure.savefig(sink, format="png")
    return sink.getvalue()
