"""What a run came to, for reading afterwards: report.json, reward.png, timeline.png and report.html.

Decides which figures sum a run up and how each participant's fate is put into words. It measures nothing and judges
nobody. A file is whole or not there.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from node.live_table import dissent_told, rewards_of, tokens_per_s
from node.observation import NodeView, Observation
from node.report_curves import draw
from node.report_page import render_page
from node.report_timeline import draw_timeline
from node.show import TOKEN_WEI

FIRST_STEPS, LAST_STEPS = 2, 3


def write_report(
    observation: Observation,
    out: Path,
    *,
    minutes: float,
    peak_memory_gb: float,
    settings: dict[str, Any],
    final_policy: Path | None,
) -> None:
    """Write the four files into the existing folder `out`. Raises OSError (disk full, say), leaving no half file.

    Args:
        settings: the run's config, section → key → value.
        final_policy: folder of the newest trained policy; None if no step was trained.
    """
    figures = key_figures(observation, minutes=minutes, peak_memory_gb=peak_memory_gb)
    fates = {view.name: fate(view, observation) for view in observation.nodes.values()}
    nodes = [asdict(view) | {"fate": fates[view.name]} for view in observation.nodes.values()]
    steps = observation.timeline.steps()
    document = figures | {
        "rewards": rewards_of(observation), "warnings": observation.warnings, "waits": [asdict(step) for step in steps],
        "settings": settings, "nodes": nodes,
    }  # fmt: skip
    picture, timeline = draw(observation), draw_timeline(observation.timeline)
    page = render_page(
        observation, figures=figures, fates=fates, settings=settings, picture=picture, timeline=timeline, waits=steps,
        final_policy=final_policy,
    )  # fmt: skip
    _write(out / "report.json", (json.dumps(document, indent=2, default=str) + "\n").encode())
    _write(out / "reward.png", picture)
    _write(out / "timeline.png", timeline)
    _write(out / "report.html", page.encode())


def key_figures(observation: Observation, *, minutes: float, peak_memory_gb: float) -> dict[str, float | int | None]:
    """The run in numbers; a reward is None where no step was trained, a latency where nothing was judged.

    `dissents` counts the verdicts that were against the outcome, `unjudged` the submissions without one, and a
    verdict's latency is from the submission's event to its outcome.
    """
    rewards, views = rewards_of(observation), observation.nodes.values()
    return {
        "reward_first": _mean(rewards[:FIRST_STEPS]),
        "reward_last": _mean(rewards[-LAST_STEPS:]),
        "steps": len(rewards),
        "minutes": round(minutes, 2),
        "peak_memory_gb": round(peak_memory_gb, 2),
        "cheats_ejected": sum(view.ejected and not view.honest for view in views),
        "honest_rejected": sum(view.rejected for view in views if view.honest),
        "submissions": sum(view.submissions for view in views),
        "tokens_per_s": round(tokens_per_s(observation, minutes * 60), 1),
        "validators": sum(view.role == "validator" for view in views),
        "dissents": sum(view.dissents for view in views),
        "unjudged": sum(view.submissions - view.accepted - view.rejected - view.late for view in views),
        "weights_fetched_mb": round(sum(view.fetched_bytes for view in views) / 1e6, 1),
        "weights_saved_mb": round(sum(view.whole_bytes - view.fetched_bytes for view in views) / 1e6, 1),
        "deltas": sum(view.deltas for view in views),
        "verdict_p50_s": _rounded(observation.latency_p50_s),
        "verdict_max_s": _rounded(max(observation.latencies_s, default=None)),
    }


def fate(view: NodeView, observation: Observation) -> str:
    """What became of one participant, in words."""
    staked, burnt = view.staked_wei / TOKEN_WEI, view.burnt_wei / TOKEN_WEI
    stake = f"{burnt:g} of {staked:g} staked tokens were burnt." if burnt else "Its stake is untouched."
    if view.open_cases and not burnt:
        stake = "Its stake is locked until the time to appeal is over."
    if view.ejected:
        detail = rejection_detail(view, observation)
        return f"Ejected. {view.ejection_reason}{f' Measured: {detail}.' if detail else ''} {stake}"
    if view.role == "trainer":
        return f"Trained {len(observation.steps)} steps and announced policy {observation.policy_version}."
    if not view.member:
        return "Never became a member."
    if view.role == "worker":
        waiting = view.submissions - view.accepted - view.rejected - view.late
        counts = f"{view.accepted} accepted, {view.rejected} rejected, {view.late} late, {waiting} without a verdict"
        earned = f"Earned {view.credit_wei / TOKEN_WEI:g} tokens for {view.units} units of verified work."
        return f"{view.submissions} submissions: {counts}. {earned} {stake}"
    if view.role == "validator":
        told = f"Gave {view.verdicts} verdicts"
        return f"{told}: {dissent_told(view)} {stake}" if view.dissents else f"{told}. {stake}"
    return f"A member to the end. {stake}"


def rejection_detail(view: NodeView, observation: Observation) -> str:
    """What a validator measured when this node's submission was rejected; empty if none was."""
    for verdict in observation.verdicts:
        if verdict["node"] == view.address and verdict["outcome"] == "rejected" and observation.is_outcome(verdict):
            return str(json.loads(verdict["evidence"])["rejection"]["detail"])
    return ""


def summary_text(observation: Observation, out: Path) -> str:
    """The closing lines for a terminal; plain text, not markup."""
    rewards = rewards_of(observation)
    first, last = _mean(rewards[:FIRST_STEPS]), _mean(rewards[-LAST_STEPS:])
    lines = [f"{len(rewards)} of {observation.wanted_steps} steps trained."]
    if first is not None and last is not None:
        lines.append(f"reward {first:.2f} → {last:.2f} ({(last - first) * 100:+.0f} points)")
    lines += [f"step {warning['step']}: {warning['told']}" for warning in observation.warnings]
    lines += weights_told(observation)
    width = max((len(name) for name in observation.nodes), default=0)
    lines += [f"  {view.name:<{width}}  {fate(view, observation)}" for view in observation.nodes.values()]
    model = out / "model"
    if model.exists():
        lines.append(f"model   {model}")
    return "\n".join([*lines, f"report  {out / 'report.html'}"])


def weights_told(observation: Observation) -> list[str]:
    """How much of the policies came over the network, in a line; none before the first."""
    views = observation.nodes.values()
    whole, fetched = (sum(sizes) for sizes in ([v.whole_bytes for v in views], [v.fetched_bytes for v in views]))
    if not whole:
        return []
    deltas = sum(view.deltas for view in views)
    saved = f"{(whole - fetched) / whole:.0%} saved by {deltas} deltas"
    return [f"weights {fetched / 1e6:,.0f} MB fetched for {whole / 1e6:,.0f} MB of policies ({saved})"]


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)


def _write(path: Path, data: bytes) -> None:
    partial = path.with_name(path.name + ".part")
    try:
        with partial.open("wb") as sink:
            sink.write(data)
            sink.flush()
            os.fsync(sink.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
