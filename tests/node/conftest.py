"""A chain for the tests of one file, and the folder of somebody who was given wallets and the run's config."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from eth_account import Account
from eth_account.signers.local import LocalAccount

from dht.signing import RecordDomain
from ledger.anvil import Anvil, anvil, anvil_binary
from node import local
from node.config import RunConfig, parse_config
from node.wallet import create_wallet
from tests.node.real_network import Opener, opener_of


@pytest.fixture(scope="module")
def chain() -> Iterator[Anvil]:
    with anvil(anvil_binary(local.CONTRACTS)) as running:
        yield running


@pytest.fixture(scope="module")
def config(chain: Anvil, request: pytest.FixtureRequest) -> RunConfig:
    """Of a pool that the file's `CAST`, made with its `SEED`, is to join."""
    return local._found(chain.url, chain.account(0), parse_config(""), request.module.CAST, request.module.SEED)


@pytest.fixture
def home(tmp_path: Path, config: RunConfig, request: pytest.FixtureRequest) -> Path:
    (tmp_path / "run.toml").write_text(config.to_toml())
    (tmp_path / "password").write_text("secret")
    for participant in request.module.CAST:
        key = bytes(participant.account.key)
        create_wallet(tmp_path / f"{participant.name}.json", "secret", iterations=2, key=key)
    return tmp_path


@pytest.fixture
def accounts() -> list[LocalAccount]:
    return [Account.from_key(bytes([number]) * 32) for number in (1, 2, 3)]


@pytest.fixture
def domain(accounts: list[LocalAccount]) -> RecordDomain:
    return RecordDomain(chain_id=31337, contract=accounts[0].address, salt=b"s" * 32, run_id=b"r" * 32)


@pytest.fixture
def opener(accounts: list[LocalAccount], domain: RecordDomain, tmp_path: Path) -> Opener:
    """Of real networks, see `real_network`."""
    return opener_of(accounts, domain, tmp_path)
