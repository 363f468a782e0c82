"""A run's report as one HTML page that needs no other file.

Decides the page's order and look. Everything that is put into it is escaped: reasons, details and names come from the
network. It reads and writes no file.
"""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from node.live_table import clock
from node.observation import Observation
from node.show import TOKEN_WEI
from node.timeline import StepWaits

Figures = Mapping[str, float | int | None]
STYLE = """
:root{color-scheme:light dark;--ink:#111827;--soft:#6b7280;--line:#e5e7eb;--page:#fff;--bad:#b91c1c}
@media(prefers-color-scheme:dark){:root{--ink:#e5e7eb;--soft:#9ca3af;--line:#374151;--page:#111827;--bad:#f87171}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--page);max-width:62rem;margin:2rem auto;
padding:0 1rem}
h1{font-size:1.5rem}h2{font-size:1.1rem;margin-top:2rem}img{width:100%;border-radius:6px}
.figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(9rem,1fr));gap:.6rem}
.figures div{border:1px solid var(--line);border-radius:6px;padding:.5rem .7rem}
.figures b{display:block;font-size:1.35rem}.figures span{color:var(--soft);font-size:.85rem}
table{border-collapse:collapse;width:100%;font-size:.88rem}
th,td{text-align:left;vertical-align:top;padding:.35rem .5rem;border-bottom:1px solid var(--line)}
th{color:var(--soft);font-weight:500}.bad{color:var(--bad)}code{font-size:.82rem;overflow-wrap:anywhere}
details table{width:auto}
"""


