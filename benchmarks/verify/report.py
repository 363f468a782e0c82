"""The study as JSON and as the tables of docs/verification.md. Pure: figures in, text out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from benchmarks.verify.judging import CHECKS, UNSEEDED
from benchmarks.verify.study import Cheat, HonestKind, Study
from verify.audit import share_needed

GOAL = 0.999
AREAS = ("mantissa error, mean", "exponent mismatches, mean", "margin, mean", "margin, largest", "log-prob gap, mean")
SHORT = {
    "mantissa error, mean": "mantissa",
    "exponent mismatches, mean": "exponents",
    "margin, mean": "margin",
    "margin, largest": "worst margin",
    "log-prob gap, mean": "log-prob",
}


def summary(study: Study, costs: Mapping[str, Any]) -> dict[str, Any]:
    """What `--json` writes; plain numbers throughout."""
    seeded = [cheat for cheat in study.cheats if cheat.seeded and cheat.prefill == "bfloat16"]
    kinds = [{**asdict(kind), "chance": kind.chance} for kind in study.honest]
    return {
        "honest_sequences": sum(kind.completions for kind in study.honest if kind.prefill == "bfloat16"),
        "honest_rejections": sum(kind.rejected for kind in study.honest),
        "honest_rejections_drawn": sum(kind.drawn_rejected for kind in study.honest),
        "honest_rejection_chance": {_title(kind): kind.chance for kind in study.honest},
        "cheats": {cheat.name: cheat.caught for cheat in seeded},
        "cheats_missed": [cheat.name for cheat in seeded if cheat.caught < GOAL],
        "separation": [asdict(cheat) for cheat in study.cheats],
        "honest": kinds,
        "unseeded_honest": {"submissions": study.unseeded_honest[0], "rejected": study.unseeded_honest[1]},
        "copies": study.copies,
        "audit": audit_table(),
        **costs,
    }


def audit_table(groups: int = 16) -> dict[str, dict[str, float]]:
    """Faked groups → submissions → least audited share that catches with 99 %."""
    return {
        str(faked): {str(many): share_needed(groups, faked, many) for many in (1, 5, 20)} for faked in (1, 2, 4, 8, 16)
    }


def markdown(study: Study) -> str:
    """All tables, in the order of the page."""
    parts = [_honest(study.honest), _chances(study.honest)]
    coarse = [cheat for cheat in study.cheats if cheat.seeded and cheat.prefill == "bfloat16"]
    for words, some, table in (
        ("Cheats, 64 tokens", [cheat for cheat in coarse if cheat.setting == "long"], _cheats),
        ("Cheats, 10 tokens, the demo's setting", [cheat for cheat in coarse if cheat.setting == "demo"], _cheats),
        ("A validator in float32", [cheat for cheat in study.cheats if cheat.prefill == "float32"], _cheats),
        ("An unseeded pool", [cheat for cheat in study.cheats if not cheat.seeded], _unseeded),
    ):
        if some:
            parts.append(f"{words}:\n\n{table(some)}")
    return "\n\n".join(parts) + "\n"


def _title(kind: HonestKind) -> str:
    return f"{kind.setting}: {kind.decode} → {kind.prefill}"


def _honest(kinds: Sequence[HonestKind]) -> str:
    head = ["setting: decode → prefill", "completions", *kinds[0].moments, "submissions rejected", "drawn", "chance"]
    rows = [
        [
            _title(kind),
            str(kind.completions),
            *(f"{mean:.3g} ± {sigma:.2g}, {most:.3g}" for mean, sigma, most in kind.moments.values()),
            f"{kind.rejected} of {kind.submissions}",
            f"{kind.drawn_rejected} of {kind.drawn}",
            f"{kind.chance:.1e}",
        ]
        for kind in kinds
    ]
    return _table(head, rows)


def _chances(kinds: Sequence[HonestKind]) -> str:
    names = [bound.name for bound in kinds[0].bounds]
    rows = []
    for place, name in enumerate(names):
        cells = []
        for kind in kinds:
            bound = kind.bounds[place]
            cells.append(f"{bound.worst:.3g} / {bound.bound:.3g}: {bound.chance:.0e}")
        rows.append([name, *cells])
    return _table(["bound", *(_title(kind) for kind in kinds)], rows)


def _cheats(cheats: Sequence[Cheat]) -> str:
    head = ["cheat", "completions", "caught", *(f"`{name}`" for name in CHECKS), *(SHORT[name] for name in AREAS)]
    rows = [
        [
            cheat.name.removeprefix("demo "),
            str(cheat.completions),
            _share(cheat.caught),
            *(_share(cheat.by_check[name]) for name in CHECKS),
            *(f"{cheat.area[name]:.3f}" if cheat.area else "" for name in AREAS),
        ]
        for cheat in cheats
    ]
    return _table(head, rows)


def _unseeded(cheats: Sequence[Cheat]) -> str:
    rows = [
        [cheat.name, _share(cheat.caught), *(_share(cheat.by_check[name]) for name in UNSEEDED)] for cheat in cheats
    ]
    return _table(["cheat", "caught", *(f"`{name}`" for name in UNSEEDED)], rows)


def _share(share: float) -> str:
    return f"{100 * share:.1f} %" if 0.0 < share < 1.0 else f"{100 * share:.0f} %"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
