"""Wallets and a domain that never change, and one checkpoint folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from eth_account import Account
from eth_account.signers.local import LocalAccount

from dht.signing import RecordDomain


@pytest.fixture
def accounts() -> list[LocalAccount]:
    return [Account.from_key(bytes([number]) * 32) for number in (1, 2, 3)]


@pytest.fixture
def domain(accounts: list[LocalAccount]) -> RecordDomain:
    return RecordDomain(chain_id=31337, contract=accounts[0].address, salt=b"s" * 32, run_id=b"r" * 32)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A flat checkpoint: an empty file, a short one, and one of ten and a half 1 KiB chunks."""
    path = tmp_path / "checkpoint"
    path.mkdir()
    (path / "empty.txt").write_bytes(b"")
    (path / "config.json").write_bytes(b'{"tiny": true}')
    (path / "model.safetensors").write_bytes(bytes(n * 7 % 251 for n in range(10 * 1024 + 512)))
    return path
