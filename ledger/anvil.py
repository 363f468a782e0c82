"""A local development chain: one Anvil process, started and stopped by us.

Decides its options (automine, little memory, loopback only) and its port (one the system says is free). Ends only the
process it started. Refuses nothing else: accounts are Anvil's well-known development keys, worth nothing anywhere.
"""

from __future__ import annotations

import ctypes
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from eth_account import Account
from eth_account.signers.local import LocalAccount

from ledger.errors import AnvilFailed, ChainUnavailable, NotMined
from ledger.rpc import Rpc

MNEMONIC = "test test test test test test test test test test test junk"  # Anvil's default
START_TIMEOUT_S = 30.0
MINED_TIMEOUT_S = 30.0
_STARTS = 3
HISTORY = ("--prune-history", "500")  # keeping none, a call can miss the block that was the latest when it came in
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Anvil:
    """A running chain."""

    url: str
    process: subprocess.Popen[bytes] = field(repr=False)

    @property
    def pid(self) -> int:
        return self.process.pid

    def wait(self) -> None:
        """Until it ends by itself."""
        self.process.wait()

    def account(self, index: int) -> LocalAccount:
        """Development account `index` (0 to 9), which starts with 10,000 ether."""
        return dev_account(index)


def give_ether(rpc_url: str, to: str, amount_wei: int) -> None:
    """From the first development account of an Anvil that runs at `rpc_url`; returns once it is there.

    Raises `LedgerError` on another chain, or where it is not mined in time.
    """
    rpc = Rpc(rpc_url)
    if "anvil" not in str(rpc.call("web3_clientVersion")).lower():
        raise AnvilFailed("this chain is no local Anvil: send ether with your own wallet")
    request = {"from": dev_account(0).address, "to": to, "value": hex(amount_wei)}
    sent, deadline = str(rpc.call("eth_sendTransaction", request)), time.monotonic() + MINED_TIMEOUT_S
    while (receipt := rpc.call("eth_getTransactionReceipt", sent)) is None:
        if time.monotonic() > deadline:
            raise NotMined(sent, MINED_TIMEOUT_S)
        time.sleep(0.02)
    if int(receipt["status"], 16) == 0:
        raise AnvilFailed(f"{to} does not take ether")


@cache
def dev_account(index: int) -> LocalAccount:
    """The key Anvil derives at m/44'/60'/0'/0/index."""
    Account.enable_unaudited_hdwallet_features()
    return Account.from_mnemonic(MNEMONIC, account_path=f"m/44'/60'/0'/0/{index}")


def anvil_binary(contracts: Path) -> Path:
    """The native program npm installed under `contracts`; raises `AnvilFailed` where it is missing."""
    found = sorted(contracts.glob("node_modules/@foundry-rs/anvil-*/bin/anvil*"))
    if not found:
        raise AnvilFailed(f"no anvil under {contracts / 'node_modules'}: run `npm ci` in {contracts}")
    return found[0]


@contextmanager
def anvil(binary: Path, *options: str, port: int = 0) -> Iterator[Anvil]:
    """Start a chain, yield it, stop it. `port=0` takes a free one. Raises `AnvilFailed`.

    Started from the main thread on Linux it also dies with this process, however that ends.
    """
    process, url = _start(binary, options, port)
    try:
        yield Anvil(url=url, process=process)
    finally:
        _stop(process)


def _start(binary: Path, options: tuple[str, ...], port: int) -> tuple[subprocess.Popen[bytes], str]:
    why = ""
    for _ in range(1 if port else _STARTS):  # another program may take the free port before Anvil does
        chosen = port or _free_port()
        argv = [str(binary), "--host", "127.0.0.1", "--port", str(chosen), "--quiet", *HISTORY, *options]
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
            preexec_fn=_die_with_parent if _may_bind_to_parent() else None,
        )
        url = f"http://127.0.0.1:{chosen}"
        if _answers(process, url):
            return process, url
        _stop(process)
        why = process.stderr.read(2000).decode(errors="replace").strip()
    raise AnvilFailed(f"anvil did not start on port {chosen}: {why or 'no answer in time'}")


def _answers(process: subprocess.Popen[bytes], url: str) -> bool:
    rpc, deadline = Rpc(url, timeout_s=1), time.monotonic() + START_TIMEOUT_S
    while process.poll() is None and time.monotonic() < deadline:
        try:
            rpc.call("eth_chainId")
        except ChainUnavailable:
            time.sleep(0.02)
        else:
            return process.poll() is None
    return False


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def _may_bind_to_parent() -> bool:
    """The kernel's signal comes when the starting *thread* ends, so only the main thread qualifies."""
    return sys.platform == "linux" and threading.current_thread() is threading.main_thread()


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
