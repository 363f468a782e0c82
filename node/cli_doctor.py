"""The command `intellect-node doctor`: reads options, shows what `node.diagnosis` found.

Decides how a finding looks and what the exit status says. Checks nothing itself.
"""

from __future__ import annotations

import json
import logging
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from node.cli_options import FILE, FOLDER, ROLES, chain_options, config_of, join_option, wallet_option

if TYPE_CHECKING:
    from node.diagnosis import Diagnosis

PROBLEM_STATUS = 5


@click.command()
@click.option("--role", type=click.Choice(ROLES), help="The part that the node is to play.")
@wallet_option
@chain_options
@join_option
@click.option("--data-dir", type=FOLDER, help="The node's folder.  [default: ./data-ROLE, or the current folder]")
@click.option(
    "--port", type=click.IntRange(0, 65533), default=0, show_default=True, help="As the node will get it; 0: any."
)
@click.option(
    "--requirements",
    "requirements_path",
    type=FILE,
    help="A pool's requirements (TOML or JSON) instead of the config's.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def doctor(
    role: str | None,
    wallet_path: Path | None,
    rpc: str | None,
    config_path: Path | None,
    overrides: tuple[str, ...],
    join: tuple[str, ...],
    data_dir: Path | None,
    port: int,
    requirements_path: Path | None,
    as_json: bool,
) -> int:
    """Check this machine, its network and its account for a node, and say what to do about each fault.

    Works with as little as nothing given; what could not be checked is listed with what it lacks. Exits with 0 when a
    node can run (warnings allowed), with 5 when there is a problem. Reads of a wallet only the address.

    \b
    Examples:
      intellect-node doctor
      intellect-node doctor --role worker --config run.toml --wallet key.json --join /ip4/10.0.0.5/tcp/4002/p2p/Qm…
    """
    config = config_of(config_path, overrides, rpc)
    import trio

    from node.diagnosis import Question, diagnose
    from node.requirements import load_requirements
    from node.wallet import wallet_address

    logging.disable(logging.CRITICAL)  # what matters is among the findings
    question = Question(
        role=role,
        config=config,
        wanted=load_requirements(requirements_path) if requirements_path else config.requirements,
        rpc=rpc,
        address=wallet_address(wallet_path) if wallet_path else None,
        join=join,
        data_dir=data_dir or Path(f"data-{role}" if role else "."),
        port=port,
    )
    found = trio.run(diagnose, question)
    show_json(found) if as_json else show(found)
    return PROBLEM_STATUS if found.status == "problem" else 0


def show(found: Diagnosis) -> None:
    """One row a finding: status, check, line; the fix below it. No colours, no padding where nobody looks."""
    rows = []
    for finding in found.findings:
        rows.append((finding.status, finding.check, finding.line))
        if finding.fix:
            rows.append(("", "", f"fix: {finding.fix}"))
    for why in dict.fromkeys(item.why for item in found.left_out):
        rows.append(("left out", ", ".join(item.check for item in found.left_out if item.why == why), why))
    if not sys.stdout.isatty():
        for status, check, line in rows:
            print(f"{status:<9} {check:<13} {line}".rstrip())
        return
    from rich.console import Console
    from rich.table import Table

    grid = Table.grid(padding=(0, 2))
    for row in rows:
        grid.add_row(*row)
    Console(highlight=False, markup=False).print(grid)


def show_json(found: Diagnosis) -> None:
    """{status, findings: [{check, status, line, fix}], left_out: [{check, why}]}."""
    print(
        json.dumps(
            {
                "status": found.status,
                "findings": [asdict(finding) for finding in found.findings],
                "left_out": [asdict(item) for item in found.left_out],
            },
            indent=2,
            ensure_ascii=False,
        )
    )
