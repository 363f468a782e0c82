"""`scripts/bench_verify`: collects what is missing, studies it, measures costs, and writes JSON, tables and plots."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import click

from benchmarks.page import fill
from benchmarks.verify.collect import ROOT, StudyFailed, collect, environment

ROUNDS = {False: 5, True: 1}
"""Of costs, in a full and in a quick study."""


@click.command(help=__doc__)
@click.option("--quick", is_flag=True, help="one submission of each case, no trained policies: some minutes")
@click.option("--json", "target", type=click.Path(path_type=Path), help="write the figures to this file")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="where work is kept, to go on with or to judge anew by other bounds [default: out/bench_verify]",
)
@click.option("--docs", is_flag=True, help="write plots and tables into docs/ (else beside the work)")
@click.option("--no-costs", is_flag=True, help="leave the costs as they were measured last")
def main(quick: bool, target: Path | None, out: Path | None, docs: bool, no_costs: bool) -> None:
    started = time.monotonic()

    def say(words: str) -> None:
        click.echo(f"{time.monotonic() - started:5.0f} s  {words}", err=True)

    folder = (out or ROOT / "out" / ("bench_verify_quick" if quick else "bench_verify")).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        collect(folder, quick=quick, say=say)
        costs = _costs(folder / "costs.json", rounds=ROUNDS[quick], keep=no_costs)
    except StudyFailed as fault:
        raise click.ClickException(f"{fault}. What was made is kept: start again to go on.") from fault

    from benchmarks.verify.plots import draw
    from benchmarks.verify.report import summary, tables
    from benchmarks.verify.study import study

    say("judging")
    found = study(folder, quick=quick)
    figures = summary(found, costs)
    made = tables(found, costs)
    draw(found, ROOT / "docs" if docs else folder)
    if docs:
        page = ROOT / "docs" / "verification.md"
        page.write_text(fill(page.read_text(), made, "scripts/bench_verify"))
    text = "\n\n".join(f"{name}:\n\n{table}" for name, table in made.items())
    (folder / "tables.md").write_text(text + "\n")
    for path in {folder / "figures.json", target or folder / "figures.json"}:
        path.write_text(json.dumps(figures, indent=1, sort_keys=True) + "\n")
    click.echo(text)
    click.echo(json.dumps({key: figures[key] for key in HEADLINES if key in figures}, indent=1))
    say(f"figures in {target or folder / 'figures.json'}, tables in {folder / 'tables.md'}")


HEADLINES = (
    "honest_sequences",
    "honest_rejections",
    "honest_rejection_chance",
    "cheats",
    "cheats_missed",
    "proof_cost",
    "seeded_cost",
    "verify_vs_generate",
    "memory_mib",
)


def _costs(path: Path, *, rounds: int, keep: bool) -> dict[str, Any]:
    if not (keep and path.exists()):
        command = ["nice", "-n", "5", sys.executable, "-W", "ignore", "-m", "benchmarks.verify.costs", str(rounds)]
        done = subprocess.run(command, cwd=ROOT, env=environment(1), stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            raise StudyFailed("benchmarks.verify.costs failed; its message is above")
        path.write_text(done.stdout.splitlines()[-1] + "\n")
    return json.loads(path.read_text())


if __name__ == "__main__":
    main()
