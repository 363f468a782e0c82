"""What a person is told when a node cannot start: the fault, the fix, and an exit status that is not 0."""

from __future__ import annotations

import fcntl
import io
import socket
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from ledger.anvil import Anvil
from ledger.client import Ledger
from node import local
from node.config import RunConfig, load_config
from node.run_ledger import deployment_of
from node.wallet import create_wallet

ROOT = Path(__file__).resolve().parents[2]
SEED = 11
CAST = local.cast(workers=1, cheat=False, seed=SEED)


def start(home: Path, role: str, wallet: str, *more: str) -> subprocess.CompletedProcess[str]:
    options = ["--config", "run.toml", "--password-file", "password", "--data-dir", f"data-{role}"]
    argv = [sys.executable, "-m", "node.cli", "--role", role, "--wallet", f"{wallet}.json", *options, *more]
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": str(home)}
    return subprocess.run(argv, cwd=home, env=environment, capture_output=True, text=True, timeout=120, check=False)


def assert_told(done: subprocess.CompletedProcess[str], fault: str, fix: str) -> None:
    assert done.returncode not in (0, -9), done
    assert fault in done.stderr, done.stderr
    assert fix in done.stderr.split("fix:")[1], done.stderr
    assert "Traceback" not in done.stderr, done.stderr


