"""The commands `intellect-node unit …`: read options, print what node.unit makes.

Decides how they are spelled, and that nothing is installed.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from node.cli_options import FILE, ROLES, join_option, options

PRESENT_FILE = click.Path(path_type=Path, dir_okay=False, exists=True, resolve_path=True)
service_options = options(
    click.option("--role", type=click.Choice(ROLES), required=True, help="The part that this node plays."),
    click.option("--config", "config_path", type=PRESENT_FILE, required=True, help="The run's TOML file."),
    click.option("--wallet", "wallet_path", type=PRESENT_FILE, required=True, help="The wallet's key file."),
    click.option("--password-file", type=FILE, required=True, help="File with the wallet's password; never copied."),
    join_option,
    click.option(
        "--port", type=click.IntRange(0, 65533), default=0, help="First of three TCP ports; 0: any free ones."
    ),
)


@click.group()
def unit() -> None:
    """Print a service file for a supervised node: a systemd unit or a Containerfile. Nothing is installed."""


@unit.command("systemd")
@service_options
@click.option("--user", default="intellect-node", show_default=True, help="The account that the node runs as.")
def unit_systemd(user: str, **arguments: Any) -> None:
    """Print a systemd unit: restart on failure, state in /var/lib, hardened, no Docker access.

    \b
    Example:
      intellect-node unit systemd --role worker --config run.toml --wallet key.json --password-file pw
    """
    from node.unit import systemd_unit

    click.echo(systemd_unit(_service(user=user, **arguments)), nl=False)


@unit.command("container")
@service_options
def unit_container(**arguments: Any) -> None:
    """Print a Containerfile, with the commands that build and run it.

    \b
    Example:
      intellect-node unit container --role worker --config run.toml --wallet key.json --password-file pw
    """
    from node.unit import containerfile

    click.echo(containerfile(_service(**arguments)), nl=False)


def _service(
    *,
    role: str,
    config_path: Path,
    wallet_path: Path,
    password_file: Path,
    join: tuple[str, ...],
    port: int,
    **more: str,
) -> Any:
    from node.unit import Service

    return Service(
        role=role, program=(sys.executable, "-m", "node.cli"), config=str(config_path), wallet=str(wallet_path),
        password_file=str(password_file.absolute()), join=join, port=port, **more,
    )  # fmt: skip
