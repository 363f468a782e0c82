"""The commands `intellect-node pool logs` and `pool restart-engine`: read options, call node.give_order.

Decides how they are spelled.
"""

from __future__ import annotations

import click

from node.cli_options import ADDRESS, ChainChoice, WalletChoice, join_option, json_option, with_chain, with_wallet
from node.show import done


@click.command("logs")
@click.argument("node", metavar="ADDRESS", type=ADDRESS)
@click.option("--lines", type=click.IntRange(1, 200), default=50, show_default=True, help="How many, at most 200.")
@with_chain
@with_wallet
@join_option
@json_option
def pool_logs(
    node: str, lines: int, chain: ChainChoice, wallet: WalletChoice, join: tuple[str, ...], as_json: bool
) -> None:
    """Show the last log lines of the member ADDRESS, without secrets. Only the pool's manager can.

    \b
    Example:
      intellect-node pool logs 0x52…E7 --config run.toml --wallet key.json --join /ip4/127.0.0.1/tcp/4002/p2p/Qm…
    """
    from node.give_order import logs

    found = logs(chain.config(), wallet.account(), node=node, lines=lines, join=join)
    if as_json:
        done("", as_json=True, node=node, lines=found.splitlines())
        return
    click.echo(found)


@click.command("restart-engine")
@click.argument("node", metavar="ADDRESS", type=ADDRESS)
@with_chain
@with_wallet
@join_option
@json_option
def pool_restart_engine(
    node: str, chain: ChainChoice, wallet: WalletChoice, join: tuple[str, ...], as_json: bool
) -> None:
    """Have the member ADDRESS start its engine again. Only the pool's manager can.

    \b
    Example:
      intellect-node pool restart-engine 0x52…E7 --config run.toml --wallet key.json --join /ip4/10.0.0.5/tcp/4002/p2p/…
    """
    from node.give_order import restart_engine

    restart_engine(chain.config(), wallet.account(), node=node, join=join)
    done(f"{node} starts its engine again", as_json=as_json, node=node)
