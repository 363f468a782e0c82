"""`intellect-node run local`: a whole network on this machine, on a chain of its own, and a report of what happened.

Every participant is a real node in a real process, started by the same command line that anybody would use. What is
special here: throw-away wallets with play money, a chain that ends with the run, and a cheat that everybody else
must find out by themselves. Everything that is started here is stopped here.
"""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import trio
from eth_account import Account
from eth_account.signers.local import LocalAccount
from eth_utils import keccak
from rich.console import Console
from rich.live import Live

from ledger.anvil import AnvilFailed, anvil, anvil_binary
from ledger.client import Ledger
from ledger.deployment import deploy
from node import live_table, report
from node.chain import follow_events
from node.config import RunConfig, load_config
from node.errors import DiskFull, UserError
from node.metrics import MetricsTail
from node.model import base_model
from node.observation import NodeView, Observation
from node.processes import NodeProcess, keep_running, memory_bytes, stop_all
from node.start import deployment_of, with_ledger
from node.wallet import create_wallet

log = logging.getLogger(__name__)
CONTRACTS = Path(__file__).resolve().parent.parent / "contracts"
TOKEN_WEI = ETHER_WEI = 10**18
STAKE_WEI, SLASH_WEI = 100 * TOKEN_WEI, 100 * TOKEN_WEI
GAS_WEI = 10 * ETHER_WEI
WALLET_SCRYPT_N = 2
"""Play money: a wallet that opens at once."""
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


def cast(*, workers: int, cheat: bool, seed: int) -> tuple[Participant, ...]:
    """Who takes part. The same seed gives the same wallets, hence the same problems."""

    def participant(name: str, role: str, **more: object) -> Participant:
        key = keccak(b"intellect-node/local/" + seed.to_bytes(8, "big") + name.encode())
        return Participant(name=name, role=role, account=Account.from_key(key), **more)  # type: ignore[arg-type]

    liar = {"settings": ("worker.engine=node.cheat_engine",), "honest": False}
    return (
        participant("relay", "relay"),
        participant("trainer", "trainer"),
        participant("validator", "validator"),
        *(participant(f"worker-{number}", "worker") for number in range(1, workers + 1)),
        *((participant("cheat", "worker", **liar),) if cheat else ()),
    )


def main(
    *,
    config_path: Path | None,
    overrides: tuple[str, ...],
    steps: int | None,
    minutes: float,
    workers: int,
    cheat: bool,
    model: str | None,
    task: str | None,
    seed: int | None,
    out: Path | None,
) -> None:
    """Run the network, show it, report on it. Raises UserError."""
    options = {"rl.steps": steps, "model.path": model, "task.name": task}
    named = tuple(f"{key}={value}" for key, value in options.items() if value is not None)
    config = load_config(config_path, overrides=(*overrides, *named))
    seed = secrets.randbits(32) if seed is None else seed
    folder = out or Path("runs") / time.strftime("%Y%m%d-%H%M%S")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise UserError(f"{folder} is not empty", fix="name another folder with --out, or empty it")
    except OSError as error:
        raise UserError(f"cannot use {folder}: {error.strerror}", fix="name another folder with --out") from error
    folder = folder.resolve()
    participants = cast(workers=workers, cheat=cheat, seed=seed)
    console = Console()
    console.print(f"output in {folder}; seed {seed}")
    if not config.model.path:
        console.print("preparing the model SmolLM2-135M-Instruct (the first time takes about a minute)")
    config = config.model_copy(
        update={"model": config.model.model_copy(update={"path": str(base_model(config.model.path).resolve())})}
    )
    try:
        with anvil(anvil_binary(CONTRACTS)) as chain:
            config = _found(chain.url, chain.account(0), config, participants, seed)
            _write_files(folder, config, participants)
            run = _LocalRun(config, participants, folder, console, minutes)
            trio.run(run.go)
    except AnvilFailed as error:
        raise UserError(str(error), fix="run scripts/setup") from error
    if run.stopped_by is not None:
        raise UserError(f"stopped by {run.stopped_by}", fix=f"what was reached is in {folder}", exit_code=130)
    if run.fault is not None:
        raise run.fault


def _found(
    rpc: str, purse: LocalAccount, config: RunConfig, participants: tuple[Participant, ...], seed: int
) -> RunConfig:
    """Contracts, money, domain and pool on the fresh chain; the config that describes them."""
    salt = keccak(b"intellect-node/local/salt/" + seed.to_bytes(8, "big"))
    deployment = deploy(rpc, purse, salt=salt)
    ledger = Ledger(rpc, deployment, purse)
    for participant in participants:
        ledger.transfer_eth(participant.account.address, GAS_WEI)
        if participant.role != "trainer":
            ledger.mint(participant.account.address, STAKE_WEI)
    by_role = {p.role: p.account.address for p in participants}
    domain_id = ledger.create_domain(config.task.name)
    pool_id = ledger.create_pool(domain_id, by_role["trainer"], STAKE_WEI, SLASH_WEI)
    ledger.close()
    trainer = config.trainer.model_copy(update={"validators": (by_role["validator"],)})
    # All share these cores: what a worker makes before its last work was judged takes them from the judge.
    worker = config.worker.model_copy(update={"max_unjudged": 0})
    roles = {"trainer": trainer, "worker": worker}
    return with_ledger(config, deployment, rpc=rpc, pool_id=pool_id).model_copy(update=roles)


def _write_files(folder: Path, config: RunConfig, participants: tuple[Participant, ...]) -> None:
    (folder / "run.toml").write_text(config.to_toml())
    password = secrets.token_urlsafe(16)
    descriptor = os.open(folder / "password", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(password)
    for participant in participants:
        home = folder / participant.name
        home.mkdir(mode=0o700)
        create_wallet(home / "wallet.json", password, iterations=WALLET_SCRYPT_N, key=bytes(participant.account.key))


class _LocalRun:
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
            for participant in self._participants:
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
        """What the workers had recorded is still judged, so that nobody leaves without an answer."""
        with trio.move_on_after(CLOSING_S):
            while any(v.submissions > v.accepted + v.rejected + v.late for v in self._seen.nodes.values()):
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
            self._seen.see_event(event)

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
        try:
            report.write_report(
                self._seen,
                self._folder,
                minutes=(time.monotonic() - self._began) / 60,
                peak_memory_gb=self._peak_bytes / 1e9,
                settings=self._config.model_dump(mode="json"),
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
