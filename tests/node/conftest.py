"""A chain for the tests of one file, and the folder of somebody who was given wallets and the run's config."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ledger.anvil import Anvil, anvil, anvil_binary
from node import local
from node.config import RunConfig, parse_config
from node.wallet import create_wallet


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
