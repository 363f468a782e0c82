"""The command `intellect-node drain`: reads options, calls node.drain.

Decides how it is spelled.
"""

from __future__ import annotations

from pathlib import Path

import click

from node.cli_options import FOLDER, ROLES, ChainChoice, WalletChoice, json_option, with_chain, with_wallet
from node.errors import UserError
from node.show import done


@click.command("drain")
@click.option("--data-dir", type=FOLDER, help="The node's folder.  [default: ./data-ROLE]")
@click.option("--role", type=click.Choice(ROLES[1:]), default="worker", show_default=True, help="The node's role.")
@click.option("--pause", is_flag=True, help="Only take no new work, until --resume; also over restarts.")
@click.option(
    "--resume", is_flag=True, help="Take work again; also take back a drain of a node that ended before it had left."
)
@click.option("--withdraw", is_flag=True, help="Then start taking the whole stake out; by its staker's --wallet.")
@click.option(
    "--timeout", "timeout_s", type=click.FloatRange(1), default=3600.0, show_default=True, help="Longest wait, seconds."
)
@with_chain
@with_wallet
@json_option
def drain_command(
    data_dir: Path | None,
    role: str,
    pause: bool,
    resume: bool,
    withdraw: bool,
    timeout_s: float,
    chain: ChainChoice,
    wallet: WalletChoice,
    as_json: bool,
) -> None:
    """Have your node finish its work, hand it in, leave the pool and end; or pause it.

    Where no node runs, this leaves the pool in its place and needs --config and --wallet for that. A stake that was
    started to be taken out is yours once it has matured: `intellect-node stake withdraw`.

    \b
    Examples:
      intellect-node drain --data-dir data-worker --config run.toml --wallet key.json --withdraw
      intellect-node drain --data-dir data-worker --pause
    """
    if pause + resume + withdraw > 1:
        raise UserError("--pause, --resume and --withdraw exclude each other", fix="give one of them", exit_code=2)
    folder = data_dir or Path(f"data-{role}")
    from node.drain import drain, set_pause, unbond_all

    if pause or resume:
        done(set_pause(folder, paused=pause), as_json=as_json, paused=pause)
        return
    said: list[str] = []
    drain(
        folder,
        lambda: (chain.config(), wallet.account()),
        timeout_s=timeout_s,
        tell=said.append if as_json else click.echo,
    )
    if withdraw:
        (said.append if as_json else click.echo)(unbond_all(chain.config(), wallet.account()))
    if as_json:
        done("", as_json=True, done=said)
