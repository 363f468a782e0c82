"""Options that several commands share, and what is made of them: the config and the wallet's account.

Decides their spelling and defaults. Imports no heavy package before a command runs.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from node.errors import UserError
from node.show import TOKEN_WEI

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


class ChainChoice:
    """Which run and which chain the options name; what every command on the ledger starts from."""

    def __init__(self, rpc: str | None, config_path: Path | None, overrides: tuple[str, ...]) -> None:
        self._named = (config_path, overrides, rpc)

    def config(self) -> Any:
        """The run's config. Raises ConfigError."""
        return config_of(*self._named)

    def reader(self) -> tuple[Any, Any]:
        """The ledger, checked to be the run's, and its pool. Raises UserError."""
        from node.run_ledger import open_ledger

        return open_ledger(self.config(), None, None)


class WalletChoice:
    """Which wallet the options name. Its password is asked for when the account is opened."""

    def __init__(self, path: Path | None, password_file: Path | None, password_fd: int | None) -> None:
        self._named = (path, password_file, password_fd)

    def account(self) -> Any:
        """Raises UserError."""
        return account_of(*self._named)

    @property
    def address(self) -> str | None:
        """The wallet's address, without its password; None where no wallet is named. Raises WalletMissing."""
        from node.wallet import wallet_address

        return None if self._named[0] is None else wallet_address(self._named[0])


def with_chain(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of the chain, given to the command as one `chain: ChainChoice`."""

    @functools.wraps(command)
    def run(*, rpc: str | None, config_path: Path | None, overrides: tuple[str, ...], **others: Any) -> Any:
        return command(chain=ChainChoice(rpc, config_path, overrides), **others)

    return chain_options(run)


def with_wallet(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of the wallet, given to the command as one `wallet: WalletChoice`."""

    @functools.wraps(command)
    def run(*, wallet_path: Path | None, password_file: Path | None, password_fd: int | None, **others: Any) -> Any:
        return command(wallet=WalletChoice(wallet_path, password_file, password_fd), **others)

    return wallet_option(password_options(run))


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")


class AddressType(click.ParamType):
    """A chain address, made a checksum address; a typing error in a mixed-case one is found."""

    name = "address"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from eth_utils import is_hex_address, to_checksum_address

        digits = str(value).removeprefix("0x")
        plain = digits in (digits.lower(), digits.upper())
        if not is_hex_address(value) or not (plain or to_checksum_address(value) == value):
            raise UserError(
                f"{value!r} is not an address",
                fix="give 0x and 40 hex digits, as `intellect-node wallet show` prints; mixed case is a checksum",
                exit_code=2,
            )
        return to_checksum_address(value)


class HashType(click.ParamType):
    """32 bytes in hex."""

    name = "hash"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> bytes:
        if isinstance(value, bytes):
            return value
        if not re.fullmatch(r"(0x)?[0-9a-fA-F]{64}", value):
            raise UserError(
                f"{value!r} is not a hash", fix="give 64 hex digits, as `submissions` or `events` print", exit_code=2
            )
        return bytes.fromhex(value.removeprefix("0x"))


class TokensType(click.ParamType):
    """An amount of tokens, exact: whole ones or a decimal fraction of up to 18 digits, as wei."""

    name = "tokens"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        if not re.fullmatch(r"[0-9]{1,15}(\.[0-9]{1,18})?", value):
            raise UserError(
                f"{value!r} is not an amount of tokens", fix="give a number such as 100 or 0.5", exit_code=2
            )
        whole, _, fraction = value.partition(".")
        return int(whole) * TOKEN_WEI + int(fraction.ljust(18, "0"))


ADDRESS, HASH, TOKENS = AddressType(), HashType(), TokensType()
