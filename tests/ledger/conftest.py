"""One chain and one deployment for the whole session; each test makes its own pool and accounts."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from eth_account import Account
from eth_account.signers.local import LocalAccount

from ledger import Deployment, Ledger, deploy, sign_binding, sign_invite
from ledger.anvil import Anvil, anvil, anvil_binary
from ledger.rpc import Rpc
from ledger.types import Role, Terms

ETHER = 10**18
TERMS = Terms(
    min_stake_wei=10 * ETHER, slash_wei=4 * ETHER, unit_price_wei=10, member_limit=100, quorum=1, panel=1, round_s=10,
    verdict_s=1000, challenge_s=100, lease_s=300, requirements_uri="file:requirements.toml",
)  # fmt: skip
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
    """A fresh, started pool (10 tokens to join, 4 slashed), and nodes with funds."""

    chain: Anvil
    deployment: Deployment
    owner: Ledger
    pool_id: int

    def newcomer(self, queue_path: Path | None = None, account: LocalAccount | None = None) -> Ledger:
        """A funded node outside the pool that registered itself."""
        account = account or Account.create()
        self.owner.transfer_eth(account.address, ETHER)
        self.owner.mint(account.address, 10 * ETHER)
        ledger = Ledger(self.chain.url, self.deployment, account, queue_path)
        binding = ledger.new_binding(account.address, account.address, 600)
        ledger.register(binding, sign_binding(binding, self.deployment, account), 10 * ETHER)
        return ledger

    def member(self, role: Role, queue_path: Path | None = None) -> Ledger:
        ledger = self.newcomer(queue_path)
        self.invite(ledger, role)
        return ledger

    def invite(self, ledger: Ledger, role: Role) -> None:
        """Sign an invite for this node, and let it join."""
        invite = self.owner.new_invite(self.pool_id, ledger.account.address, role, 600)
        ledger.join(invite, sign_invite(invite, self.deployment, self.owner.account))

    def wait(self, seconds: int) -> None:
        """Let so much chain time pass."""
        rpc = Rpc(self.chain.url)
        rpc.call("evm_increaseTime", hex(seconds))
        rpc.call("evm_mine")


@pytest.fixture
def world(chain: Anvil, deployment: Deployment, owner: Ledger) -> World:
    return make_world(chain, deployment, owner, TERMS)


def make_world(chain: Anvil, deployment: Deployment, owner: Ledger, terms: Terms) -> World:
    """A started pool with these terms, in a domain of its own."""
    pool_id = owner.create_pool(owner.create_domain("maths"), owner.account.address, terms)
    owner.start_pool(pool_id)
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
