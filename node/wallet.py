"""The wallet: one chain account in an Ethereum keystore (version 3), encrypted with a password.

Decides where a password may come from (prompt, file, file descriptor) and how the file is made. Refuses to overwrite a
wallet, to read one that others can read, and to take a password from the command line or the environment. Sends nothing
anywhere.
"""

from __future__ import annotations

import getpass
import json
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from node.errors import UserError, WalletMissing, WrongPassword
from node.secret_file import SecretExposed, read_secret, write_new_secret

if TYPE_CHECKING:
    from eth_account.signers.local import LocalAccount

log = logging.getLogger(__name__)
MAX_KEYSTORE_BYTES = 16 * 1024
MAX_PASSWORD_BYTES = 4096


def create_wallet(path: Path, password: str, *, iterations: int | None = None, key: bytes | None = None) -> str:
    """Makes a new account in a new file at `path` and returns its checksum address.

    `iterations` is scrypt's cost n (a power of two; None: the library's 2^18, about a second); small values are for
    tests and the local demo only. So is `key`, 32 secret bytes; None draws a fresh one.
    Raises UserError when the file exists or cannot be written.
    """
    from eth_account import Account

    if path.exists():
        raise UserError(
            f"{path} exists and is never overwritten",
            fix="choose another file name, or move the old wallet to a safe place",
        )
    if not password:
        raise UserError("the password is empty", fix="a wallet controls money: choose a password")
    account = Account.create() if key is None else Account.from_key(key)
    keystore = account.encrypt(password, kdf="scrypt", iterations=iterations)
    try:
        write_new_secret(path, json.dumps(keystore).encode())
    except FileExistsError as error:
        raise UserError(f"{path} exists and is never overwritten", fix="choose another file name") from error
    except OSError as error:
        raise UserError(
            f"cannot write {path}: {error.strerror}", fix="choose a folder that you may write to, with space left"
        ) from error
    return account.address


def open_wallet(path: Path, password: str) -> LocalAccount:
    """The account in the keystore at `path`. Raises WalletMissing, WrongPassword."""
    from eth_account import Account

    keystore = _read_keystore(path)
    try:
        return Account.from_key(Account.decrypt(keystore, password))
    except ValueError as error:  # a wrong MAC
        raise WrongPassword(
            f"wrong password for {path}", fix="try again; the password is the one given to `wallet new`"
        ) from error
    except (KeyError, TypeError, NotImplementedError) as error:
        raise _damaged(path) from error


def wallet_address(path: Path) -> str:
    """The checksum address that the keystore states, without its password. Raises WalletMissing."""
    from eth_utils import is_hex_address, to_checksum_address

    address = _read_keystore(path).get("address")
    if not isinstance(address, str) or not is_hex_address(address):
        raise _damaged(path)
    return to_checksum_address(address)


def read_password(*, file: Path | None = None, fd: int | None = None, confirm: bool = False) -> str:
    """The password from `file`, from the open file descriptor `fd`, or asked at the terminal (twice when `confirm`).

    One line end at the end is not part of it. A file that others can read is warned of only: containers mount secrets
    so. Raises UserError.
    """
    if file is not None and fd is not None:
        raise UserError("both --password-file and --password-fd are given", fix="give one of them", exit_code=2)
    if file is None and fd is None:
        return _ask_password(confirm)
    try:
        with open(fd if file is None else file, "rb", closefd=file is not None) as stream:
            raw = stream.read(MAX_PASSWORD_BYTES + 1)
            if file is not None and os.fstat(stream.fileno()).st_mode & 0o077:
                log.warning("the password file %s can be read by others; cure it with: chmod 600 %s", file, file)
    except OSError as error:
        source = f"file descriptor {fd}" if file is None else str(file)
        raise UserError(
            f"cannot read the password from {source}: {error.strerror}",
            fix="name a readable file or an open descriptor",
        ) from error
    if len(raw) > MAX_PASSWORD_BYTES:
        raise UserError(f"the password is longer than {MAX_PASSWORD_BYTES} bytes", fix="name the password's own file")
    try:
        return raw.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise UserError("the password is not UTF-8 text", fix="write it as plain text") from error


def _ask_password(confirm: bool) -> str:
    if not os.isatty(0):
        raise UserError("no terminal to ask for the password on", fix="give --password-file FILE or --password-fd N")
    password = getpass.getpass("wallet password: ")
    if confirm and getpass.getpass("the same again: ") != password:
        raise UserError("the two passwords differ", fix="run the command again")
    return password


def _read_keystore(path: Path) -> dict[str, Any]:
    try:
        keystore = json.loads(read_secret(path, MAX_KEYSTORE_BYTES))
    except FileNotFoundError as error:
        raise WalletMissing(
            f"there is no wallet at {path}", fix=f"make one: intellect-node wallet new {path}"
        ) from error
    except SecretExposed as error:
        raise WalletMissing(
            f"{path} is not private ({error})",
            fix=f"chmod 600 {path}; if others used this machine, move to a new wallet",
        ) from error
    except OSError as error:
        raise WalletMissing(f"cannot read {path}: {error.strerror}", fix="run as the user that made it") from error
    except ValueError as error:
        raise _damaged(path) from error
    if not isinstance(keystore, dict) or keystore.get("version") != 3:
        raise _damaged(path)
    return keystore


def _damaged(path: Path) -> WalletMissing:
    return WalletMissing(
        f"{path} is not an Ethereum keystore (version 3)",
        fix="name the file made by `intellect-node wallet new`, or restore it from a backup",
    )
