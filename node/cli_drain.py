"""The command `intellect-node drain`: reads options, calls node.drain.

Decides how it is spelled.
"""

from __future__ import annotations

from pathlib import Path

import click

from node.cli_options import (
    FOLDER,
    ROLES,
    account_of,
    chain_options,
    config_of,
    password_options,
    wallet_option,
)
from node.errors import UserError


@click.command("drain")
@chain_options
@wallet_option
@password_options
@click.option("--data-dir", type=FOLDER, help="The node's folder.  [default: ./data-ROLE]")
@click.option("--role", type=click.Choice(ROLES[1:]), default="worker", show_default=True, help="The node's role.")
@click.option("--pause", is_flag=True, help="Only take no new work, until --resume; also over restarts.")
@click.option("--resume", is_flag=True, help="Take work again.")
@click.option(
    "--timeout", "timeout_s", type=click.FloatRange(1), default=3600.0, show_default=True, help="Longest wait, seconds."
)
def drain_command(
    rpc: str | None,
    config_path: Path | None,
    overrides: tuple[str, ...],
    wallet_path: Path | None,
    password_file: Path | None,
    password_fd: int | None,
    data_dir: Path | None,
    role: str,
    pause: bool,
    resume: bool,
    timeout_s: float,
) -> None:
    """Have your node finish its work, hand it in, leave the pool and end; or pause it.

    Where no node runs, this leaves the pool in its place and needs --config and --wallet for that.

    \b
    Examples:
      intellect-node drain --data-dir data-worker --config run.toml --wallet key.json
      intellect-node drain --data-dir data-worker --pause
    """
    if pause and resume:
        raise UserError("--pause and --resume exclude each other", fix="give one of them", exit_code=2)
    folder = data_dir or Path(f"data-{role}")
    from node.drain import drain, set_pause

    if pause or resume:
        click.echo(set_pause(folder, paused=pause))
        return
    drain(
        folder,
        lambda: (config_of(config_path, overrides, rpc), account_of(wallet_path, password_file, password_fd)),
        timeout_s=timeout_s,
        tell=click.echo,
    )
