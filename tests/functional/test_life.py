"""A node's life on real processes: chain, relay, trainer and a worker, with the owner's and the manager's commands."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ledger.anvil import Anvil, anvil, anvil_binary
from ledger.client import Ledger
from node import local
from node.config import parse_config
from node.run_ledger import deployment_of

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 120.0
CAST = {p.name: p for p in local.cast(workers=1, cheat=False, seed=23)}
SETTINGS = ("network.heartbeat_s=3", "network.record_lifetime_s=9", "worker.engine=tests.functional.quick_engine",
            "worker.max_unjudged=64", "task.name=digits")  # fmt: skip


@dataclass
class Stage:
    """A chain with one pool, and the nodes that were started."""

    folder: Path
    chain: Anvil
    ledger: Ledger
    nodes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, name: str, *settings: str) -> None:
        role, more = CAST[name].role, [] if name == "relay" else ["--join", self.join()]
        options = [word for setting in settings for word in ("--set", setting)]
        argv = [*self.common(name), "--role", role, "--data-dir", str(self.folder / name), *more, *options]
        with (self.folder / f"{name}.log").open("ab") as log:
            self.nodes[name] = subprocess.Popen(self.command(*argv), cwd=ROOT, stdout=log, stderr=log)

    def common(self, name: str) -> list[str]:
        return ["--config", str(self.folder / "run.toml"), "--wallet", str(self.folder / name / "wallet.json"),
                "--password-file", str(self.folder / "password")]  # fmt: skip

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "node.cli", *arguments]

    def run(self, *arguments: str) -> str:
        done = subprocess.run(
            self.command(*arguments), cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def join(self) -> str:
        return (self.folder / "relay" / "join").read_text().split()[0]

    def until(self, what: str, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not holds():
            assert time.monotonic() < deadline, f"not within {PATIENCE_S:.0f} s: {what}\n{self.logs()}"
            time.sleep(0.2)

    def logs(self) -> str:
        return "\n".join(f"== {path.name}\n{path.read_text()[-3000:]}" for path in self.folder.glob("*.log"))

    def metrics(self, name: str, kind: str) -> list[dict]:
        path = self.folder / name / "metrics.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return [line for line in map(json.loads, lines) if line["kind"] == kind]

    def states(self, name: str) -> list[str]:
        """What the trainer said that node's states were."""
        address = CAST[name].account.address
        return [line["state"] for line in self.metrics("trainer", "life") if line["node"] == address]

    def is_member(self, name: str) -> bool:
        return self.ledger.member(1, CAST[name].account.address).active


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    from tests.functional.tiny_model import make_tiny_model

    folder = tmp_path_factory.mktemp("life")
    make_tiny_model(folder / "model", updates=0)  # nobody looks at what it says
    with anvil(anvil_binary(local.CONTRACTS)) as chain:
        config = parse_config("", overrides=(*SETTINGS, f"model.path={folder / 'model'}"))
        config = local._found(chain.url, chain.account(0), config, tuple(CAST.values()), 23)
        config = config.model_copy(update={"worker": config.worker.model_copy(update={"max_unjudged": 64})})
        local._write_files(folder, config, tuple(CAST.values()))
        made = Stage(folder, chain, Ledger(chain.url, deployment_of(config)))
        try:
            made.start("relay")
            made.until("the relay is up", lambda: (folder / "relay" / "join").exists())
            made.start("trainer")
            made.start("worker-1")
            yield made
        finally:
            for process in made.nodes.values():
                process.send_signal(signal.SIGCONT)
                process.send_signal(signal.SIGTERM)
            for process in made.nodes.values():
                process.wait(30)


