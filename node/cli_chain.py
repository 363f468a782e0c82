"""The commands `intellect-node chain …`: a local development chain kept on disk, and the contracts on it.

Decides the spelling. Refuses to give ether on a chain that is none of Anvil's: its development account pays.
"""

from __future__ import annotations

from pathlib import Path

import click

from node.cli_options import (
    ADDRESS,
    FILE,
    FOLDER,
    TOKENS,
    ChainChoice,
    WalletChoice,
    json_option,
    with_chain,
    with_wallet,
)
from node.cli_writes import told, writing_without_pool
from node.errors import UserError
from node.show import done, tokens

CONTRACTS = Path(__file__).resolve().parents[1] / "contracts"
ETHER = TOKENS


@click.group()
def chain() -> None:
    """A local chain (Anvil) with its state kept on disk, the contracts on it, and money for others.

    \b
    Example:
      intellect-node chain start --state chain-state
    """


@chain.command("start")
@click.option("--state", type=FOLDER, default=Path("chain"), show_default=True, help="Folder that keeps the chain.")
@click.option(
    "--port", type=click.IntRange(1, 65535), default=8545, show_default=True, help="TCP port on this machine."
)
def chain_start(state: Path, port: int) -> None:
    """Run a local chain until Ctrl-C. What is on it is there again at the next start with the same --state.

    For trying things out: its accounts are Anvil's development keys, which everybody knows.

    \b
    Example:
      intellect-node chain start --state chain --port 8545
    """
    import signal

    from ledger.anvil import anvil, anvil_binary
    from ledger.errors import AnvilFailed

    try:
        state.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = state / "anvil.json"
        with anvil(anvil_binary(CONTRACTS), "--state", str(file), "--state-interval", "5", port=port) as running:
            # A shell has what it starts in the background ignore SIGINT.
            for stop in (signal.SIGINT, signal.SIGTERM):
                signal.signal(stop, signal.default_int_handler)
            click.echo(f"chain at {running.url}, kept in {file}; Ctrl-C stops it")
            click.echo(f"next: intellect-node chain deploy --rpc {running.url} --wallet owner.json --out run.toml")
            running.wait()
            raise UserError(
                "the chain ended by itself", fix=f"see whether the disk of {state} is full; then start it again"
            )
    except KeyboardInterrupt:
        click.echo("stopped; its state is kept")
    except AnvilFailed as error:
        raise UserError(str(error), fix="free the port or name another with --port; run scripts/setup") from error
    except OSError as error:
        raise UserError(f"cannot use {state}: {error.strerror}", fix="name another folder with --state") from error


@chain.command("deploy")
@click.option(
    "--unbonding", "unbonding_s", type=click.IntRange(60, 2**31), default=7 * 86_400, show_default=True,
    help="Seconds that stake on its way out stays within reach of a case; no pool may judge for longer.",
)  # fmt: skip
@click.option("--out", type=FILE, default=Path("run.toml"), show_default=True, help="New file for the run's config.")
@with_chain
@with_wallet
@json_option
def chain_deploy(unbonding_s: int, out: Path, chain: ChainChoice, wallet: WalletChoice, as_json: bool) -> None:
    """Put the contracts on a chain, owned by your wallet, and write a config that names them. It needs ether for gas.

    Then create a pool: `pool create --config run.toml --out pool.toml`. (`pool create` deploys by itself where no
    contracts are named.)

    \b
    Example:
      intellect-node chain deploy --rpc http://127.0.0.1:8545 --wallet owner.json --out run.toml
    """
    from ledger.deployment import deploy
    from node.run_ledger import with_ledger
    from node.secret_file import write_new_secret

    if out.exists():
        raise UserError(f"{out} exists and is not overwritten", fix="name another file with --out", exit_code=2)
    config = chain.config()
    with told():
        deployment = deploy(config.ledger.rpc, wallet.account(), unbonding_s=unbonding_s)
    made = with_ledger(config, deployment, rpc=config.ledger.rpc, pool_id=1)
    write_new_secret(out, made.to_toml().encode())
    done(f"contracts on chain {deployment.chain_id}; the config is in {out}", as_json=as_json, **deployment.to_dict())


@chain.command("fund")
@click.argument("account", type=ADDRESS)
@click.option(
    "--ether", "ether_wei", type=ETHER, default="1", show_default=True, help="From Anvil's development account."
)
@click.option(
    "--tokens", "amount_wei", type=TOKENS, default="0", show_default=True, help="Minted by --wallet, the token's owner."
)
@with_chain
@with_wallet
@json_option
def chain_fund(
    account: str, ether_wei: int, amount_wei: int, chain: ChainChoice, wallet: WalletChoice, as_json: bool
) -> None:
    """Give ACCOUNT ether for gas, and tokens to stake, on a local chain.

    \b
    Examples:
      intellect-node chain fund 0x52… --ether 10
      intellect-node chain fund 0x52… --tokens 100 --config run.toml --wallet owner.json
    """
    from ledger.anvil import give_ether

    with told():
        if ether_wei:
            give_ether(chain.config().ledger.rpc, account, ether_wei)
    if amount_wei:
        with writing_without_pool(chain, wallet) as ledger:
            ledger.mint(account, amount_wei)
    sentence = f"{account} got {tokens(ether_wei)} ether and {tokens(amount_wei)} tokens"
    done(sentence, as_json=as_json, account=account, ether_wei=ether_wei, tokens_wei=amount_wei)
