"""Every command on the ledger against a real chain: what it does, what it prints, and what it says when refused."""

from __future__ import annotations

import hashlib
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from eth_account import Account

from ledger import Ledger, sign_invite
from ledger.anvil import anvil, anvil_binary
from ledger.court import Answer
from ledger.rpc import Rpc
from ledger.types import CaseState, Outcome, Role, Verdict
from node import cli
from node.config import load_config
from node.run_ledger import deployment_of
from node.wallet import create_wallet, open_wallet

CONTRACTS = Path(__file__).resolve().parents[2] / "contracts"
PASSWORD = "pw"
PEOPLE = ("owner", "heir", "cold", "worker", "validator")


@dataclass(frozen=True, slots=True, kw_only=True)
class Town:
    """A chain with the contracts and a started pool; people with wallets, ether and tokens."""

    folder: Path
    url: str
    run: Callable[..., tuple[int, str, str]]

    def address(self, name: str) -> str:
        return json.loads(self.ok("stake", "show", "--wallet", self.wallet(name), "--json"))["address"]

    def wallet(self, name: str) -> Path:
        return self.folder / f"{name}.json"

    def ok(self, *words: str | Path, by: str | None = None) -> str:
        """The output of a command that must succeed."""
        code, out, err = self.run(*self._words(words, by))
        assert code == 0, err
        return out

    def refused(self, *words: str | Path, by: str | None = None) -> str:
        """What a command that must fail says, with its fix."""
        code, out, err = self.run(*self._words(words, by))
        assert code not in (0, 130), out
        assert err.startswith("error: ")
        assert "\nfix: " in err
        return err

    def as_json(self, *words: str | Path, by: str | None = None) -> dict:
        return json.loads(self.ok(*words, "--json", by=by))

    def ledger(self, name: str) -> Ledger:
        config = load_config(self.folder / "run.toml")
        return Ledger(self.url, deployment_of(config), open_wallet(self.wallet(name), PASSWORD))

    def admit(self, name: str, role: Role) -> None:
        node, manager = self.ledger(name), self.ledger("owner")
        invite = manager.new_invite(1, node.account.address, role, 600)
        node.join(invite, sign_invite(invite, manager.deployment, manager.account))

    def wait(self, seconds: int) -> None:
        rpc = Rpc(self.url)
        rpc.call("evm_increaseTime", hex(seconds))
        rpc.call("evm_mine")

    def _words(self, words: tuple[str | Path, ...], by: str | None) -> list[str | Path]:
        signed = ["--wallet", self.wallet(by), "--password-file", self.folder / "password"] if by else []
        return [*words, *signed, "--config", self.folder / "run.toml"]


@pytest.fixture
def town(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Town]:
    (tmp_path / "password").write_text(PASSWORD)

    def run(*words: str | Path) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            cli.main([str(word) for word in words])
        out, err = capsys.readouterr()
        return ended.value.code or 0, out, err

    with anvil(anvil_binary(CONTRACTS)) as chain:
        made = Town(folder=tmp_path, url=chain.url, run=run)
        for name in PEOPLE:
            create_wallet(made.wallet(name), PASSWORD, iterations=2)
        owner = ["--wallet", made.wallet("owner"), "--password-file", tmp_path / "password"]
        for name in PEOPLE:
            address = open_wallet(made.wallet(name), PASSWORD).address
            assert run("chain", "fund", address, "--ether", "5", "--rpc", chain.url)[0] == 0
        code, _, err = run(
            "pool", "create", "--rpc", chain.url, "--name", "maths", "--min-stake", "10", "--slash", "4",
            "--unit-price", "0.5", "--challenge", "60", "--out", tmp_path / "run.toml", *owner,
        )  # fmt: skip
        assert code == 0, err
        for name in PEOPLE:
            made.ok("chain", "fund", made.address(name), "--ether", "0", "--tokens", "100", by="owner")
        yield made


def test_a_domain_changes_hands_in_two_steps_and_keeps_people_out(town: Town) -> None:
    assert town.as_json("domain", "show")["name"] == "maths"
    assert town.as_json("domain", "create", "physics", by="heir") == {"domain_id": 2}
    heir = town.address("heir")
    assert "NotOwner" in town.refused("domain", "transfer", heir, by="heir")
    town.ok("domain", "transfer", heir, by="owner")
    assert town.as_json("domain", "show")["owner"] == town.address("owner")
    assert heir in town.ok("domain", "show")
    assert "to nobody any more" in town.ok("domain", "transfer", "0x" + "0" * 40, by="owner")
    assert "NotPendingOwner" in town.refused("domain", "accept", by="heir")
    assert f"offered to {heir}" in town.ok("domain", "transfer", heir, by="owner")
    town.ok("domain", "accept", by="heir")
    assert town.as_json("domain", "show")["owner"] == heir
    assert "NotPendingOwner" in town.refused("domain", "accept", by="owner")

    worker = town.address("worker")
    town.ok("stake", "deposit", "10", by="worker")
    town.admit("worker", Role.WORKER)
    town.ok("domain", "blacklist", worker, "--reason", "spam", by="heir")
    assert not town.ledger("owner").member(1, worker).active
    town.ok("domain", "blacklist", worker, "--reason", "sorry", "--undo", by="heir")
    assert town.ledger("owner").member(1, worker).active
    assert "does not fit" in town.refused("domain", "blacklist", worker, "--reason", "ü", by="heir")


