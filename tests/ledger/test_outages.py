"""Fifty transactions from one key at once, while the chain is paused, restarted, set back, replaced, or dear.

Each has exactly one effect: a domain of its own name, counted by events.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from eth_account.signers.local import LocalAccount

from ledger import Deployment, Ledger, deploy
from ledger.anvil import Anvil, anvil, anvil_binary, dev_account
from ledger.errors import ChainUnavailable, LedgerError, NotMined, WrongChain
from ledger.events import DomainCreated
from ledger.rpc import Rpc

CONTRACTS = Path(__file__).resolve().parents[2] / "contracts"
SENDER = dev_account(1)
MANY = 50


class Restartable:
    """An Anvil that keeps its port, and its state where told to."""

    def __init__(self, folder: Path) -> None:
        self._stack, self._state = ExitStack(), folder / "state.json"
        self.chain = self._start(0, keep=True)

    def stop(self) -> None:
        self._stack.close()

    def start(self, *, keep: bool) -> None:
        self.chain = self._start(int(self.chain.url.rpartition(":")[2]), keep=keep)

    def _start(self, port: int, *, keep: bool) -> Anvil:
        state = ("--state", str(self._state)) if keep else ()
        return self._stack.enter_context(anvil(anvil_binary(CONTRACTS), *state, port=port))


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Restartable]:
    made = Restartable(tmp_path)
    yield made
    made.stop()


@pytest.fixture
def deployment(machine: Restartable) -> Deployment:
    return deploy(machine.chain.url, machine.chain.account(0))


def open_ledger(machine: Restartable, deployment: Deployment, folder: Path, account: LocalAccount = SENDER) -> Ledger:
    ledger = Ledger(machine.chain.url, deployment, account, folder / "queue.sqlite", timeout_s=0.3)
    ledger._rpc._timeout_s = 0.5
    ledger._queue._bump_after_s = 0.2
    return ledger


def create_until_done(ledger: Ledger, name: str) -> None:
    """As the node does it: ask again until the chain answers."""
    deadline = time.monotonic() + 100
    while True:
        try:
            ledger.create_domain(name)
            return
        except (ChainUnavailable, NotMined):
            assert time.monotonic() < deadline


def all_at_once(work: Callable[[str], None]) -> list[threading.Thread]:
    threads = [threading.Thread(target=work, args=(f"d{i}",), daemon=True) for i in range(MANY)]
    for thread in threads:
        thread.start()
    return threads


def assert_each_once(ledger: Ledger, threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.join(100)
        assert not thread.is_alive()
    names = Counter(e.name for e in ledger._events(0, ledger.block_number) if isinstance(e, DomainCreated))
    assert names == Counter(f"d{i}" for i in range(MANY))


def until_sent(ledger: Ledger) -> None:
    deadline = time.monotonic() + 20
    while not ledger._queue._store.open_rows():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_fifty_at_once_while_nothing_is_mined(machine, deployment, tmp_path):
    ledger, control = open_ledger(machine, deployment, tmp_path), Rpc(machine.chain.url)
    control.call("evm_setAutomine", False)
    threads = all_at_once(lambda name: create_until_done(ledger, name))
    until_sent(ledger)
    control.call("evm_setIntervalMining", 1)
    time.sleep(1.5)  # a block or two, as on a chain with a clock
    control.call("evm_setIntervalMining", 0)
    control.call("evm_setAutomine", True)
    control.call("evm_mine")
    assert_each_once(ledger, threads)


def test_fifty_at_once_while_the_endpoint_is_frozen(machine, deployment, tmp_path):
    ledger = open_ledger(machine, deployment, tmp_path)
    threads = all_at_once(lambda name: create_until_done(ledger, name))
    until_sent(ledger)
    for _ in range(3):
        os.kill(machine.chain.pid, signal.SIGSTOP)
        time.sleep(0.7)  # longer than a request may take
        os.kill(machine.chain.pid, signal.SIGCONT)
        time.sleep(0.1)
    assert_each_once(ledger, threads)


def test_fifty_at_once_while_the_chain_is_restarted_with_its_state(machine, deployment, tmp_path):
    ledger = open_ledger(machine, deployment, tmp_path)
    Rpc(machine.chain.url).call("evm_setAutomine", False)  # what it is given now is forgotten with the restart
    threads = all_at_once(lambda name: create_until_done(ledger, name))
    until_sent(ledger)
    machine.stop()
    machine.start(keep=True)
    assert_each_once(ledger, threads)


def test_fifty_at_once_by_two_processes_that_share_the_file(machine, deployment, tmp_path):
    ledgers = [open_ledger(machine, deployment, tmp_path) for _ in range(2)]
    control = Rpc(machine.chain.url)
    control.call("evm_setAutomine", False)
    threads = all_at_once(lambda name: create_until_done(ledgers[int(name[1:]) % 2], name))
    until_sent(ledgers[0])
    time.sleep(0.5)
    control.call("evm_setAutomine", True)
    control.call("evm_mine")
    assert_each_once(ledgers[0], threads)


def test_a_chain_that_lost_everything_is_sent_nothing(machine, deployment, tmp_path):
    ledger = open_ledger(machine, deployment, tmp_path)
    Rpc(machine.chain.url).call("evm_setAutomine", False)
    faults: list[LedgerError] = []

    def create(name: str) -> None:
        try:
            create_until_done(ledger, name)
        except WrongChain as fault:
            faults.append(fault)

    threads = all_at_once(create)
    until_sent(ledger)
    machine.stop()
    machine.start(keep=False)
    for thread in threads:
        thread.join(100)
    assert len(faults) == MANY
    control = Rpc(machine.chain.url)
    assert control.call("eth_getTransactionCount", SENDER.address, "pending") == "0x0"
    assert control.call("txpool_status")["pending"] == "0x0"
    deploy(machine.chain.url, machine.chain.account(0))  # the same addresses, another salt
    with pytest.raises(WrongChain, match="salt"):
        ledger.create_domain("again")
    with pytest.raises(WrongChain, match="salt"):
        ledger.settle()
    assert control.call("eth_getTransactionCount", SENDER.address, "pending") == "0x0"


def test_what_a_reorganisation_took_back_is_sent_again_once(machine, deployment, tmp_path):
    ledger, control = open_ledger(machine, deployment, tmp_path), Rpc(machine.chain.url)
    ledger.create_domain("stays")
    before = control.call("evm_snapshot")
    for name in ("back", "back too"):
        ledger.create_domain(name)
    assert control.call("evm_revert", before)
    assert ledger.create_domain("new") == 4
    names = [event.name for event in ledger._events(0, ledger.block_number) if isinstance(event, DomainCreated)]
    assert names == ["stays", "back", "back too", "new"]


def test_a_raised_base_fee_is_followed(machine, deployment, tmp_path):
    ledger, control = open_ledger(machine, deployment, tmp_path), Rpc(machine.chain.url)
    control.call("evm_setAutomine", False)
    threads = all_at_once(lambda name: create_until_done(ledger, name))
    until_sent(ledger)
    control.call("anvil_setNextBlockBaseFeePerGas", hex(50 * 10**9))
    control.call("evm_mine")
    assert not [e for e in ledger._events(0, ledger.block_number) if isinstance(e, DomainCreated)], "it was too cheap"
    control.call("evm_setAutomine", True)
    control.call("anvil_setNextBlockBaseFeePerGas", hex(50 * 10**9))
    control.call("evm_mine")
    assert_each_once(ledger, threads)


def test_a_reverted_transaction_leaves_no_gap(machine, deployment, tmp_path):
    ledger, control = open_ledger(machine, deployment, tmp_path), Rpc(machine.chain.url)
    domain_id = ledger.create_domain("mine")
    # One that would not have been sent had it been estimated, as where the state changed since.
    call = ledger._call("ComputePools", "offerDomain", domain_id + 1, SENDER.address)
    nonce = int(control.call("eth_getTransactionCount", SENDER.address, "pending"), 16)
    request = {"from": SENDER.address, **call, "value": "0x0", "gas": hex(200_000)}
    receipt = ledger._queue._settle(ledger._queue._sign_new(request, nonce))
    assert receipt["status"] == "0x0"
    assert ledger.create_domain("after") == domain_id + 1
