"""One chain and one deployment for the whole session; each test makes its own pool and accounts."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from eth_account import Account
from eth_account.signers.local import LocalAccount

from ledger import Deployment, Ledger, deploy, sign_invite
from ledger.anvil import Anvil, anvil, anvil_binary
from ledger.types import Role

ETHER = 10**18
CONTRACTS = Path(__file__).resolve().parents[2] / "contracts"


@pytest.fixture(scope="session")
def chain() -> Iterator[Anvil]:
    with anvil(anvil_binary(CONTRACTS)) as running:
        yield running


@pytest.fixture(scope="session")
def deployment(chain: Anvil) -> Deployment:
    return deploy(chain.url, chain.account(0))


@pytest.fixture(scope="session")
def owner(chain: Anvil, deployment: Deployment) -> Ledger:
    """Owns the token, the domains and the pools; manages the pools."""
    return Ledger(chain.url, deployment, chain.account(0))


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A fresh pool (10 tokens to join, 4 slashed), and nodes with funds."""

    chain: Anvil
    deployment: Deployment
    owner: Ledger
    pool_id: int

    def newcomer(self, queue_path: Path | None = None, account: LocalAccount | None = None) -> Ledger:
        """A funded and registered node outside the pool."""
        account = account or Account.create()
        self.owner.transfer_eth(account.address, ETHER)
        self.owner.mint(account.address, 10 * ETHER)
        ledger = Ledger(self.chain.url, self.deployment, account, queue_path)
        ledger.register(10 * ETHER)
        return ledger

    def member(self, role: Role, queue_path: Path | None = None) -> Ledger:
        ledger = self.newcomer(queue_path)
        invite = self.owner.new_invite(self.pool_id, ledger.account.address, role, 600)
        ledger.join(invite, sign_invite(invite, self.deployment, self.owner.account))
        return ledger


@pytest.fixture
def world(chain: Anvil, deployment: Deployment, owner: Ledger) -> World:
    domain_id = owner.create_domain("maths")
    pool_id = owner.create_pool(domain_id, owner.account.address, 10 * ETHER, 4 * ETHER)
    return World(chain=chain, deployment=deployment, owner=owner, pool_id=pool_id)


@pytest.fixture
def in_threads() -> Callable[[list[Callable[[], object]]], list[object]]:
    """Run the calls at the same time and return their results; an exception in one is raised."""

    def run(calls: list[Callable[[], object]]) -> list[object]:
        results: list[object] = [None] * len(calls)

        def work(index: int) -> None:
            try:
                results[index] = calls[index]()
            except Exception as error:  # handed to the test's thread below
                results[index] = error

        threads = [threading.Thread(target=work, args=(i,)) for i in range(len(calls))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        for result in results:
            if isinstance(result, Exception):
                raise result
        return results

    return run
