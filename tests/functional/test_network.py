"""The whole network as real processes on this machine: anvil, DHT, vLLM and a tiny model, a cheat, a bribe, a crash."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from ledger.anvil import anvil, anvil_binary
from node import local
from node.config import parse_config

ROOT = Path(__file__).resolve().parents[2]
LIFETIME_S = 10
SETTINGS = (
    "rl.learning_rate=2e-3",
    "rl.groups_per_submission=4",
    "rl.groups_per_step=16",
    "task.max_new_tokens=4",
    "model.max_model_len=128",
    f"network.record_lifetime_s={LIFETIME_S}",
)
STEPS = 14
PATIENCE_S = 420.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A running `run local`."""

    process: subprocess.Popen[str]
    out: Path

    def until(self, what: str, holds: Callable[[], bool]) -> None:
        """Wait for `holds()`, looking each time the process prints or a second has passed."""
        deadline = time.monotonic() + PATIENCE_S
        while not holds():
            assert self.process.poll() is None, f"the run ended before: {what}\n{self.logs()}"
            assert time.monotonic() < deadline, f"not within {PATIENCE_S:.0f} s: {what}\n{self.logs()}"
            with_timeout(self.process, 1.0)

    def metrics(self, name: str, kind: str) -> list[dict]:
        path = self.out / name / "metrics.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return [metric for metric in map(json.loads, lines) if metric["kind"] == kind]

    def node(self, name: str) -> psutil.Process | None:
        """The node's main process, if it lives."""
        children = psutil.Process(self.process.pid).children()
        alive = [p for p in children if p.status() != psutil.STATUS_ZOMBIE]
        return next((p for p in alive if f"{self.out}/{name}/wallet.json" in p.cmdline()), None)

    def logs(self) -> str:
        return "\n".join(f"== {p}\n{p.read_text()[-1500:]}" for p in sorted(self.out.glob("*/*.log")))


def with_timeout(process: subprocess.Popen[str], seconds: float) -> None:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "node.cli", *arguments]