def test_a_worker_lives_unseen_obeys_pauses_and_leaves(stage: Stage) -> None:
    stage.until("the worker hands in", lambda: len(stage.metrics("worker-1", "submitted")) >= 2)
    assert stage.states("worker-1")[-1] == "active"
    worker, manager = CAST["worker-1"].account.address, stage.common("trainer")

    # Nobody reads its address, and its manager reaches it all the same.
    listed = json.loads(stage.run("peers", "--config", manager[1], "--join", stage.join(), "--json"))
    assert [peer["multiaddrs"] for peer in listed if peer["address"] == worker] == [[]]
    shown = stage.run("pool", "logs", *manager, "--join", stage.join(), "--lines", "200", worker)
    assert "handed in submission" in shown
    assert not re.search(r"[0-9a-f]{64}", shown)
    stage.run("pool", "restart-engine", *manager, "--join", stage.join(), worker)
    audit = [json.loads(line) for line in (stage.folder / "worker-1" / "audit.jsonl").read_text().splitlines()]
    assert [(line["order"], line["outcome"]) for line in audit] == [("logs", "obeyed"), ("restart-engine", "obeyed")]
    stage.until("a second engine runs", lambda: len(stage.metrics("worker-1", "engine")) == 2)

    # kill -9: what was made and not recorded is handed in by the next process.
    stage.nodes["worker-1"].kill()
    stage.nodes["worker-1"].wait()
    before = len(stage.metrics("worker-1", "submitted"))
    stage.start("worker-1")
    stage.until("it goes on", lambda: len(stage.metrics("worker-1", "submitted")) > before)
    recorded = [(line["step"], line["counter"]) for line in stage.metrics("worker-1", "submitted")]
    assert len(recorded) == len(set(recorded)), "each exactly once"

    # Its owner pauses it, lets it go on, and has it leave.
    data = ["--data-dir", str(stage.folder / "worker-1")]
    stage.run("drain", *data, "--pause")
    stage.until("it is paused", lambda: "to pause" in (stage.folder / "worker-1.log").read_text())
    stage.run("drain", *data, "--resume")
    stage.run("drain", *data)
    assert stage.nodes["worker-1"].wait(30) == 0
    assert not stage.is_member("worker-1")
    submitted = {(line["step"], line["counter"]) for line in stage.metrics("worker-1", "submitted")}
    generated = {(line["step"], line["counter"]) for line in stage.metrics("worker-1", "generated")}
    assert generated == submitted, "everything that was finished was handed in before it left"
    stage.until("its manager knows", lambda: stage.states("worker-1")[-1] in ("left", "unknown"))
    assert "draining" in stage.states("worker-1")

    # Started again it is invited again, without hand work.
    stage.start("worker-1")
    stage.until("it is back", lambda: stage.states("worker-1")[-1] == "active")
    stage.nodes["worker-1"].send_signal(signal.SIGTERM)
    stage.nodes["worker-1"].wait(30)
    assert stage.is_member("worker-1"), "who is only stopped stays a member for a while"
    stage.run("drain", *data, *stage.common("worker-1"))
    assert not stage.is_member("worker-1"), "the command leaves in its place"
    stage.until("its manager knows", lambda: stage.states("worker-1")[-1] in ("left", "unknown"))


def test_a_silent_relay_is_taken_out_and_comes_back_by_itself(stage: Stage) -> None:
    stage.until("the relay is active", lambda: stage.states("relay")[-1:] == ["active"])
    os.kill(stage.nodes["relay"].pid, signal.SIGSTOP)
    stage.until("it is dead", lambda: stage.states("relay")[-1] == "dead")
    stage.until("it is off the ledger", lambda: not stage.is_member("relay"))
    os.kill(stage.nodes["relay"].pid, signal.SIGCONT)
    stage.until("it is back", lambda: stage.is_member("relay"))
    assert stage.states("relay")[-4:] == ["suspect", "dead", "waiting", "active"] or (
        stage.states("relay")[-5:] == ["suspect", "dead", "waiting", "invited", "active"]
    )


def test_a_suspended_trainer_declares_nobody_dead(stage: Stage) -> None:
    stage.until("the relay is active", lambda: stage.states("relay")[-1:] == ["active"])
    before = len(stage.states("relay"))
    os.kill(stage.nodes["trainer"].pid, signal.SIGSTOP)
    time.sleep(20.0)  # longer than it takes to die; the one wait that has no event to wait for
    os.kill(stage.nodes["trainer"].pid, signal.SIGCONT)
    seen = len(stage.metrics("trainer", "life"))
    time.sleep(6.0)
    assert "dead" not in stage.states("relay")[before:], seen
    assert stage.is_member("relay")
