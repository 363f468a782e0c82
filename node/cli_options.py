"""Options that several commands share, and what is made of them: the config and the wallet's account.

Decides their spelling and defaults. Imports no heavy package before a command runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from node.errors import UserError

ROLES = ("trainer", "worker", "validator", "relay")
JOIN = re.compile(r"/ip4/[0-9.]{7,15}/tcp/[0-9]{1,5}/p2p/Qm[1-9A-HJ-NP-Za-km-z]{44}")
FILE = click.Path(path_type=Path, dir_okay=False)
FOLDER = click.Path(path_type=Path, file_okay=False)


def options(*options: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def apply(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return apply


password_options = options(
    click.option(
        "--password-file",
        type=FILE,
        help="File with the wallet's password (its first bytes to the end, less one line end).",
    ),
    click.option(
        "--password-fd", type=click.IntRange(0), help="Open file descriptor to read the wallet's password from."
    ),
)
config_options = options(
    click.option("--config", "config_path", type=FILE, help="The run's TOML file; without it, every default."),
    click.option(
        "--set",
        "overrides",
        multiple=True,
        metavar="SECTION.KEY=VALUE",
        help="Override one key of the config; may be repeated.",
    ),
)
chain_options = options(
    click.option("--rpc", metavar="URL", help="JSON-RPC address of the chain; overrides ledger.rpc."), config_options
)
wallet_option = click.option("--wallet", "wallet_path", type=FILE, help="The wallet's key file.")


def _check_join(context: click.Context, option: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    for value in values:
        if not JOIN.fullmatch(value):
            raise UserError(
                f"--join {value!r} is no DHT address like /ip4/10.0.0.5/tcp/4002/p2p/Qm…",
                fix="copy the line from the file `join` in a running node's data folder",
                exit_code=2,
            )
    return values


join_option = click.option(
    "--join",
    multiple=True,
    metavar="MULTIADDR",
    callback=_check_join,
    help="A node to find the network through: the line in the file `join` of its data folder; may be repeated.",
)


def config_of(path: Path | None, overrides: tuple[str, ...], rpc: str | None) -> Any:
    from node.config import load_config

    return load_config(path, overrides=(*overrides, *((f"ledger.rpc={rpc}",) if rpc else ())))


def account_of(path: Path | None, password_file: Path | None, password_fd: int | None) -> Any:
    from node.wallet import open_wallet, read_password, wallet_address

    if path is None:
        raise UserError(
            "--wallet is missing",
            fix="name your key file, or make one: intellect-node wallet new key.json",
            exit_code=2,
        )
    wallet_address(path)  # a missing wallet is said before a password is asked
    return open_wallet(path, read_password(file=password_file, fd=password_fd))


def address_of(text: str) -> str:
    """A chain account in checksum form. Raises UserError."""
    from eth_utils import is_hex_address, to_checksum_address

    if not is_hex_address(text):
        raise UserError(
            f"{text!r} is not an address",
            fix="give 0x and 40 hex digits, as `intellect-node wallet show` prints",
            exit_code=2,
        )
    return to_checksum_address(text)
