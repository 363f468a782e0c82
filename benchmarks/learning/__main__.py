"""`scripts/bench_learning [ITEM …]`: runs items of the study, or all, and writes JSON, tables and plots.

What each item found is kept, so that figures and page always hold the last result of every item.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path

import click

from benchmarks.learning import items
from benchmarks.page import fill
from rl.hardware import thread_environment

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = "scripts/bench_learning"


@click.command(help=__doc__)
@click.argument("names", metavar="[ITEM]...", nargs=-1)
@click.option("--quick", is_flag=True, help="only whether everything works: some minutes, figures that mean nothing")
@click.option("--json", "target", type=click.Path(path_type=Path), help="write the figures to this file")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="where work and results are kept [default: out/bench_learning, or out/bench_learning_quick]",
)
@click.option("--docs", is_flag=True, help="write tables into docs/learning.md and plots beside it")
def main(names: tuple[str, ...], quick: bool, target: Path | None, out: Path | None, docs: bool) -> None:
    started = time.monotonic()
    # Before an item imports torch, and for all processes that it starts: on few cores, teams of threads only spin.
    os.environ.update(thread_environment(1))
    try:
        chosen = {name: items.load(name) for name in names or items.names()}
    except KeyError as fault:
        raise click.BadParameter(fault.args[0], param_hint="ITEM") from fault
    folder = (out or ROOT / "out" / ("bench_learning_quick" if quick else "bench_learning")).absolute()
    refused = []
    for name, item in chosen.items():

        def say(words: str, name: str = name) -> None:
            click.echo(f"{time.monotonic() - started:6.0f} s  {name}: {words}", err=True)

        say(item.TITLE)
        place = folder / name
        place.mkdir(parents=True, exist_ok=True)
        try:
            items.keep(item.run(place, quick=quick, say=say), place)
        except items.NotRun as fault:
            say(f"not run: {fault}")
            refused.append(name)
    found = items.kept(folder)
    if docs:
        into_page(found, folder)
    figures = items.together(found)
    text = json.dumps(figures, indent=1, sort_keys=True) + "\n"
    for path in {folder / "figures.json", target or folder / "figures.json"}:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    click.echo("\n\n".join(f"{name}:\n\n{found[name].table}" for name in chosen if name in found))
    click.echo(f"figures of {', '.join(found)} in {target or folder / 'figures.json'}", err=True)
    if names and refused:
        raise click.ClickException(f"not run: {', '.join(refused)}; the reasons are above")


def into_page(found: dict[str, items.Found], folder: Path) -> None:
    """Put every table and plot that there is into docs/."""
    page = ROOT / "docs" / "learning.md"
    page.write_text(fill(page.read_text(), {name: one.table for name, one in found.items()}, SCRIPT))
    for name, one in found.items():
        for plot in one.plots:
            shutil.copyfile(folder / name / plot, ROOT / "docs" / f"learning-{plot}")


if __name__ == "__main__":
    main()
