"""The command `verify`: anybody runs the checks of a submission again, offline, and sees each of them.

Decides how that is spelled and which exit code says what.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import click

from node.cli_options import FILE, FOLDER, HASH, ChainChoice, json_option, with_chain
from node.cli_writes import told
from node.errors import UserError
from node.show import clean

EXIT_CODES = {"accepted": 0, "rejected": 1, "late": 2}
NOT_CHECKED = 9


@click.command("verify")
@click.argument("file", type=FILE)
@click.option("--policy", type=FOLDER, required=True, help="Hugging Face folder of the policy version that made it.")
@click.option("--claim", "claim_path", type=FILE, help="JSON of what the ledger said of it: no chain is asked.")
@click.option("--submission", type=HASH, help="Its id: the claim is asked of the chain.")
@click.option("--explain", is_flag=True, help="Every check in order, its numbers and their bounds.")
@with_chain
@json_option
def verify(
    file: Path, policy: Path, claim_path: Path | None, submission: bytes | None, explain: bool, chain: ChainChoice,
    as_json: bool,
) -> None:  # fmt: skip
    """Run a validator's checks on a submission's FILE (Parquet), with the run's config, and say what each one found.

    The claim is what the ledger said of the submission: in a verdict's evidence, in `explain SUBMISSION --json`, or on
    the chain. Exit code: 0 accepted, 1 rejected, 2 late, 9 could not be checked (2 also for a wrong option).

    \b
    Examples:
      intellect-node verify 7.parquet --policy policy-3 --claim evidence.json --config run.toml --explain
      intellect-node verify 7.parquet --policy policy-3 --submission 9c01…e7 --config run.toml
    """
    if (claim_path is None) == (submission is None):
        raise UserError("which claim is not said", fix="give one of --claim and --submission", exit_code=NOT_CHECKED)
    try:
        document, lines = _checked(file, policy, claim_path, submission, explain, chain)
    except UserError as fault:
        raise UserError(fault.message, fix=fault.fix, exit_code=NOT_CHECKED) from fault
    if as_json:
        click.echo(json.dumps(document, indent=2))
    else:
        for line in lines:
            click.echo(clean(line))
    sys.exit(EXIT_CODES[document["outcome"]])


def _checked(
    file: Path, policy: Path, claim_path: Path | None, submission: bytes | None, explain: bool, chain: ChainChoice
) -> tuple[dict[str, Any], Any]:
    if not file.is_file():
        raise UserError(f"there is no file {file}", fix="name the submission's Parquet file")
    if not (policy / "config.json").is_file():
        raise UserError(f"{policy} is no model's folder: it has no config.json", fix="name one version's with --policy")
    config = chain.config()
    os.environ["HF_HUB_OFFLINE"] = "1"
    import torch

    from node import verify_file
    from node.validator import verifier_options
    from rl.hardware import choose_compute_type, read_cpu_flags
    from rl.tasks import load_task
    from verify.prefill import TransformersPolicy
    from verify.rules import Rules
    from verify.thresholds import thresholds_for
    from verify.verdict import CheckFailed

    claim = verify_file.read_claim(claim_path) if claim_path else _claim_on_chain(chain, submission)
    options = verifier_options(config)
    compute_type = choose_compute_type(options["compute_type"], read_cpu_flags(), torch.cuda.is_available())
    kind, departures = options["compute_type"], options["thresholds"]
    rules = Rules(
        **options["rules"],
        thresholds=thresholds_for(kind, compute_type, departures),
        second_look=thresholds_for(kind, "float32", departures),
    )
    try:
        verdict, ran = verify_file.judge_each(
            file,
            claim=claim,
            rules=rules,
            task=load_task(options["task"]),
            load_policy=lambda version: TransformersPolicy(policy, compute_dtype=compute_type),
        )
    except CheckFailed as fault:
        raise UserError(f"a check could not be made: {fault}", fix="check --policy, --config and the memory") from fault
    document = verify_file.report(verdict, ran, rules)
    return document, verify_file.told(document, explain=explain)


def _claim_on_chain(chain: ChainChoice, submission_id: bytes | None) -> Any:
    import trio

    from node.claims import claim_of
    from verify.rules import Claim

    ledger, _ = chain.reader()
    with told():
        recorded = ledger.submission(submission_id)
        if recorded is None:
            raise UserError("the ledger knows no such submission", fix="`intellect-node submissions` lists the ids")
        return Claim(**trio.run(claim_of, ledger, recorded))
