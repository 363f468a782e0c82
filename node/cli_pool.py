"""The commands `intellect-node pool …`: read options, call node.pool, write the new run's config.

Decides how they are spelled. Does no work on the ledger itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from node.cli_options import (
    FILE,
    ROLES,
    account_of,
    chain_options,
    config_of,
    join_option,
    password_options,
    wallet_option,
)
from node.cli_terms import check_terms, terms_of, terms_options
from node.errors import UserError


@click.group()
def pool() -> None:
    """Compute pools on the ledger: show, create, invite."""


@pool.command("show")
@chain_options
def pool_show(rpc: str | None, config_path: Path | None, overrides: tuple[str, ...]) -> None:
    """Show the run's pool: owner, manager, policy version, members with role and stake.

    \b
    Example:
      intellect-node pool show --config run.toml
    """
    config = config_of(config_path, overrides, rpc)
    from node.pool import show

    click.echo(show(config))


@pool.command("create")
@chain_options
@wallet_option
@password_options
@click.option("--name", default="default", show_default=True, help="Name of the new compute domain.")
@click.option("--manager", metavar="ADDRESS", help="Who may invite, announce and train.  [default: the wallet itself]")
@terms_options
@click.option("--pending", is_flag=True, help="Let nobody join yet; the owner starts the pool later.")
@click.option("--out", type=FILE, default=Path("run.toml"), show_default=True, help="New file for the run's config.")
def pool_create(
    rpc: str | None,
    config_path: Path | None,
    overrides: tuple[str, ...],
    wallet_path: Path | None,
    password_file: Path | None,
    password_fd: int | None,
    name: str,
    manager: str | None,
    pending: bool,
    out: Path,
    **terms: Any,
) -> None:
    """Create a domain and a pool that your wallet owns, and write the run's config.

    Deploys the contracts where the config names none. The pool's terms are fixed for ever: nobody can change what its
    members joined under.

    \b
    Examples:
      intellect-node pool create --rpc http://127.0.0.1:8545 --wallet key.json --name maths --out run.toml
      intellect-node pool create --wallet key.json --quorum 2 --panel 3 --unit-price 0.001 --challenge 86400
    """
    check_terms(terms)
    if out.exists():
        raise UserError(f"{out} exists and is not overwritten", fix="name another file with --out", exit_code=2)
    manager = None if manager is None else _address(manager)
    config = config_of(config_path, overrides, rpc)
    account = account_of(wallet_path, password_file, password_fd)
    from node.pool import create

    made = create(config, account, name=name, manager=manager, terms=terms_of(terms), start=not pending)
    _write_new(out, made.to_toml())
    click.echo(f"pool {made.ledger.pool_id}; its config is in {out}")


@pool.command("invite")
@chain_options
@wallet_option
@password_options
@join_option
@click.argument("node_address", metavar="ADDRESS")
@click.option(
    "--role", type=click.Choice(ROLES[1:]), default="worker", show_default=True, help="What the invited node may do."
)
def pool_invite(
    rpc: str | None,
    config_path: Path | None,
    overrides: tuple[str, ...],
    wallet_path: Path | None,
    password_file: Path | None,
    password_fd: int | None,
    join: tuple[str, ...],
    node_address: str,
    role: str,
) -> None:
    """Sign an invite into the run's pool for the waiting node ADDRESS and hand it over. Only the pool's manager can.

    \b
    Example:
      intellect-node pool invite --config run.toml --wallet key.json --join /ip4/127.0.0.1/tcp/4002/p2p/Qm… 0x52…E7
    """
    address = _address(node_address)
    config = config_of(config_path, overrides, rpc)
    account = account_of(wallet_path, password_file, password_fd)
    from node.pool import invite

    invite(config, account, node=address, role=role, join=join)
    click.echo(f"{address} has joined the pool as {role}")


def _address(text: str) -> str:
    from eth_utils import is_hex_address, to_checksum_address

    if not is_hex_address(text):
        raise UserError(
            f"{text!r} is not an address",
            fix="give 0x and 40 hex digits, as `intellect-node wallet show` prints",
            exit_code=2,
        )
    return to_checksum_address(text)


def _write_new(path: Path, text: str) -> None:
    from node.secret_file import write_new_secret

    try:
        write_new_secret(path, text.encode())
    except OSError as error:
        click.echo(text, nl=False)
        raise UserError(
            f"cannot write {path}: {error.strerror}", fix="keep the config printed above in a file of your own"
        ) from error
