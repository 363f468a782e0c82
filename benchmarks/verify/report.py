"""The study as JSON and as the tables of docs/verification.md. Pure: figures in, text out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from benchmarks.page import markdown
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


def tables(study: Study, costs: Mapping[str, Any]) -> dict[str, str]:
    """Name → markdown of every table."""
    told = [cheat for cheat in study.cheats if cheat.seeded and cheat.prefill == "bfloat16"]
    coarse = [cheat for cheat in told if not cheat.policy]
    fine = [cheat for cheat in study.cheats if cheat.prefill == "float32"]
    plain = [cheat for cheat in study.cheats if not cheat.seeded]
    found = {
        "honest": _honest(study.honest),
        "bounds": _chances([kind for kind in study.honest if not kind.policy]),
        "cheats": _cheats([cheat for cheat in coarse if cheat.setting == "long"]),
        "demo": _cheats([cheat for cheat in coarse if cheat.setting == "demo"]),
        "learned": _cheats([cheat for cheat in told if cheat.policy]),
        "float32": _cheats(fine),
        "unseeded": _unseeded(plain),
        "areas": _areas([cheat for cheat in coarse if cheat.area]),
        "costs": _costs(costs),
        "ratios": _ratios(costs),
    }
    return {name: table for name, table in found.items() if table.count("\n") > 1}


def _title(kind: HonestKind) -> str:
    policy = f"{kind.policy}, " if kind.policy else ""
    return f"{policy}{kind.setting}: {kind.decode} → {kind.prefill}"


def _honest(kinds: Sequence[HonestKind]) -> str:
    head = ["decode → prefill", "completions", *kinds[0].moments, "looked at twice", "rejected", "chance of it"]
    rows = [
        [
            _title(kind),
            str(kind.completions),
            *(f"{mean:.2g}" if name == "token not forced" else f"{mean:.2g} ± {sigma:.2g}, {most:.2g}"
              for name, (mean, sigma, most) in kind.moments.items()),
            _share(kind.looked_again),
            f"{kind.rejected} of {kind.submissions}, {kind.drawn_rejected} of {kind.drawn} drawn",
            f"{kind.chance:.0e}",
        ]
        for kind in kinds
    ]  # fmt: skip
    return markdown(head, rows)


def _chances(kinds: Sequence[HonestKind]) -> str:
    """Of means there is no one bound to be named: it depends on how many they are of."""
    rows = []
    for place, name in enumerate(bound.name for bound in kinds[0].bounds):
        several = [kind.bounds[place] for kind in kinds]
        cells = [
            f"{one.chance:.0e}" if one.bound == 0.0 else f"{one.worst:.2g} of {one.bound:.2g}: {one.chance:.0e}"
            for one in several
        ]
        rows.append([name, *cells])
    return markdown(["bound", *(_title(kind) for kind in kinds)], rows)


def _cheats(cheats: Sequence[Cheat]) -> str:
    head = ["cheat", "completions", "caught", *(f"`{name}`" for name in CHECKS)]
    rows = [
        [
            cheat.name.removeprefix("demo ")
            + (" (demo)" if cheat.prefill == "float32" and cheat.setting == "demo" else ""),
            str(cheat.completions),
            _share(cheat.caught),
            *(_share(cheat.by_check[name]) for name in CHECKS),
        ]
        for cheat in cheats
    ]
    return markdown(head, rows)


def _areas(cheats: Sequence[Cheat]) -> str:
    rows = [
        [cheat.name, *(f"{cheat.area_of_one[name]:.3f} / {cheat.area[name]:.3f}" for name in AREAS)] for cheat in cheats
    ]
    return markdown(["cheat", *(SHORT[name] for name in AREAS)], rows)


def _costs(costs: Mapping[str, Any]) -> str:
    rates = costs["tokens_a_second"]
    rows = [[name, f"{spent:.2f}", f"{rates[name]:.0f}"] for name, spent in costs["cpu_ms_a_token"].items()]
    return markdown(["", "CPU-ms a token", "tokens/s by the clock"], rows)


def _ratios(costs: Mapping[str, Any]) -> str:
    kinds = ("verify_vs_generate", "verify_vs_generate_by_clock", "verify_by_vllm_vs_generate")
    rows = [[rows, *(f"{costs[kind][rows]:.1f}" for kind in kinds)] for rows in costs[kinds[0]]]
    return markdown(["completions decoded together", "CPU time", "by the clock", "CPU time, prefill by vLLM"], rows)


def _unseeded(cheats: Sequence[Cheat]) -> str:
    rows = [
        [cheat.name, _share(cheat.caught), *(_share(cheat.by_check[name]) for name in UNSEEDED)] for cheat in cheats
    ]
    return markdown(["cheat", "caught", *(f"`{name}`" for name in UNSEEDED)], rows)


def _share(share: float) -> str:
    return f"{100 * share:.1f} %" if 0.0 < share < 1.0 else f"{100 * share:.0f} %"
