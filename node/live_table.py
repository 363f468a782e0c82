"""The run as a person watches it: a table on a terminal, one line now and then elsewhere.

Draws an `Observation` and nothing else. It knows neither clock nor screen, and never prints.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from node.observation import NodeView, Observation
from node.show import TOKEN_WEI

BARS = "▁▂▃▄▅▆▇█"
SPARK_STEPS = 30
NOTHING = "·"
ACTIVITY_CHARS = 24
SHOWN_WARNINGS = 3
COLUMNS = (
    ("name", "left"), ("role", "left"), ("address", "left"), ("now", "left"), ("policy", "right"), ("tok/s", "right"),
    ("sent", "right"), ("ok", "right"), ("bad", "right"), ("late", "right"), ("stake", "right"), ("earned", "right"),
    ("state", "left"),
)  # fmt: skip


def render(observation: Observation, *, elapsed_s: float) -> RenderableType:
    """The whole view: a header, a row per node, below it who was ejected, who dissented, and what the trainer warns of.

    Made for 100 columns.
    """
    views = observation.nodes.values()
    return Group(
        _header(observation, elapsed_s), _table(tuple(views)), *_reasons(tuple(views)), *_warnings(observation)
    )


def plain_line(observation: Observation, elapsed_s: float) -> str:
    """The run in one line of plain text. Time is in whole minutes, so that a line changes when something happened."""
    accepted, rejected, late, pending = verdict_counts(observation)
    rewards = rewards_of(observation)
    parts = [
        f"{int(elapsed_s) // 60} min",
        f"step {len(observation.steps)} of {observation.wanted_steps}",
        f"policy {_version(observation.policy_version)}",
        f"reward {rewards[-1]:.2f}" if rewards else "no reward yet",
        f"{accepted} accepted, {rejected} rejected, {late} late, {pending} waiting",
    ]
    parts += [f"{view.name} ejected" for view in observation.nodes.values() if view.ejected]
    parts += [f"{view.name} outvoted {view.dissents} times" for view in observation.nodes.values() if view.dissents]
    parts += [f"stuck: {observation.stuck}"] if observation.stuck else []
    if observation.warnings:
        parts.append(f"{len(observation.warnings)} warnings, the last: {observation.warnings[-1]['told']}")
    return " | ".join(parts)


def verdict_counts(observation: Observation) -> tuple[int, int, int, int]:
    """Submissions accepted, rejected, late, and not yet judged."""
    views = observation.nodes.values()
    accepted, rejected, late = (sum(getattr(v, name) for v in views) for name in ("accepted", "rejected", "late"))
    return accepted, rejected, late, max(0, sum(v.submissions for v in views) - accepted - rejected - late)


def rewards_of(observation: Observation) -> list[float]:
    """Mean reward of each trained step, in the order of steps."""
    return [step["reward"] for step in sorted(observation.steps, key=lambda step: step["step"])]


def tokens_per_s(observation: Observation, elapsed_s: float) -> float:
    """Tokens of all workers together over the run's whole time, start-up and waiting included."""
    return sum(view.tokens for view in observation.nodes.values()) / elapsed_s if elapsed_s > 0 else 0.0


def spark_line(values: Sequence[float], *, lowest: float = 0.0, highest: float = 1.0) -> str:
    """One bar a value; what lies outside the range is drawn at its edge."""
    steps = len(BARS) - 1
    shares = ((min(max(value, lowest), highest) - lowest) / (highest - lowest) for value in values)
    return "".join(BARS[round(share * steps)] for share in shares)


def short_address(address: str) -> str:
    """Enough of an address to tell nodes apart: 0x12…cdef."""
    return f"{address[:4]}…{address[-4:]}" if len(address) > 10 else address


def clock(elapsed_s: float) -> str:
    """Minutes and seconds, hours where there are any."""
    minutes, seconds = divmod(int(elapsed_s), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def _version(version: int) -> str:
    return NOTHING if version < 0 else str(version)


def _header(observation: Observation, elapsed_s: float) -> Text:
    accepted, rejected, late, pending = verdict_counts(observation)
    rewards = rewards_of(observation)
    line = Text(no_wrap=True, overflow="ellipsis")
    line.append(f"step {len(observation.steps)}/{observation.wanted_steps}", style="bold")
    line.append(f"  policy {_version(observation.policy_version)}  reward ")
    line.append(f"{rewards[-1]:.2f} " if rewards else NOTHING, style="bold green")
    line.append(spark_line(rewards[-SPARK_STEPS:]), style="green")
    line.append(f"  {tokens_per_s(observation, elapsed_s):.0f} tok/s  ")
    line.append(f"{accepted} ok", style="green")
    line.append(f" {rejected} bad", style="red" if rejected else "")
    line.append(f" {late} late {pending} open")
    line.append(f"  {clock(elapsed_s)}\n", style="dim")
    return line


def _table(views: Sequence[NodeView]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=0, show_edge=False, header_style="dim")
    for name, justify in COLUMNS:
        table.add_column(name, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    for view in views:
        table.add_row(*_cells(view), style="red" if view.ejected else "")
    return table


def _cells(view: NodeView) -> tuple[Text, ...]:
    counts = (view.submissions, view.accepted, view.rejected, view.late)
    if view.role == "validator":  # verdicts, those that were the outcome, those that were not
        counts = (view.verdicts, view.verdicts - view.dissents, view.dissents, 0)
    outside = "manager" if view.role == "trainer" else "outside"
    state = "ejected" if view.ejected else "member" if view.member else outside
    cells = (
        view.name,
        view.role,
        short_address(view.address),
        view.activity,
        _version(view.policy_version),
        f"{view.tokens_per_s:.0f}" if view.tokens else NOTHING,
        *(str(count) if view.role in ("worker", "validator") else NOTHING for count in counts),
        f"{view.stake_wei / TOKEN_WEI:g}" if view.staked_wei else NOTHING,
        f"{view.credit_wei / TOKEN_WEI:.3g}" if view.role == "worker" else NOTHING,
        state,
    )
    texts = tuple(Text(cell) for cell in cells)
    texts[3].truncate(ACTIVITY_CHARS, overflow="ellipsis")
    return texts


def _reasons(views: Sequence[NodeView]) -> list[Text]:
    ejected = (view for view in views if view.ejected)
    told = [Text.assemble((f"\n{view.name} was ejected. ", "bold red"), view.ejection_reason) for view in ejected]
    dissenters = (view for view in views if view.dissents)
    return told + [Text(f"\n{view.name}: {dissent_told(view)}", style="yellow") for view in dissenters]


def _warnings(observation: Observation) -> list[Text]:
    """The newest ones; that a stage was stuck is told only while it is."""
    shown = [w for w in observation.warnings if w["kind"] != "stuck"][-SHOWN_WARNINGS:]
    shown += [w for w in observation.warnings[-1:] if w["kind"] == "stuck" and observation.stuck]
    return [Text(f"\nstep {w['step']}: {w['told']}", style="yellow") for w in shown]


def dissent_told(view: NodeView) -> str:
    """How a validator stood to the outcomes, in words."""
    return f"{view.dissents} of {view.verdicts} verdicts were against the outcome and changed nothing."
