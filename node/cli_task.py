"""The commands `task …`: what a task holds, a test set held out of it, and the problems that are worth training on.

Decides how they are spelled.
"""

from __future__ import annotations

import json
from pathlib import Path

import click

from node.cli_asking import Choice, model_folder, with_asking
from node.cli_options import FILE, FOLDER, json_option
from node.errors import UserError
from node.show import clean, facts


@click.group("task")
def task_group() -> None:
    """Look at a task, hold a test out of it, keep what is neither too hard nor too easy."""


@task_group.command("show")
@click.argument("name")
@json_option
def task_show(name: str, as_json: bool) -> None:
    """Say what the task NAME holds: problems, hash, types, what was dropped, and three of them.

    \b
    Examples:
      intellect-node task show maths
      intellect-node task show /data/mine.jsonl --json
    """
    from node.asking import usable_task
    from node.task_file import described

    found = described(usable_task(name))
    if as_json:
        click.echo(json.dumps(found, indent=2))
        return
    samples = found.pop("samples")
    told = {
        "task": found["name"],
        "problems": str(found["problems"]),
        "sha256": found["sha256"],
        "types": ", ".join(
            f"{count} {kind} (version {found['versions'][kind]})" for kind, count in found["types"].items()
        ),
        "dropped": ", ".join(f"{count} {fault}" for fault, count in sorted(found["dropped"].items())) or "nothing",
        "mean prompt": f"{found['mean_prompt_characters']:.0f} characters",
    }
    facts(found, as_json=False, told=told)
    for sample in samples:
        click.echo(f"\n{clean(sample['problem_id'])}")
        for line in sample["prompt"].splitlines():
            click.echo(f"  {clean(line)}")
        click.echo(f"  = {clean(sample['gold_standard_solution']) or '(its tests say)'}")


@task_group.command("split")
@click.argument("name")
@click.option(
    "--test", type=click.FloatRange(0, 1, min_open=True, max_open=True), default=0.2, show_default=True,
    help="Share of the problems that is held out.",
)  # fmt: skip
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), default=0, show_default=True, help="Another, another split.")
@click.option("--out", type=FOLDER, required=True, help="Folder for train.jsonl and test.jsonl.")
@json_option
def task_split(name: str, test: float, seed: int, out: Path, as_json: bool) -> None:
    """Hold problems of the task NAME out: two files without a problem, or a prompt, in common.

    Where a problem goes follows from a hash of its id and the seed: it stays there when others are added. What is
    printed are names that `task.name` takes, each with the hash that everybody's copy must have.

    \b
    Example:
      intellect-node task split arithmetic --test 0.25 --out sums
    """
    from node.asking import usable_task
    from node.task_file import write_split

    train, held_out = write_split(usable_task(name), out, test=test, seed=seed)
    sides = {"train": train, "test": held_out}
    values = {side: {"name": w.name, "problems": w.problems, "sha256": w.sha256} for side, w in sides.items()}
    told = {side: f"{written.problems} problems, {written.name}" for side, written in sides.items()}
    facts(values, as_json=as_json, told=told)


@task_group.command("filter")
@click.argument("name")
@click.option("--model", default="", help="Folder of the base model; without it, the one that comes with the program.")
@click.option(
    "--low", type=click.FloatRange(0, 1), default=0.125, show_default=True, help="Least share of right answers, kept."
)
@click.option(
    "--high", type=click.FloatRange(0, 1), default=0.5, show_default=True, help="Largest share of right answers, kept."
)
@click.option("--out", type=FILE, required=True, help="The .jsonl file of the problems that are kept.")
@with_asking
@json_option
def task_filter(
    name: str, model: str, low: float, high: float, out: Path, choice: Choice, as_json: bool
) -> None:  # fmt: skip
    """Keep the problems of the task NAME that the base model solves now and then: not too hard, not too easy.

    Each is asked --samples times. Kept are those with a share of right answers from --low to --high, both included;
    the share is in the file, as metadata.pass_rate. What was answered stays beside it (OUT.answers.jsonl): stopped and
    started again, the command goes on; with another band it asks nothing again.

    \b
    Example:
      intellect-node task filter train.jsonl --model models/start --samples 8 --max-new-tokens 512 --out kept.jsonl
    """
    if low > high:
        raise UserError(f"--low {low} is above --high {high}", fix="exchange them", exit_code=2)
    folder = model_folder(model)
    task, asking = choice.asking(name)
    from node.task_file import filter_task
    from rl.band import Band

    written, counts = filter_task(task, asking, folder, out, Band(low=low, high=high))
    values = {"name": written.name, "problems": written.problems, "sha256": written.sha256, "counts": dict(counts)}
    told = {
        "kept": f"{counts['kept']} of {counts.total()} problems, {written.name}",
        "too easy": f"{counts['too-easy']}, solved in more than {high:.1%}",
        "too hard": f"{counts['too-hard']}, solved in less than {low:.1%}",
    }
    if counts["ungraded"]:
        told["not graded"] = f"{counts['ungraded']}, an answer of which could not be graded"
    facts(values, as_json=as_json, told=told)