def test_a_pool_is_run_by_its_owner_and_its_manager(town: Town) -> None:
    heir, worker = town.address("heir"), town.address("worker")
    town.ok("stake", "deposit", "10", by="worker")
    town.admit("worker", Role.WORKER)
    (row,) = json.loads(town.ok("pool", "members", "--json"))
    assert (row["role"], row["address"], row["stake_wei"]) == ("worker", worker, 10 * 10**18)
    assert worker in town.ok("pool", "members")

    assert "NotManager" in town.refused("pool", "eject", worker, "--reason", "slow", by="worker")
    assert "is out of pool 1" in town.ok("pool", "eject", worker, "--reason", "too-slow", by="owner")
    assert "was no member" in town.ok("pool", "eject", heir, "--reason", "too-slow", by="owner")
    assert json.loads(town.ok("pool", "members", "--json")) == []
    assert "No longer a member of pool 1: too-slow" in town.ok("explain", worker)
    town.admit("worker", Role.WORKER)
    town.ok("pool", "blacklist", worker, "--reason", "spam", by="owner")
    assert "Kept out of pool 1: spam" in town.ok("explain", worker)
    town.ok("pool", "blacklist", worker, "--reason", "settled", "--undo", by="owner")

    town.ok("pool", "pause", by="owner")
    assert town.ledger("owner").pool(1).joins_paused
    town.ok("pool", "pause", "--resume", by="owner")
    assert not town.ledger("owner").pool(1).joins_paused
    town.ok("pool", "set-manager", heir, by="owner")
    assert town.ledger("owner").may_manage(1, heir)
    town.ok("pool", "set-manager", heir, "--remove", by="owner")
    assert not town.ledger("owner").may_manage(1, heir)
    assert town.as_json("pool", "fund", "25", by="owner") == {"funds_wei": 25 * 10**18}
    town.ok("pool", "transfer", heir, by="owner")
    town.ok("pool", "accept", by="heir")
    assert town.ledger("owner").pool(1).owner == heir
    assert "NotOwner" in town.refused("pool", "end", "--yes", by="owner")
    assert "WrongState: the pool is active" in town.refused("pool", "reclaim", by="heir")
    town.ok("pool", "end", "--yes", by="heir")
    assert "StillOwing" in town.refused("pool", "reclaim", by="heir")
    town.wait(86_400 + 121)
    assert town.as_json("pool", "reclaim", by="heir") == {"paid_wei": 25 * 10**18}


def test_a_cold_wallet_stands_behind_a_node_and_gets_its_stake_back(town: Town) -> None:
    cold, worker = town.address("cold"), town.address("worker")
    assert "not registered" in town.ok("stake", "show", "--node", worker)
    assert "is not registered" in town.refused("stake", "deposit", "10", "--node", worker, by="cold")
    binding = town.folder / "binding.json"
    town.ok("wallet", "bind", "--staker", cold, "--out", binding, by="worker")
    assert binding.stat().st_mode & 0o777 == 0o600
    assert "NotStaker" in town.refused("stake", "deposit", "10", "--binding", binding, by="heir")
    shown = town.as_json("stake", "deposit", "10", "--binding", binding, by="cold")
    assert shown == {"node": worker, "stake_wei": 10 * 10**18}
    assert "AlreadyRegistered" in town.refused("stake", "deposit", "10", "--binding", binding, by="cold")
    assert town.as_json("stake", "deposit", "0.5", "--node", worker, by="heir")["stake_wei"] == 105 * 10**17
    assert town.as_json("stake", "show", "--node", worker)["staker"] == cold

    assert "NotStaker" in town.refused("stake", "withdraw", "1", by="worker")
    assert "StakeTooLow" in town.refused("stake", "withdraw", "11", "--node", worker, by="cold")
    town.ok("stake", "withdraw", "10.5", "--node", worker, by="cold")
    assert "can be withdrawn from" in town.refused("stake", "withdraw", "--node", worker, by="cold")
    town.wait(7 * 86_400 + 1)
    assert town.as_json("stake", "withdraw", "--node", worker, by="cold")["paid_wei"] == 105 * 10**17
    assert "ZeroAmount" in town.refused("stake", "withdraw", "--node", worker, by="cold")


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b"x" * 5000, b'{"signature": 3}', b'{"signature": "0xzz"}'])
def test_a_file_that_is_no_agreement_is_refused(town: Town, content: bytes) -> None:
    path = town.folder / "broken.json"
    path.write_bytes(content)
    assert "no agreement" in town.refused("stake", "deposit", "10", "--binding", path, by="cold")