def test_no_chain_at_the_rpc(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    done = start(home, "worker", "worker-1", "--rpc", f"http://127.0.0.1:{port}")
    assert_told(done, f"no chain at http://127.0.0.1:{port}", "--rpc")


def test_another_deployment_at_the_rpc(home: Path) -> None:
    done = start(home, "worker", "worker-1", "--set", f"ledger.salt=0x{'11' * 32}")
    assert_told(done, "deployment salt", "[ledger]")


def test_a_pool_that_does_not_exist(home: Path) -> None:
    done = start(home, "worker", "worker-1", "--set", "ledger.pool_id=99")
    assert_told(done, "pool 99", "ledger.pool_id")


def test_a_wallet_without_ether(home: Path) -> None:
    address = create_wallet(home / "poor.json", "secret", iterations=2)
    assert_told(start(home, "worker", "poor"), f"{address} cannot pay for gas", "send some ether")


def test_a_wallet_without_stake_tokens(home: Path, chain: Anvil, config: RunConfig) -> None:
    address = create_wallet(home / "bare.json", "secret", iterations=2)
    ledger = Ledger(chain.url, deployment_of(config), chain.account(0))
    ledger.transfer_eth(address, 10**18)
    ledger.close()
    done = start(home, "worker", "bare")
    assert_told(done, f"{address} holds 0 stake tokens", "send stake tokens")
    assert_terms_told(done)


def test_who_is_kept_out_stakes_nothing_more(home: Path, chain: Anvil, config: RunConfig) -> None:
    address = create_wallet(home / "barred.json", "secret", iterations=2)
    purse = Ledger(chain.url, deployment_of(config), chain.account(0))
    purse.transfer_eth(address, 10**18)
    manager = Ledger(chain.url, deployment_of(config), CAST[1].account)
    manager.blacklist(config.ledger.pool_id, address, "spam")
    done = start(home, "worker", "barred")
    assert done.returncode == 4, done
    assert_told(done, "has blacklisted this node", "ask the pool's manager")
    assert "stake tokens" not in done.stderr.split("fix:")[1], "no tokens at risk for nothing"
    assert not purse.node(address).registered
    purse.close()
    manager.close()


def test_a_trainer_that_may_not_manage_the_pool(home: Path) -> None:
    done = start(home, "trainer", "worker-1")
    assert_told(done, "may not manage pool 1", "a manager's wallet")
    assert_terms_told(done)


def test_run_local_says_the_terms_of_its_pool(config: RunConfig) -> None:
    printed = io.StringIO()
    local._tell_terms(Console(file=printed), config)
    assert "pool 1, stake: 100 tokens to join; a rejection burns 100\n" in printed.getvalue()
    assert len(printed.getvalue().splitlines()) == 7


def assert_terms_told(done: subprocess.CompletedProcess[str]) -> None:
    """Whatever happens next: what holds in this pool was said first."""
    for text in ("owner: 0x", f"manager: {CAST[1].account.address}", "stake: 100 tokens to join; a rejection burns 100",
                 "credit: 0.001 tokens a verified token", "verdicts: by one validator alone, of 1 drawn at first",
                 "appeals: within 5 s of a rejection", "asks for: no particular machine"):  # fmt: skip
        assert f"pool 1, {text}" in done.stderr, done.stderr


def test_a_wrong_password(home: Path) -> None:
    (home / "password").write_text("wrong")
    assert_told(start(home, "worker", "worker-1"), "wrong password", "wallet new")


def test_a_broken_model_folder(home: Path) -> None:
    (home / "model").mkdir()
    done = start(home, "trainer", "trainer", "--set", f"model.path={home / 'model'}")
    assert_told(done, "no complete model", "model.path")


def test_a_port_that_is_taken(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert_told(start(home, "relay", "relay", "--port", str(port)), str(port), "port")


def test_an_unknown_task(home: Path) -> None:
    assert_told(start(home, "relay", "relay", "--set", "task.name=astrology"), "task.name", "arithmetic")


def test_a_second_node_in_the_same_folder(home: Path) -> None:
    (home / "data-relay").mkdir()
    with (home / "data-relay" / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert_told(start(home, "relay", "relay"), "another node runs in data-relay", "--data-dir")


def test_a_data_folder_of_a_newer_program(home: Path) -> None:
    (home / "data-relay").mkdir()
    database = sqlite3.connect(home / "data-relay" / "ledger.sqlite")
    database.execute("PRAGMA user_version = 99")
    database.close()
    assert_told(start(home, "relay", "relay"), "ledger.sqlite has version 99", "newer program")


def test_a_pool_that_has_ended(home: Path, chain: Anvil, config: RunConfig) -> None:
    owner = Ledger(chain.url, deployment_of(config), chain.account(0))
    terms = owner.terms(config.ledger.pool_id)
    pool_id = owner.create_pool(owner.create_domain("short"), owner.account.address, terms)
    owner.end_pool(pool_id)
    owner.close()
    done = start(home, "worker", "worker-1", "--set", f"ledger.pool_id={pool_id}")
    assert_told(done, f"pool {pool_id} has ended", "pool that goes on")


def test_no_run_is_configured(home: Path) -> None:
    (home / "run.toml").write_text("")
    assert_told(start(home, "worker", "worker-1"), "no run is configured", "--config")


@pytest.mark.parametrize("join", ["garbage", "/ip4/127.0.0.1/tcp/1", "/ip4/127.0.0.1/tcp/4001/p2p/12D3KooWA74"])
def test_a_join_that_is_no_dht_address(home: Path, join: str) -> None:
    assert_told(start(home, "worker", "worker-1", "--join", join), "--join", "data folder")


def test_the_config_that_a_run_writes_is_read_back(home: Path, config: RunConfig) -> None:
    assert load_config(home / "run.toml") == config


def test_a_machine_below_the_requirements_starts_nothing(home: Path) -> None:
    done = start(home, "relay", "relay", "--set", "requirements.disk_gb=1000000", "--rpc", "http://127.0.0.1:1")
    assert_told(done, "1e+06 GB are required", "--data-dir")  # before the chain is asked, which is not there
    assert done.returncode == 5
    assert "ok: python: Python 3.11" in done.stderr
    assert "problem: disk" in done.stderr


def test_a_host_that_is_not_this_machines(home: Path) -> None:
    assert_told(start(home, "relay", "relay", "--set", "network.host=192.0.2.1"), "192.0.2.1", "network.host")
