"""The commands `intellect-node pool …`: read options, call node.pool, write the new run's config.

Decides how they are spelled. What owners and managers may do beyond that is in `node.cli_manage` and `node.cli_orders`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from node import cli_manage
from node.cli_options import (
    ADDRESS,
    FILE,
    ROLES,
    ChainChoice,
    WalletChoice,
    join_option,
    json_option,
    with_chain,
    with_wallet,
)
from node.cli_orders import pool_logs, pool_restart_engine
from node.cli_terms import check_terms, terms_of, terms_options
from node.errors import UserError
from node.show import done, facts


@click.group()
def pool() -> None:
    """Compute pools on the ledger: made, run and ended; and their members.

    \b
    Example:
      intellect-node pool show --config run.toml
    """


for command in (*cli_manage.COMMANDS, pool_logs, pool_restart_engine):
    pool.add_command(command)


@pool.command("show")
@with_chain
@json_option
def pool_show(chain: ChainChoice, as_json: bool) -> None:
    """Show the run's pool: state, owner, manager, terms, funds, policy version.

    \b
    Example:
      intellect-node pool show --config run.toml
    """
    from node.pool import show

    values, lines = show(chain.config())
    facts(values, as_json=as_json, told=lines)


@pool.command("create")
@click.option("--name", default="default", show_default=True, help="Name of the new compute domain.")
@click.option("--domain", "domain_id", type=click.IntRange(1), help="Create it in this domain of yours instead.")
@click.option("--manager", type=ADDRESS, help="Who may invite, announce and train.  [default: the wallet itself]")
@terms_options
@click.option("--pending", is_flag=True, help="Let nobody join yet; the owner starts the pool later.")
@click.option("--out", type=FILE, default=Path("run.toml"), show_default=True, help="New file for the run's config.")
@with_chain
@with_wallet
@json_option
def pool_create(
    name: str,
    domain_id: int | None,
    manager: str | None,
    pending: bool,
    out: Path,
    chain: ChainChoice,
    wallet: WalletChoice,
    as_json: bool,
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
    config, account = chain.config(), wallet.account()
    from node.pool import create

    made = create(
        config, account, name=name, domain_id=domain_id, manager=manager, terms=terms_of(terms), start=not pending
    )
    _write_new(out, made.to_toml())
    pool_id = made.ledger.pool_id
    done(f"pool {pool_id}; its config is in {out}", as_json=as_json, pool_id=pool_id, config=str(out))


@pool.command("invite")
@click.argument("node", metavar="ADDRESS", type=ADDRESS)
@click.option(
    "--role", type=click.Choice(ROLES[1:]), default="worker", show_default=True, help="What the invited node may do."
)
@with_chain
@with_wallet
@join_option
@json_option
def pool_invite(
    node: str, role: str, chain: ChainChoice, wallet: WalletChoice, join: tuple[str, ...], as_json: bool
) -> None:
    """Sign an invite into the run's pool for the waiting node ADDRESS and hand it over. Only the pool's manager can.

    \b
    Example:
      intellect-node pool invite 0x52…E7 --config run.toml --wallet key.json --join /ip4/127.0.0.1/tcp/4002/p2p/Qm…
    """
    config, account = chain.config(), wallet.account()
    from node.pool import invite

    invite(config, account, node=node, role=role, join=join)
    done(f"{node} has joined the pool as {role}", as_json=as_json, node=node, role=role)


def _write_new(path: Path, text: str) -> None:
    from node.secret_file import write_new_secret

    try:
        write_new_secret(path, text.encode())
    except OSError as error:
        click.echo(text, nl=False)
        raise UserError(
            f"cannot write {path}: {error.strerror}", fix="keep the config printed above in a file of your own"
        ) from error