def test_work_is_credited_and_paid_and_an_accusation_goes_through_the_quorum(town: Town) -> None:
    worker, validator = town.address("worker"), town.address("validator")
    for name, role in (("validator", Role.VALIDATOR), ("worker", Role.WORKER)):
        town.ok("stake", "deposit", "10", by=name)
        town.admit(name, role)
    town.ok("pool", "fund", "100", by="owner")
    ledger = town.ledger("worker")
    submission_id = ledger.submit(1, 0, 0, [hashlib.sha256(b"file").digest()])
    assert town.ok("submissions").splitlines()[1].split()[:4] == ["0", "0", worker, "pending"]
    assert "no validator has taken it up" in town.ok("explain", submission_id.hex())
    recorded = ledger.recorded(submission_id)
    accept = Verdict(outcome=Outcome.ACCEPTED, units=12)
    town.ledger("validator").reveal(Answer(docket_id=submission_id, verdict=accept, file=ledger.file(recorded)))
    assert json.loads(town.ok("submissions", "--json"))[0]["outcome"] == "accepted"
    assert "Outcome: accepted." in town.ok("explain", submission_id.hex())
    assert town.as_json("credit", "show", "--node", worker)["credit_wei"] == 6 * 10**18
    assert "6 tokens" in town.ok("credit", "show", "--wallet", town.wallet("worker"))
    paid = town.as_json("credit", "claim", "--node", worker, by="heir")
    assert (paid["staker"], paid["paid_wei"]) == (worker, 6 * 10**18)
    assert "ZeroAmount" in town.refused("credit", "claim", by="worker")

    evidence = town.folder / "evidence.json"
    evidence.write_text('{"copied": true}')
    accuse = ("slash", worker, "--reason", "copied-work", "--evidence", evidence)
    assert "MayNotAccuse" in town.refused(*accuse, by="heir")
    docket_id = town.as_json(*accuse, by="owner")["docket_id"]
    assert town.ledger("owner").stake_of(worker) == 10 * 10**18, "a pool owner alone cannot slash"
    guilty = Verdict(outcome=Outcome.REJECTED, reason="copied-work")
    town.ledger("validator").reveal(Answer(docket_id=bytes.fromhex(docket_id[2:]), verdict=guilty))
    told = town.ok("explain", docket_id)
    assert "Outcome: rejected, copied-work" in told
    assert "it can appeal until" in told
    assert "MayNotAppeal" in town.refused("appeal", docket_id, by="heir")
    town.ok("appeal", docket_id, by="worker")
    assert "Appealed" in town.ok("explain", docket_id)
    town.wait(61)
    town.ledger("heir").execute(bytes.fromhex(docket_id[2:]))
    assert town.ledger("owner").case(bytes.fromhex(docket_id[2:])).state is CaseState.BURNT
    told = town.ok("explain", worker)
    assert "Kept out of pool 1: copied-work." in told
    assert "Burnt so far: 4 tokens." in told
    assert "Submissions: 1 (1 accepted)." in told
    assert "Verdicts: 2, of which 0 were against the outcome" in town.ok("explain", validator)

    lines = town.ok("events", "--json").splitlines()
    kinds = [json.loads(line)["event"] for line in lines]
    assert {"PoolCreated", "SubmissionRecorded", "WorkCredited", "CaseOpened", "CaseClosed", "StakeBurnt"} <= set(kinds)
    assert len(town.ok("events").splitlines()) == len(lines)


@pytest.mark.parametrize("words", [("explain", "0x12"), ("explain", "xyz"), ("stake", "show", "--node", "0x1")])
def test_what_is_neither_address_nor_hash_is_refused(town: Town, words: tuple[str, ...]) -> None:
    assert "is not a" in town.refused(*words)


def test_a_mistyped_checksum_is_found(town: Town) -> None:
    address = Account.create().address
    swapped = address[:2] + address[2:].swapcase()
    assert "is not an address" in town.refused("stake", "show", "--node", swapped)


def test_a_local_chain_keeps_its_state_over_a_restart(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    command = [sys.executable, "-m", "node.cli", "chain", "start", "--state", tmp_path / "chain", "--port", str(port)]
    balances = []
    for _ in range(2):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout.readline().startswith(f"chain at http://127.0.0.1:{port}")
            assert f"--rpc http://127.0.0.1:{port} " in process.stdout.readline()
            with pytest.raises(SystemExit):
                cli.main(["chain", "fund", "0x" + "12" * 20, "--ether", "1.5", "--rpc", f"http://127.0.0.1:{port}"])
            balances.append(int(Rpc(f"http://127.0.0.1:{port}").call("eth_getBalance", "0x" + "12" * 20, "latest"), 16))
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(20) == 0
    assert balances == [15 * 10**17, 3 * 10**18]
