"""The command `eval`: what a policy can do on a task, and how much more than its base.

Decides how that is spelled.
"""

from __future__ import annotations

import json
from pathlib import Path

import click

from node.cli_asking import Choice, model_folder, with_asking
from node.cli_options import FILE, json_option
from node.show import clean


@click.command("eval")
@click.argument("model", default="", required=False)
@click.option("--base", help="Folder of the policy to compare with: the one that training began from.")
@click.option("--task", "task_name", metavar="NAME", help="The problems; overrides task.name.")
@click.option("--limit", type=click.IntRange(1), help="Ask only so many problems, drawn by the seed.")
@click.option("--out", type=FILE, help="Write the report to this file, as JSON.")
@with_asking
@json_option
def eval_command(
    model: str, base: str | None, task_name: str | None, limit: int | None, out: Path | None, choice: Choice,
    as_json: bool,
) -> None:  # fmt: skip
    """Ask the policy in the folder MODEL each problem of a task several times: avg@k, pass@k, lengths, with intervals.

    Without MODEL, the model that comes with the program. With --base both get the same problems and the same noise, and
    the difference is told with its own interval. Settings are those that a run of the same config would generate by.

    \b
    Examples:
      intellect-node eval --task arithmetic --limit 20 --samples 4
      intellect-node eval runs/7/model --base models/start --task test.jsonl --max-new-tokens 512 --out report.json
    """
    folder, other = model_folder(model), None if base is None else model_folder(base)
    task, asking = choice.asking(task_name, limit)
    from node.evaluate import evaluate, told
    from node.whole_file import write_whole

    report = evaluate(task, asking, folder, other)
    if out is not None:
        write_whole(out, [json.dumps(report, indent=2)])
    if as_json:
        click.echo(json.dumps(report, indent=2))
    else:
        for line in told(report):
            click.echo(clean(line))
