"""The commands `intellect-node pool logs` and `pool restart-engine`: read options, call node.give_order.

Decides how they are spelled.
"""

from __future__ import annotations

from pathlib import Path

import click

from node.cli_options import (
    ADDRESS,
    account_of,
    chain_options,
    config_of,
    join_option,
    password_options,
    wallet_option,
)


@click.command("logs")
@chain_options
@wallet_option
@password_options
@join_option
@click.option("--lines", type=click.IntRange(1, 200), default=50, show_default=True, help="How many, at most 200.")
@click.argument("node_address", metavar="ADDRESS", type=ADDRESS)
def pool_logs(
    rpc: str | None,
    config_path: Path | None,
    overrides: tuple[str, ...],
    wallet_path: Path | None,
    password_file: Path | None,
    password_fd: int | None,
    join: tuple[str, ...],
    lines: int,
    node_address: str,
) -> None:
    """Show the last log lines of the member ADDRESS, without secrets. Only the pool's manager can.

    \b
    Example:
      intellect-node pool logs --config run.toml --wallet key.json --join /ip4/127.0.0.1/tcp/4002/p2p/Qm… 0x52…E7
    """
    config = config_of(config_path, overrides, rpc)
    account = account_of(wallet_path, password_file, password_fd)
    from node.give_order import logs

    click.echo(logs(config, account, node=node_address, lines=lines, join=join))


@click.command("restart-engine")
@chain_options
@wallet_option
@password_options
@join_option
@click.argument("node_address", metavar="ADDRESS", type=ADDRESS)
def pool_restart_engine(
    rpc: str | None,
    config_path: Path | None,
    overrides: tuple[str, ...],
    wallet_path: Path | None,
    password_file: Path | None,
    password_fd: int | None,
    join: tuple[str, ...],
    node_address: str,
) -> None:
    """Have the member ADDRESS start its engine again. Only the pool's manager can.

    \b
    Example:
      intellect-node pool restart-engine --config run.toml --wallet key.json --join /ip4/10.0.0.5/tcp/4002/p2p/Qm… 0x5…7
    """
    config = config_of(config_path, overrides, rpc)
    account = account_of(wallet_path, password_file, password_fd)
    from node.give_order import restart_engine

    restart_engine(config, account, node=node_address, join=join)
    click.echo(f"{node_address} starts its engine again")