@pytest.fixture(scope="module")
def run(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    out = tmp_path_factory.mktemp("network") / "out"
    settings = [word for setting in SETTINGS for word in ("--set", setting)]
    options = ["--model", str(tiny_model), "--task", "digits", "--steps", str(STEPS), "--minutes", "12", "--seed", "1"]
    argv = command("run", "local", "--workers", "2", *options, *settings, "--out", str(out))
    with (out.parent / "stdout").open("w") as sink:
        process = subprocess.Popen(argv, cwd=ROOT, stdout=sink, stderr=sink, text=True)
        run = Run(process=process, out=out)
        try:
            yield run
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(60)


def asked(*arguments: str, status: int = 0) -> Any:
    """What a command prints as JSON."""
    done = subprocess.run(command(*arguments, "--json"), cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == status, done.stdout + done.stderr
    return json.loads(done.stdout)


def live_peers(run: Run) -> dict[str, str]:
    """What `intellect-node peers` says: address → role."""
    join = (run.out / "relay" / "join").read_text().split()[0]
    peers = asked("peers", "--config", str(run.out / "run.toml"), "--join", join)
    assert all(peer["peer_id"] and 0 <= peer["age_s"] <= LIFETIME_S for peer in peers)
    return {peer["address"]: peer["role"] for peer in peers}


def test_the_network_learns_ejects_the_cheat_and_survives_a_crash(run: Run) -> None:
    run.until("the worker hands in", lambda: bool(run.metrics("worker-1", "submitted")))
    people = {p.name: p for p in local.cast(workers=2, cheat=True, seed=1, validators=3, bribe=True)}
    victim = run.node("worker-1")
    os.kill(victim.pid, signal.SIGKILL)
    handed_in = len(run.metrics("worker-1", "submitted"))

    # The cheat leaves once it is ejected; its record goes with its lifetime. The killed worker comes back.
    left = {p.account.address: p.role for p in people.values() if p.name != "cheat"}
    run.until("the cheat is ejected and leaves", lambda: run.node("cheat") is None)
    run.until("the peers are all but the cheat", lambda: live_peers(run) == left)
    ask_what_became_of_the_cheat(run, people["cheat"].account.address, people["bribed"].account.address)
    run.until("the killed worker takes part again", lambda: len(run.metrics("worker-1", "submitted")) > handed_in)

    family = psutil.Process(run.process.pid).children(recursive=True)
    run.until("the trainer ends", lambda: (run.out / "report.json").exists())
    assert run.process.wait(60) == 0
    assert [p for p in family if p.is_running() and p.status() != psutil.STATUS_ZOMBIE] == []
    assert list(run.out.rglob("*.part")) == []

    report = json.loads((run.out / "report.json").read_text())
    assert report["steps"] == STEPS
    assert report["cheats_ejected"] == 1
    assert report["honest_rejected"] == 0
    assert report["submissions"] > 0
    assert report["tokens_per_s"] > 0
    assert report["validators"] == 3
    assert 0 < report["verdict_p50_s"] <= report["verdict_max_s"] < 60
    nodes = {node["name"]: node for node in report["nodes"]}
    assert nodes["bribed"]["dissents"] == report["dissents"] > 0, "only the bribed one's verdicts changed nothing"
    assert nodes["cheat"]["ejected"]
    assert nodes["cheat"]["burnt_wei"] == nodes["cheat"]["staked_wei"]
    for name in ("worker-1", "worker-2"):
        assert nodes[name]["accepted"] > 0
        assert nodes[name]["credit_wei"] == nodes[name]["units"] * local.TERMS.unit_price_wei > 0
    assert report["reward_last"] > report["reward_first"]
    assert (run.out / "reward.png").stat().st_size > 0
    assert "activations are not those of the claimed policy" in (run.out / "report.html").read_text()


def ask_what_became_of_the_cheat(run: Run, cheat: str, bribed: str) -> None:
    """`explain` on the cheat's submission and on the bribed validator, with the evidence from the relay."""
    config, join = str(run.out / "run.toml"), (run.out / "relay" / "join").read_text().split()[0]
    bad = asked("submissions", "--node", cheat, "--config", config)[0]["submission_id"]
    told: dict[str, Any] = {}

    def evidence_is_there() -> bool:
        told.update(asked("explain", bad, "--config", config, "--join", join))
        return all(one["evidence"] for one in told["grounds"])

    run.until("the relay has the evidence", evidence_is_there)
    found = [one["evidence"] for one in told["grounds"] if one["validator"] != bribed]
    assert len(found) == 2
    assert all(one["code"] == "proof-mismatch" and one["facts"]["mantissa_mean"] > 2.1 for one in found)
    assert told["summary"][0].startswith("Outcome: rejected, proof-mismatch")
    if len(told["grounds"]) == 3:
        assert f"Validator {bribed} said accepted, which changed nothing." in told["summary"]
    (run.out / "explained.json").write_text(json.dumps(told))
    [verdicts] = [
        line for line in asked("explain", bribed, "--config", config)["summary"] if line.startswith("Verdicts")
    ]
    assert re.fullmatch(r"Verdicts: \d+, of which [1-9]\d* were against the outcome and changed nothing\.", verdicts)


def test_anybody_finds_the_same_offline(run: Run, tiny_model: Path) -> None:
    """The cheat's file, its policy and its claim are enough: no chain, no network."""
    run.until("the report", lambda: (run.out / "report.json").exists() or run.process.poll() is not None)
    explained = run.out / "explained.json"
    claim = json.loads(explained.read_text())["claim"]
    file = run.out / "relay" / "content" / "blobs" / claim["file_hash"].removeprefix("0x")
    options = ["--policy", str(tiny_model), "--claim", str(explained), "--config", str(run.out / "run.toml")]
    found = asked("verify", str(file), *options, status=1)
    assert found["rejection"]["code"] == "proof-mismatch"
    results = [check["result"] for check in found["checks"]]
    assert results.count("rejected") == 1
    assert set(results[: results.index("rejected")]) == {"ok"}
    assert found["facts"]["mantissa_mean"] > found["bounds"]["mantissa_mean"]


def test_the_final_policy_is_a_plain_folder_that_transformers_loads(run: Run, tiny_model: Path) -> None:
    run.until("the report", lambda: (run.out / "report.json").exists() or run.process.poll() is not None)
    script = (
        "import sys, torch\nfrom transformers import AutoModelForCausalLM, AutoTokenizer\n"
        "base, trained = (AutoModelForCausalLM.from_pretrained(p).state_dict() for p in sys.argv[1:])\n"
        "AutoTokenizer.from_pretrained(sys.argv[2])\n"
        "assert base.keys() == trained.keys()\n"
        "assert any(not torch.equal(base[k], trained[k]) for k in base)\n"
    )
    subprocess.run([sys.executable, "-c", script, str(tiny_model), str(run.out / "model")], check=True, cwd=ROOT)


def test_the_same_seed_gives_the_same_run_id_and_so_the_same_problems() -> None:
    def ledger_section() -> dict:
        participants = local.cast(workers=1, cheat=True, seed=5)
        with anvil(anvil_binary(local.CONTRACTS)) as chain:
            config = local._found(chain.url, chain.account(0), parse_config(""), participants, 5)
        return config.ledger.model_dump(exclude={"rpc"})

    assert ledger_section() == ledger_section()
