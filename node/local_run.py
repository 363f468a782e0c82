"""The running part of `run local`: starts the nodes, watches them, shows what happens, and reports on it.

Every node is started by the command line that anybody would use. Everything that is started here is stopped here.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import trio
from eth_account.signers.local import LocalAccount
from rich.console import Console
from rich.live import Live

from ledger.client import Ledger
from ledger.errors import shown_url
from node import live_table, report
from node.chain import follow_events
from node.config import RunConfig
from node.errors import DiskFull, UserError
from node.metrics import MetricsTail
from node.observation import NodeView, Observation
from node.processes import NodeProcess, keep_running, memory_bytes, stop_all
from node.run_ledger import deployment_of

WORKER_NICENESS = "10"
BOOTSTRAP_TIMEOUT_S = 180.0
REFRESH_S, LINE_S, MEMORY_S = 0.5, 5.0, 15.0
CLOSING_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Participant:
    """One node of the local network."""

    name: str
    role: str
    account: LocalAccount
    settings: tuple[str, ...] = ()
    """Its own `--set` options."""
    honest: bool = True


class LocalRun:
    """One local network from start to report."""

    def __init__(
        self,
        config: RunConfig,
        participants: tuple[Participant, ...],
        folder: Path,
        console: Console,
        minutes: float,
    ) -> None:
        self._config, self._participants, self._folder = config, participants, folder
        self._console, self._minutes = console, minutes
        self._nodes = {p.name: NodeProcess(p.name, (), folder / p.name / "node.log") for p in participants}
        views = {
            p.name: NodeView(name=p.name, role=p.role, address=p.account.address, honest=p.honest) for p in participants
        }
        self._seen = Observation(wanted_steps=config.rl.steps, nodes=views)
        self._tails = {p.name: MetricsTail(folder / p.name / "metrics.jsonl") for p in participants}
        self._peak_bytes = 0
        self._began = time.monotonic()
        self.stopped_by: str | None = None
        self.fault: UserError | None = None

    async def go(self) -> None:
        """Until the steps are done, the time is over, somebody stops it, or the trainer cannot go on."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._watch_signals, nursery.cancel_scope)
                nursery.start_soon(self._watch_ledger)
                nursery.start_soon(self._watch_memory)
                nursery.start_soon(self._show)
                with trio.move_on_after(self._minutes * 60):
                    await self._run_nodes()
                nursery.cancel_scope.cancel()
        finally:
            await stop_all(list(self._nodes.values()))
            self._read_metrics()
            self._report()

    async def _run_nodes(self) -> None:
        async with trio.open_nursery() as nursery:
            bootstrap: str | None = None
            for participant in sorted(self._participants, key=lambda p: p.role == "worker"):
                if participant.role == "worker":
                    await self._wait_for_validators()
                node = self._nodes[participant.name]
                node.command = self._command(participant, bootstrap)
                home = self._folder / participant.name
                if participant.role == "trainer":
                    nursery.start_soon(self._run_trainer, node, nursery.cancel_scope)
                else:
                    nursery.start_soon(self._run_node, node, nursery.cancel_scope)
                if bootstrap is None:
                    bootstrap = await self._wait_for_bootstrap(node, home / "join")

    async def _run_node(self, node: NodeProcess, scope: trio.CancelScope) -> None:
        if await keep_running(node) == DiskFull.exit_code:
            self.fault = DiskFull(f"the disk of {self._folder} is full", fix="free space, or name another with --out")
            scope.cancel()

    async def _run_trainer(self, node: NodeProcess, scope: trio.CancelScope) -> None:
        status = await keep_running(node)
        if status:
            self.fault = UserError(f"the trainer gave up (status {status}):\n{node.tail()}", fix=f"see {node.log_path}")
        else:
            await self._await_verdicts()
        scope.cancel()

    async def _await_verdicts(self) -> None:
        """What the workers had recorded is still judged, and what was rejected burnt: nobody leaves in suspense."""
        with trio.move_on_after(CLOSING_S):
            while any(
                v.open_cases or v.submissions > v.accepted + v.rejected + v.late for v in self._seen.nodes.values()
            ):
                await trio.sleep(REFRESH_S)

    async def _wait_for_validators(self) -> None:
        """Nobody judges what is older than its membership, so without these no quorum would come together."""
        with trio.move_on_after(BOOTSTRAP_TIMEOUT_S):
            while not all(v.member for v in self._seen.nodes.values() if v.role == "validator"):
                await trio.sleep(REFRESH_S)

    async def _wait_for_bootstrap(self, node: NodeProcess, path: Path) -> str:
        with trio.move_on_after(BOOTSTRAP_TIMEOUT_S):
            while not (path.exists() and path.read_text().strip()):
                await trio.sleep(REFRESH_S)
            return path.read_text().split()[0]
        raise UserError(f"{node.name} did not come up:\n{node.tail()}", fix=f"see {node.log_path}")

    def _command(self, participant: Participant, bootstrap: str | None) -> list[str]:
        home = self._folder / participant.name
        # Workers take what the trainer and the validator leave of the cores: unchecked work helps nobody.
        niceness = ["nice", "-n", WORKER_NICENESS] if participant.role == "worker" else []
        command = [*niceness, sys.executable, "-m", "node.cli", "--role", participant.role]
        command += ["--wallet", str(home / "wallet.json"), "--password-file", str(self._folder / "password")]
        command += ["--config", str(self._folder / "run.toml"), "--data-dir", str(home)]
        for setting in participant.settings:
            command += ["--set", setting]
        return command if bootstrap is None else [*command, "--join", bootstrap]

    async def _watch_signals(self, scope: trio.CancelScope) -> None:
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async for number in signals:
                self.stopped_by = signal.Signals(number).name
                scope.cancel()

    async def _watch_ledger(self) -> None:
        ledger = Ledger(self._config.ledger.rpc, deployment_of(self._config))
        async for event in follow_events(ledger, ledger.cursor(Path(":memory:"), "onlooker")):
            self._seen.see_event(event, time.monotonic())

    async def _watch_memory(self) -> None:
        while True:
            self._peak_bytes = max(self._peak_bytes, await trio.to_thread.run_sync(memory_bytes, os.getpid()))
            await trio.sleep(MEMORY_S)

    def _read_metrics(self) -> None:
        for name, tail in self._tails.items():
            for metric in tail.read():
                self._seen.see_metric(name, metric)

    async def _show(self) -> None:
        if not self._console.is_terminal:
            shown = ""
            while True:
                self._read_metrics()
                line = live_table.plain_line(self._seen, time.monotonic() - self._began)
                if line != shown:
                    print(line, flush=True)
                shown = line
                await trio.sleep(LINE_S)
        with Live(console=self._console, auto_refresh=False) as live:
            while True:
                self._read_metrics()
                table = live_table.render(self._seen, elapsed_s=time.monotonic() - self._began)
                live.update(table, refresh=True)
                await trio.sleep(REFRESH_S)

    def _report(self) -> None:
        settings = self._config.model_dump(mode="json")
        settings["ledger"]["rpc"] = shown_url(settings["ledger"]["rpc"])
        try:
            report.write_report(
                self._seen,
                self._folder,
                minutes=(time.monotonic() - self._began) / 60,
                peak_memory_gb=self._peak_bytes / 1e9,
                settings=settings,
                final_policy=self._copy_model(),
            )
        except OSError as error:
            self.fault = self.fault or UserError(
                f"the report could not be written to {self._folder}: {error.strerror or error}",
                fix="free space, or name another folder with --out",
            )
        text = report.summary_text(self._seen, self._folder)
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def _copy_model(self) -> Path | None:
        """The newest trained policy as `model/` in the output folder; None before the first."""
        folders = (self._folder / "trainer" / "checkpoints").glob("policy-*")
        trained = [f for f in folders if f.suffix != ".part"]
        if not trained:
            return None
        newest = max(trained, key=lambda folder: int(folder.name.rpartition("-")[2]))
        partial = self._folder / "model.part"
        try:
            shutil.copytree(newest, partial)
            return partial.rename(self._folder / "model")
        finally:
            shutil.rmtree(partial, ignore_errors=True)
