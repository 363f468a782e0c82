"""`intellect-node doctor` as a person runs it: in a process of its own, with nothing, with a chain, with a network."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio

from dht.records import Authority
from ledger.anvil import Anvil
from ledger.client import Ledger
from ledger.invites import sign_invite
from ledger.types import Role
from node import local
from node.config import RunConfig
from node.membership import ensure_stake
from node.network import NetworkConfig, open_network
from node.run_ledger import deployment_of, domain_of
from node.wallet import create_wallet

ROOT = Path(__file__).resolve().parents[2]
SEED = 12
CAST = local.cast(workers=1, cheat=False, seed=SEED)
BY_NAME = {participant.name: participant for participant in CAST}
SHIM = "import time\nright = time.time\ntime.time = lambda: right() + 600\n"
LIMIT_S = 120.0


def environment(home: Path) -> dict[str, str]:
    return {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": str(home)}


def doctor(home: Path, *options: str, **changes: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "node.cli", "doctor", *options], cwd=home, env=environment(home) | changes,
        capture_output=True, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip


def told(done: subprocess.CompletedProcess[str]) -> tuple[dict[str, dict[str, str]], dict[str, str]]:
    """Check → finding and check → why it was left out, of `--json`."""
    assert done.returncode in (0, 5), done
    assert done.stderr == ""
    report: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == (5 if report["status"] == "problem" else 0)
    findings = {finding["check"]: finding for finding in report["findings"]}
    assert len(findings) == len(report["findings"]), "a check is made once"
    left_out = {item["check"]: item["why"] for item in report["left_out"]}
    assert not set(findings) & set(left_out)
    return findings, left_out


def statuses(findings: dict[str, dict[str, str]]) -> dict[str, str]:
    return {check: finding["status"] for check, finding in findings.items()}


def test_with_nothing_given(tmp_path: Path) -> None:
    done = doctor(tmp_path)
    assert done.returncode == 0, done
    lines = [line for line in done.stdout.splitlines() if not line.lstrip().startswith("fix:")]  # of a busy machine
    assert [line.split()[1] for line in lines[:7]] == ["python", "packages", "cpu", "memory", "gpu", "disk", "ports"]
    assert lines[-1].startswith("left out  chain, funds, stake, clock, network, reachability, bandwidth")
    assert "--config run.toml" in lines[-1]
    assert list(tmp_path.iterdir()) == []
    assert done.stderr == ""
    findings, left_out = told(doctor(tmp_path, "--json"))
    assert set(statuses(findings).values()) <= {"ok", "warning"}
    assert "network" in left_out


def test_nothing_heavy_is_imported() -> None:
    code = (
        "import sys, node.diagnosis, node.cli_doctor;"
        "print(sorted({'torch', 'vllm', 'hivemind', 'transformers', 'web3'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_problem_has_its_fix_below_it_and_its_own_exit_status(tmp_path: Path) -> None:
    (tmp_path / "pool.json").write_text('{"gpu_memory_gb": 90000}')
    done = doctor(tmp_path, "--requirements", "pool.json", "--rpc", "http://127.0.0.1:1")
    assert done.returncode == 5
    lines = done.stdout.splitlines()
    (at,) = [number for number, line in enumerate(lines) if line.startswith("problem   gpu")]
    assert lines[at + 1].startswith(" " * 24 + "fix: ")
    assert "problem   endpoint      http://127.0.0.1:1 does not serve a chain" in done.stdout
    assert "Traceback" not in done.stderr


def test_with_a_chain_and_no_network(home: Path, chain: Anvil) -> None:
    wallet = ["--wallet", "worker-1.json"]
    findings, left_out = told(doctor(home, "--json", "--role", "worker", "--config", "run.toml", *wallet))
    assert [findings[check]["status"] for check in ("chain", "funds", "stake", "clock")] == ["ok"] * 4
    assert "100 tokens will be staked" in findings["stake"]["line"]
    assert set(left_out) == {"network", "reachability", "bandwidth"}
    assert "--join" in left_out["network"]
    # the endpoint alone, without a run
    assert told(doctor(home, "--json", "--rpc", chain.url))[0]["endpoint"]["line"].endswith("serves chain 31337")


def test_an_account_without_money_and_a_wrong_chain(home: Path) -> None:
    create_wallet(home / "poor.json", "secret", iterations=2)
    options = ["--json", "--config", "run.toml", "--wallet", "poor.json"]
    findings, _ = told(doctor(home, *options, "--role", "worker"))
    assert (findings["funds"]["status"], findings["stake"]["status"]) == ("problem", "problem")
    findings, _ = told(doctor(home, *options, "--role", "trainer"))
    assert "the manager's wallet" in findings["stake"]["fix"]
    findings, left_out = told(doctor(home, *options, "--set", f"ledger.salt=0x{'11' * 32}"))
    assert "deployment salt" in findings["chain"]["line"]
    assert {"funds", "stake", "clock", "network"} <= set(left_out)
    findings, _ = told(doctor(home, *options, "--rpc", "http://127.0.0.1:1"))
    assert "no chain at" in findings["chain"]["line"]


def test_a_node_that_runs_in_the_folder_keeps_its_ports(home: Path) -> None:
    (home / "data-relay").mkdir()
    with (home / "data-relay" / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _, left_out = told(doctor(home, "--json", "--role", "relay"))
    assert "a node runs in data-relay" in left_out["ports"]
    assert "ports" in told(doctor(home, "--json", "--role", "relay"))[0]


def wrong_clock(home: Path) -> dict[str, str]:
    """The environment of a Python that is ten minutes ahead, in all its children as well."""
    shim = home / "shim"
    shim.mkdir(exist_ok=True)
    (shim / "sitecustomize.py").write_text(SHIM)
    return {"PYTHONPATH": f"{shim}{os.pathsep}{ROOT}"}


@asynccontextmanager
async def running_network(home: Path, config: RunConfig, folder: Path) -> AsyncIterator[tuple[str, Path]]:
    """A manager that serves policy 0 and a relay process that is a member; the relay's DHT address and its log.

    The relay's machine is ten minutes ahead, which nobody but its log may notice.
    """
    manager = Ledger(config.ledger.rpc, deployment_of(config), BY_NAME["trainer"].account)
    relay = Ledger(config.ledger.rpc, deployment_of(config), BY_NAME["relay"].account)
    pool_id = config.ledger.pool_id
    await ensure_stake(relay, BY_NAME["relay"].account, local.STAKE_WEI)
    invite = manager.new_invite(pool_id, relay.account.address, Role.RELAY, 600)
    signature = sign_invite(invite, manager.deployment, manager.account)
    await trio.to_thread.run_sync(relay.join, invite, signature)
    async with open_network(
        NetworkConfig(), account=manager.account, domain=domain_of(manager, pool_id),
        authority=Authority(manager=manager.account.address, epoch=1), data_dir=home / "data-manager",
    ) as network:  # fmt: skip
        content = await network.content.publish_checkpoint(folder, 0)
        await trio.to_thread.run_sync(manager.announce_checkpoint, pool_id, 0, content)
        log = home / "relay.log"
        with log.open("wb") as sink, subprocess.Popen(
            [
                sys.executable, "-m", "node.cli", "--role", "relay", "--wallet", "relay.json", "--config", "run.toml",
                "--password-file", "password", "--join", network.multiaddrs[0],
            ],
            cwd=home, env=environment(home) | wrong_clock(home), stdout=sink, stderr=sink, process_group=0,
        ) as process:  # fmt: skip
            try:
                while "policy 0 is here" not in log.read_text():
                    assert process.poll() is None, log.read_text()
                    await trio.sleep(0.1)
                yield (home / "data-relay" / "join").read_text().splitlines()[0], log
            finally:
                process.terminate()
                await trio.to_thread.run_sync(process.wait)
    manager.close()
    relay.close()


async def test_with_a_whole_network(home: Path, config: RunConfig) -> None:
    folder = home / "base"
    folder.mkdir()
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        (folder / name).write_text("{}")
    (folder / "model.safetensors").write_bytes(os.urandom(6 << 20))
    with trio.fail_after(LIMIT_S):
        async with running_network(home, config, folder) as (join, log):
            run = ["--json", "--config", "run.toml", "--join", join]

            async def ask(*options: str, **changes: str) -> tuple[dict[str, dict[str, str]], dict[str, str]]:
                return told(await trio.to_thread.run_sync(lambda: doctor(home, *run, *options, **changes)))

            findings, left_out = await ask("--role", "worker", "--wallet", "worker-1.json")
            assert (set(statuses(findings).values()), left_out) == ({"ok"}, {}), findings
            assert "a peer (" in findings["clock"]["line"]
            assert "1 relay" in findings["network"]["line"]
            assert "a relay dialled back to 127.0.0.1" in findings["reachability"]["line"]
            assert "the policy of 6.29 MB" in findings["bandwidth"]["line"]

            # the trainer's own folder, and another one; on a machine that is ten minutes ahead
            trainer = ["--role", "trainer", "--wallet", "trainer.json", "--set", f"model.path={folder}"]
            findings, _ = await ask(*trainer, **wrong_clock(home))
            wrong = {check for check, status in statuses(findings).items() if status != "ok"}
            assert wrong == {"clock"}, findings
            assert "10.0 min ahead of a peer" in findings["clock"]["line"]
            assert "file by file" in findings["model"]["line"]
            (folder / "config.json").write_text('{"another": "model"}')
            findings, _ = await ask(*trainer, "--set", "requirements.bandwidth_mb_s=99999")
            assert statuses(findings)["model"] == statuses(findings)["bandwidth"] == "problem"
            assert "config.json differs" in findings["model"]["line"]

            text = log.read_text()
            assert "ok: python: Python 3.11" in text
            assert "ok: bandwidth" in text
            assert "this machine's clock is 10.0 min ahead" in text
            assert "dialled" in text
        findings, left_out = await ask()
        assert statuses(findings)["network"] == "problem"
        assert {"reachability", "bandwidth"} <= {*left_out, *findings}
