"""A chain with one pool and the nodes started in it, as real processes, for `test_life` and `test_life_edges`.

The nodes reach the chain through a line that can be cut, all of them or each its own, and one of them reads the time
from a machine whose clock can be moved while it runs.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from ledger.anvil import anvil, anvil_binary
from ledger.client import Ledger
from node import local
from node.config import parse_config
from node.intent import Wish, write_wish
from node.local_run import Participant
from node.run_ledger import deployment_of
from tests.functional.tiny_model import make_tiny_model

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 120.0
CAST = {p.name: p for p in local.cast(workers=2, cheat=False, seed=23)}
HEARTBEAT_S = 2
SETTINGS = (f"network.heartbeat_s={HEARTBEAT_S}", "network.record_lifetime_s=9", "network.request_timeout_s=3",
            "worker.engine=tests.functional.quick_engine", "worker.max_unjudged=64", "task.name=digits")  # fmt: skip
MOVED_CLOCK = "worker-2"
SHIM = """
import time
right, right_ns = time.time, time.time_ns
def ahead_s():
    try:
        with open({path!r}) as file:
            return float(file.read() or 0)
    except FileNotFoundError:
        return 0.0
time.time = lambda: right() + ahead_s()
time.time_ns = lambda: right_ns() + int(ahead_s() * 1e9)
"""


class Line:
    """What stands between the nodes and the chain: while it is cut, nobody answers at its address."""

    def __init__(self, url: str) -> None:
        self._to = (urlsplit(url).hostname, urlsplit(url).port)
        self._sockets: set[socket.socket] = set()
        self._server = self._listen(0)
        self._port = self._server.getsockname()[1]
        self.url = f"http://127.0.0.1:{self._port}"

    def cut(self) -> None:
        """Every connection breaks, and none is taken."""
        for end in (self._server, *tuple(self._sockets)):
            _close(end)

    def mend(self) -> None:
        """As before."""
        self._server = self._listen(self._port)

    def _listen(self, port: int) -> socket.socket:
        server = socket.create_server(("127.0.0.1", port))
        threading.Thread(target=self._accept, args=(server,), daemon=True).start()
        return server

    def _accept(self, server: socket.socket) -> None:
        with suppress(OSError):
            while True:
                near, _ = server.accept()
                far = socket.create_connection(self._to)
                self._sockets |= {near, far}
                for ends in ((near, far), (far, near)):
                    threading.Thread(target=self._pump, args=ends, daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        for end in (source, sink):
            self._sockets.discard(end)
            _close(end)


def _close(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()


@dataclass
class Stage:
    """What a test sees and does."""

    folder: Path
    cast: Mapping[str, Participant]
    line: Line
    """To the chain, for everyone without one in `lines`."""
    chain_url: str
    ledger: Ledger
    nodes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    lines: dict[str, Line] = field(default_factory=dict)
    """To the chain, for one node alone."""

    def start(self, name: str, *options: str) -> None:
        role, more = self.cast[name].role, [] if name == "relay" else ["--join", self.join()]
        argv = [*self.common(name), "--role", role, "--data-dir", str(self.folder / name), *more, *options]
        argv += [part for setting in self.cast[name].settings for part in ("--set", setting)]
        argv += ["--rpc", self.lines[name].url] if name in self.lines else []
        path = [str(self.folder / "shim")] if name == MOVED_CLOCK else []
        env = os.environ | {"PYTHONPATH": os.pathsep.join([*path, str(ROOT)])}
        with (self.folder / f"{name}.log").open("ab") as log:
            self.nodes[name] = subprocess.Popen(self.command(*argv), cwd=ROOT, stdout=log, stderr=log, env=env)

    def move_clock(self, ahead_s: float) -> None:
        """From now on MOVED_CLOCK's machine reads a time so far ahead, also in processes that run."""
        partial = self.folder / "ahead.part"
        partial.write_text(str(ahead_s))
        partial.replace(self.folder / "ahead")

    def kill(self, name: str) -> None:
        """kill -9, and nothing is said to anybody."""
        self.nodes[name].kill()
        self.nodes[name].wait()

    def kill_dhtd(self, name: str) -> None:
        """The node's directory child and its p2pd die; the node lives."""
        (dhtd,) = self.dhtds(name)
        os.killpg(dhtd.pid, signal.SIGKILL)

    def dhtds(self, name: str) -> list[psutil.Process]:
        """The node's directory child, where it has one."""
        found = []
        for child in psutil.Process(self.nodes[name].pid).children():
            with suppress(psutil.NoSuchProcess):
                found += [child] if "node.dhtd" in child.cmdline() else []
        return found

    def suspend(self, *names: str) -> None:
        for name in names:
            self.nodes[name].send_signal(signal.SIGSTOP)

    def resume(self, *names: str) -> None:
        for name in names:
            self.nodes[name].send_signal(signal.SIGCONT)

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

    def manage(self, *arguments: str) -> str:
        """A command of the pool's manager."""
        return self.run("pool", *arguments, *self.common("trainer"))

    def join(self) -> str:
        return (self.folder / "relay" / "join").read_text().split()[0]

    def until(self, what: str, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not holds():
            assert time.monotonic() < deadline, f"not within {PATIENCE_S:.0f} s: {what}\n{self.logs()}"
            time.sleep(0.1)

    def until_state(self, name: str, *states: str) -> None:
        self.until(f"{name} is {' or '.join(states)}", lambda: self.states(name)[-1:] in [[state] for state in states])

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()

    def logs(self) -> str:
        return "\n".join(f"== {path.name}\n{path.read_text()[-3000:]}" for path in self.folder.glob("*.log"))

    def metrics(self, name: str, kind: str) -> list[dict]:
        path = self.folder / name / "metrics.jsonl"
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        return [line for line in (json.loads(text) for text in lines if text.endswith("\n")) if line["kind"] == kind]

    def work(self, name: str, kind: str) -> list[tuple[int, int]]:
        """(step, counter) of what a worker generated or submitted."""
        return [(line["step"], line["counter"]) for line in self.metrics(name, kind)]

    def states(self, name: str) -> list[str]:
        """What the trainer said that node's states were."""
        address = self.cast[name].account.address
        return [line["state"] for line in self.metrics("trainer", "life") if line["node"] == address]

    def edges(self) -> set[tuple[str, str, str]]:
        """(state, event, state) of all changes in any node's life that the trainer saw."""
        return {(line["before"], line["event"], line["state"]) for line in self.metrics("trainer", "life")}

    def leave_by_another_tool(self, name: str) -> None:
        """The node's wallet leaves the pool; the running node is told nothing."""
        wallet = Ledger(self.chain_url, self.ledger.deployment, self.cast[name].account)
        wallet.leave(1)
        wallet.close()

    def is_member(self, name: str) -> bool:
        return self.ledger.member(1, self.cast[name].account.address).active


@contextmanager
def open_stage(
    folder: Path, *, cast: Mapping[str, Participant] = CAST, settings: Iterable[str] = SETTINGS,
    started: Iterable[str] = ("trainer", "worker-1", "worker-2"), lines: Iterable[str] = (),
) -> Iterator[Stage]:  # fmt: skip
    """Chain and relay, and who else is to be `started`; each of `lines` has a line of its own to the chain."""
    make_tiny_model(folder / "model", updates=0)  # nobody looks at what it says
    (folder / "shim").mkdir()
    (folder / "shim" / "sitecustomize.py").write_text(SHIM.format(path=str(folder / "ahead")))
    with anvil(anvil_binary(local.CONTRACTS)) as chain:
        line = Line(chain.url)
        config = parse_config("", overrides=(*settings, f"model.path={folder / 'model'}"))
        config = local._found(chain.url, chain.account(0), config, tuple(cast.values()), 23)
        sections = {"worker": config.worker.model_copy(update={"max_unjudged": 64}),
                    "ledger": config.ledger.model_copy(update={"rpc": line.url})}  # fmt: skip
        config = config.model_copy(update=sections)
        local._write_files(folder, config, tuple(cast.values()))
        made = Stage(folder, cast, line, chain.url, Ledger(chain.url, deployment_of(config)))
        made.lines |= {name: Line(chain.url) for name in lines}
        try:
            made.start("relay")
            made.until("the relay is up", lambda: (folder / "relay" / "join").exists())
            if "worker-2" in cast:  # a step takes 64 submissions of one worker: it saves its own
                write_wish(folder / "worker-2", Wish.PAUSE)
            for name in started:
                made.start(name)
            yield made
        finally:
            made.resume(*made.nodes)
            for process in made.nodes.values():
                process.send_signal(signal.SIGTERM)
            for process in made.nodes.values():
                process.wait(30)
            for each in (line, *made.lines.values()):
                each.cut()


def free_port() -> int:
    """The first of three free ports in a row."""
    for first in range(20_011, 60_000, 97):
        with suppress(OSError), ExitStack() as held:
            for port in range(first, first + 3):
                held.enter_context(closing(socket.create_server(("127.0.0.1", port))))
            return first
    raise AssertionError("no free ports")
