"""The command line `intellect-node`: reads options and hands them to one function in another module.

Decides how a command is spelled and how an error is shown: message, fix, exit code, no traceback for a fault that the
person can cure. Does no work of its own and imports no heavy package: each command imports what it needs when it runs.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from node import cli_ask
from node.cli_chain import chain
from node.cli_dht import dht
from node.cli_doctor import doctor
from node.cli_domain import domain
from node.cli_drain import drain_command
from node.cli_eval import eval_command
from node.cli_options import (
    FILE,
    FOLDER,
    ROLES,
    account_of,
    chain_options,
    config_of,
    config_options,
    join_option,
    json_option,
    password_options,
    wallet_option,
)
from node.cli_pool import pool
from node.cli_stake import bind, credit, stake
from node.cli_task import task_group
from node.cli_unit import unit
from node.cli_verify import verify
from node.errors import UserError
from node.show import done


@click.group(
    invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120}
)
@click.option("--role", type=click.Choice(ROLES), help="The part that this node plays.")
@wallet_option
@chain_options
@join_option
@click.option(
    "--data-dir", type=FOLDER, help="Folder for this node's peer key, weights and logs.  [default: ./data-ROLE]"
)
@click.option(
    "--port",
    type=click.IntRange(0, 65533),
    default=0,
    show_default=True,
    help="First of three TCP ports (streams, DHT, chunks); 0: any free ones.",
)
@password_options
@click.version_option(package_name=None, version="0.1.0", prog_name="intellect-node")
@click.pass_context
def cli(
    context: click.Context,
    role: str | None,
    wallet_path: Path | None,
    rpc: str | None,
    config_path: Path | None,
    overrides: tuple[str, ...],
    join: tuple[str, ...],
    data_dir: Path | None,
    port: int,
    password_file: Path | None,
    password_fd: int | None,
) -> None:
    """One participant of a peer-to-peer training run, in the role given; or one of the commands below.

    \b
    Example, a worker:
      intellect-node wallet new key.json
      intellect-node --role worker --wallet key.json --config run.toml --join /ip4/10.0.0.5/tcp/4002/p2p/Qm…
    Example, the whole network on this machine:
      intellect-node run local
    """
    if context.invoked_subcommand is not None:
        if role is not None:
            raise UserError(
                "--role starts a node and takes no command",
                fix=f"leave out --role, or {context.invoked_subcommand}",
                exit_code=2,
            )
        return
    if role is None:
        click.echo(context.get_help())
        return
    config = config_of(config_path, overrides, rpc)
    account = account_of(wallet_path, password_file, password_fd)
    from node.start import run_role

    run_role(role, config, account, join=join, data_dir=data_dir or Path(f"data-{role}"), port=port)


@cli.group()
def wallet() -> None:
    """Make and look at wallets (Ethereum keystores, always encrypted)."""


@wallet.command("new")
@click.argument("path", type=FILE)
@password_options
@json_option
def wallet_new(path: Path, password_file: Path | None, password_fd: int | None, as_json: bool) -> None:
    """Make a new account in a new file at PATH and print its address.

    \b
    Example:
      intellect-node wallet new keys/worker.json
    """
    from node.wallet import create_wallet, read_password

    if path.exists():
        raise UserError(f"{path} exists and is never overwritten", fix="choose another file name")
    address = create_wallet(path, read_password(file=password_file, fd=password_fd, confirm=True))
    done(address, as_json=as_json, address=address)


@wallet.command("show")
@click.argument("path", type=FILE)
@json_option
def wallet_show(path: Path, as_json: bool) -> None:
    """Print the address of the wallet at PATH. Needs no password.

    \b
    Example:
      intellect-node wallet show keys/worker.json
    """
    from node.wallet import wallet_address

    address = wallet_address(path)
    done(address, as_json=as_json, address=address)


@cli.command("config")
@config_options
@click.option("--explain", is_flag=True, help="Print every key with its default, legal range and meaning.")
def config_command(config_path: Path | None, overrides: tuple[str, ...], explain: bool) -> None:
    """Check a run's config and print it in full, defaults included.

    \b
    Examples:
      intellect-node config --explain
      intellect-node config --config run.toml --set rl.steps=3 > full.toml
    """
    from node import config

    click.echo(
        config.explain() if explain else config.load_config(config_path, overrides=overrides).to_toml(), nl=False
    )


@cli.command()
@chain_options
@join_option
@json_option
def peers(
    rpc: str | None, config_path: Path | None, overrides: tuple[str, ...], join: tuple[str, ...], as_json: bool
) -> None:
    """List the live nodes of a run: role, peer id, address and age, as the DHT says.

    \b
    Example:
      intellect-node peers --config run.toml --join /ip4/127.0.0.1/tcp/4002/p2p/Qm…
    """
    config = config_of(config_path, overrides, rpc)
    from node.peers import main

    main(config, join=join, as_json=as_json)


for group in (pool, chain, dht, domain, stake, credit, unit, task_group):
    cli.add_command(group)
for command in (*cli_ask.COMMANDS, verify, doctor, drain_command, eval_command):
    cli.add_command(command)
wallet.add_command(bind)


@cli.group()
def run() -> None:
    """Run a whole network."""


@run.command("local")
@config_options
@click.option("--steps", type=click.IntRange(1), help="Rollout steps; overrides rl.steps.")
@click.option(
    "--minutes", type=click.FloatRange(0, min_open=True), default=15.0, show_default=True, help="Stop after this long."
)
@click.option("--workers", type=click.IntRange(1, 64), default=2, show_default=True, help="Honest workers.")
@click.option(
    "--validators", type=click.IntRange(1, 16), default=3, show_default=True, help="More than half of them must agree."
)
@click.option("--no-cheat", is_flag=True, help="Leave out the worker that cheats.")
@click.option("--no-bribe", is_flag=True, help="Leave out the validator whom the cheat has bribed (of 3 and more).")
@click.option("--model", help="Hugging Face folder of the starting weights; overrides model.path.")
@click.option("--task", help="The environment; overrides task.name.")
@click.option("--seed", type=click.IntRange(0), help="The same seed gives the same problems and prompts.")
@click.option(
    "--out", type=FOLDER, help="Output folder: report, curve, checkpoint, logs.  [default: a new one under ./runs]"
)
def run_local(
    config_path: Path | None,
    overrides: tuple[str, ...],
    steps: int | None,
    minutes: float,
    workers: int,
    validators: int,
    no_cheat: bool,
    no_bribe: bool,
    model: str | None,
    task: str | None,
    seed: int | None,
    out: Path | None,
) -> None:
    """Start a chain, a relay, a trainer, workers, validators and a cheat on this machine, and watch the model learn.

    \b
    Example:
      intellect-node run local --steps 3 --workers 1 --seed 7 --out /tmp/demo
    """
    from node.local import main

    main(
        config_path=config_path,
        overrides=overrides,
        steps=steps,
        minutes=minutes,
        workers=workers,
        validators=validators,
        cheat=not no_cheat,
        bribe=not no_bribe,
        model=model,
        task=task,
        seed=seed,
        out=out,
    )


def main(argv: list[str] | None = None) -> None:
    """Runs the command in `argv` (None: the process's own) and exits; a UserError, even in a group, is shown."""
    try:
        code = cli.main(args=argv, prog_name="intellect-node", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        print("interrupted", file=sys.stderr)
        sys.exit(130)
    except UserError as error:
        _exit_with(error)
    except BaseExceptionGroup as group:
        users, others = group.split(UserError)
        if users is not None and others is None:
            _exit_with(_first(users))
        if group.split(KeyboardInterrupt)[1] is None:
            print("interrupted", file=sys.stderr)
            sys.exit(130)
        raise
    sys.exit(code if isinstance(code, int) else 0)


def _exit_with(error: UserError) -> None:
    print(error, file=sys.stderr)
    sys.exit(error.exit_code)


def _first(error: BaseException) -> Any:
    return _first(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


if __name__ == "__main__":
    main()