def render_page(
    observation: Observation,
    *,
    figures: Figures,
    fates: Mapping[str, str],
    settings: Mapping[str, Any],
    picture: bytes,
    timeline: bytes,
    waits: Sequence[StepWaits],
    final_policy: Path | None,
) -> str:
    """The page.

    Args:
        figures: name → value; None where there is nothing to state.
        fates: node name → what became of it, in words.
        picture, timeline: PNG bytes, embedded.
        waits: who waited in each step.
    """
    image, lanes = (base64.b64encode(png).decode() for png in (picture, timeline))
    policy = "None: no step was trained."
    if final_policy is not None:
        policy = f"The final policy is in <code>{escape(str(final_policy))}</code>, a folder that transformers loads."
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<title>intellect-node: report of a run</title><style>{STYLE}</style></head><body>
<h1>Report of a run</h1>
<p>{escape(_opening(figures))}</p>
<div class="figures">{_tiles(figures)}</div>
<h2>Curves</h2>
<img alt="Reward, length, gradient norm, entropy, KL and seconds a step" src="data:image/png;base64,{image}">
<h2>Warnings</h2>{_warnings(observation)}
<h2>Who waited for whom</h2>
<img alt="What each node did, over time" src="data:image/png;base64,{lanes}">
{_waits(waits)}
<h2>Who took part</h2>{_nodes_table(observation, fates)}
<h2>Rejections</h2>{_rejections(observation)}
<h2>Verdicts against the outcome</h2>{_dissents(observation)}
<h2>The result</h2><p>{policy}</p>
<h2>Settings</h2>{_settings_tables(settings)}
</body></html>
"""


def _opening(figures: Figures) -> str:
    first, last = figures["reward_first"], figures["reward_last"]
    done = f"{figures['steps']} steps in {clock(figures['minutes'] * 60)} (minutes, seconds)."
    if first is None or last is None:
        return f"{done} No step was trained, so there is no reward to compare."
    return f"{done} The share of right answers went from {first:.2f} to {last:.2f}, {(last - first) * 100:+.0f} points."


def _tiles(figures: Figures) -> str:
    shown = ((name.replace("_", " "), _short(value)) for name, value in figures.items())
    return "".join(f"<div><b>{value}</b><span>{escape(name)}</span></div>" for name, value in shown)


def _short(value: float | int | None) -> str:
    if value is None:
        return "none"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _nodes_table(observation: Observation, fates: Mapping[str, str]) -> str:
    heads = ("name", "role", "address", "tokens/s", "stake", "burnt", "earned", "what became of it")
    rows = []
    for view in observation.nodes.values():
        cells = [escape(view.name), escape(view.role), f"<code>{escape(view.address)}</code>"]
        cells += [f"{view.tokens_per_s:.0f}" if view.tokens else ""]
        cells += [f"{wei / TOKEN_WEI:g}" for wei in (view.stake_wei, view.burnt_wei, view.credit_wei)]
        rows.append(_row([*cells, escape(fates[view.name])], bad=view.ejected))
    return _table(heads, rows)


def _warnings(observation: Observation) -> str:
    rows = [_row([str(w["step"]), escape(str(w.get("sign") or w.get("stage") or w["kind"])), escape(w["told"])])
            for w in observation.warnings]  # fmt: skip
    return _table(("step", "sign", "in words"), rows) if rows else "<p>None.</p>"


def _waits(waits: Sequence[StepWaits]) -> str:
    heads = (
        "step",
        "seconds",
        "training for rollouts",
        "workers for a policy",
        "workers for verdicts",
        "validators idle",
    )
    rows = []
    for step in waits:
        seconds = (step.ended_s - step.began_s, step.trainer_s, step.workers_s, step.verdicts_s, step.idle_s)
        rows.append(_row([str(step.step), *(f"{value:.1f}" for value in seconds)]))
    return f"<details><summary>Seconds waited, step by step</summary>{_table(heads, rows)}</details>"


def _rejections(observation: Observation) -> str:
    """Every rejection with what was measured, beside what accepted submissions measured."""
    names = {view.address: view.name for view in observation.nodes.values()}
    decisive = [verdict for verdict in observation.verdicts if observation.is_outcome(verdict)]
    usual = [json.loads(v["evidence"])["facts"] for v in decisive if v["outcome"] == "accepted"]
    parts, told = [], set[str]()
    for verdict in decisive:
        if verdict["outcome"] != "rejected" or verdict["submission_id"] in told:
            continue
        told.add(verdict["submission_id"])
        evidence = json.loads(verdict["evidence"])
        rows = []
        for name, value in evidence["facts"].items():
            normal = [facts[name] for facts in usual if facts.get(name) is not None]
            rows.append(_row([escape(name.replace("_", " ")), _short(value), _range(normal)]))
        who = escape(names.get(verdict["node"], verdict["node"]))
        parts += [
            f"<p><b>{who}</b>, step {verdict['step']}:",
            f"<span class=bad>{escape(evidence['rejection']['detail'])}</span>",
            f"(<code>{escape(verdict['reason'])}</code>).",
            f"Submission <code>{escape(verdict['submission_id'])}</code>,",
            f"SHA-256 of the evidence <code>{escape(verdict['evidence_hash'])}</code>.</p>",
            _table(("measured", "here", "in accepted submissions"), rows),
        ]
    return "\n".join(parts) or "<p>None.</p>"


def _dissents(observation: Observation) -> str:
    """What changed nothing, one row a validator and a worker."""
    names = {view.address: view.name for view in observation.nodes.values()}
    against = Counter(
        (verdict["validator"], names.get(verdict["node"], verdict["node"]), verdict["outcome"], verdict["reason"])
        for verdict in observation.verdicts
        if bytes.fromhex(verdict["submission_id"]) in observation.outcomes and not observation.is_outcome(verdict)
    )
    rows = [_row([*map(escape, said), str(count)]) for said, count in against.items()]
    heads = ("validator", "said of", "verdict", "reason", "times")
    return f"{_table(heads, rows)}<p>None of them changed anything.</p>" if rows else "<p>None.</p>"


def _settings_tables(settings: Mapping[str, Any]) -> str:
    parts = []
    for section, values in settings.items():
        pairs = values.items() if isinstance(values, Mapping) else [("", values)]
        rows = [_row([escape(str(key)), f"<code>{escape(str(value))}</code>"]) for key, value in pairs]
        opened = " open" if section in ("task", "rl") else ""
        parts.append(f"<details{opened}><summary>{escape(str(section))}</summary>{_table((), rows)}</details>")
    return "".join(parts)


def _range(values: Sequence[float]) -> str:
    return f"{_short(min(values))} to {_short(max(values))}" if values else "none"


def _table(heads: Sequence[str], rows: Sequence[str]) -> str:
    head = "<tr>" + "".join(f"<th>{escape(name)}</th>" for name in heads) + "</tr>" if heads else ""
    return f"<table>{head}{''.join(rows)}</table>"


def _row(cells: Sequence[str], *, bad: bool = False) -> str:
    """Cells are HTML already."""
    return f"<tr{' class=bad' if bad else ''}>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"
