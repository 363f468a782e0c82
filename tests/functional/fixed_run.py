"""A trainer's whole life over fixed rollouts: its real loop, resume, states, batches and training process; the ledger
is a file, and nobody else is in the network.

`python -m tests.functional.fixed_run FOLDER MODEL DEATHS` starts it again and again: it dies once of each of DEATHS (a
JSON list), and then once more lives to the end. What it announced is in FOLDER/ledger, a manifest's hash a line.
"""

from __future__ import annotations

import json
import logging
import os
import random
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import trio

import rl.trainer  # noqa: F401  before forking
from dht.manifest import POLICY, manifest_id
from dht.plan import ContentUnavailable
from dht.store import ContentStore
from ledger.errors import Reverted
from node.batches import Batches
from node.child import ChildDied, open_child
from node.config import RunConfig, parse_config
from node.deltas import DeltaMaker
from node.metrics import MetricsLog
from node.resume import Resume
from node.states import States
from node.trainer import _Publication, _train
from node.trainer_child import main as training_process
from node.training import Training
from rl.batch import StepBatch
from rl.rollouts import Rollout
from tests.functional.fork_host import answer, serve
from tests.functional.mortal import Death, arm
from tests.rl.tiny_llama import VOCABULARY

ROOT = Path(__file__).resolve().parents[2]
STEPS, WANTED, SEED = 8, 4, 3
CLIENT = Path(__file__).with_name("fork_host.py")
NOBODY: Any = None


def settings(model: Path) -> RunConfig:
    """Two optimiser steps a step, of two micro-batches each."""
    named = (
        f"model.path={model}", "model.compute_type=float32", f"rl.steps={STEPS}", f"rl.groups_per_step={WANTED}",
        "rl.group_size=3", "rl.learning_rate=1e-2", "rl.warmup_steps=5", "rl.optimizer_steps=2",
        "trainer.micro_batch_tokens=64",
    )  # fmt: skip
    return parse_config("", overrides=named)


def rollouts(step: int, counter: int) -> tuple[Rollout, ...]:
    """Two groups of three; in every third submission one of them teaches nothing."""
    rng = random.Random(f"{SEED}/{step}/{counter}")
    tokens = lambda count: tuple(rng.randrange(1, VOCABULARY) for _ in range(count))  # noqa: E731
    prompts = [tokens(24), tokens(30)]
    return tuple(
        Rollout(
            step=step, policy_version=step, counter=counter, group=group, sample=sample,
            problem_id=f"{step}/{counter}/{group}", prompt_ids=prompts[group], completion_ids=(ids := tokens(6)),
            text="", logprobs=tuple(rng.uniform(-4, -2) for _ in ids), finish_reason="length",
            reward=float(sample == 0 and not (counter % 3 == 0 and group == 0)), proofs=(b"p",),
        )
        for group in range(2)
        for sample in range(3)
    )  # fmt: skip


def submissions(step: int) -> list[tuple[bytes, tuple[Rollout, ...]]]:
    """Those of a step by id, in the order of their outcomes; more than it needs."""
    return [(bytes([step, counter]) * 16, rollouts(step, counter)) for counter in range(4)]


class Ledger:
    """Which policies were announced, in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def hashes(self) -> list[bytes]:
        return [bytes.fromhex(line) for line in self._path.read_text().split()] if self._path.exists() else []

    def latest_checkpoint(self, pool_id: int) -> Any:
        known = self.hashes()
        return self.checkpoint(pool_id, len(known) - 1) if known else None

    def checkpoint(self, pool_id: int, version: int) -> Any:
        return SimpleNamespace(version=version, manifest_hash=self.hashes()[version])

    def announce_checkpoint(self, pool_id: int, version: int, manifest_hash: bytes) -> int:
        if version != len(self.hashes()):
            raise Reverted("WrongVersion", (version,))
        with self._path.open("a") as file:
            file.write(manifest_hash.hex() + "\n")
        return 1

    def cursor(self, path: Path, consumer: str) -> Any:
        return NOBODY

    def events(self, cursor: Any) -> list[Any]:
        """None: a watchdog sees that batches fill, and nothing else."""
        return []


class Alone:
    """Lease and network of a trainer without company; `silent`: what it publishes never gets out."""

    epoch, sure = 1, True

    def __init__(self, folder: Path, *, silent: bool) -> None:
        self._store, self._silent = ContentStore(folder / "store", run_id=b"r" * 32), silent

    @property
    def content(self) -> Alone:
        return self

    async def publish_checkpoint(self, folder: Path, version: int) -> bytes:
        manifest_hash = manifest_id(self._store.stage(folder, version, kind=POLICY))
        if self._silent and version:
            await trio.sleep_forever()
        return manifest_hash

    async def fetch_checkpoint(self, manifest_hash: bytes, *, timeout_s: float) -> Path:
        raise ContentUnavailable("nobody is here")

    def withdraw(self, content: bytes) -> None: ...

    async def providers(self, manifest_hash: bytes) -> list[str]:
        return ["a relay"]

    async def nodes(self) -> list[Any]:
        return []

    async def status(self) -> dict[str, Any]:
        return {"checkpoints": []}

    def announce_run_state(self, state: Any) -> None: ...

    def withdraw_run_state(self) -> None: ...

    async def wait_sure(self) -> None: ...

    async def wait_unsure(self) -> None:
        await trio.sleep_forever()


class Accepted:
    """What `node.batches.Gathering` gives."""

    async def fill(self, batches: Batches) -> None:
        for step in range(batches.open_step, STEPS):
            for submission_id, rows in submissions(step):
                if not batches.step(step).full:
                    batches.step(step).add(submission_id, rows)
            batches.advance()

    async def again(self, step: int, wanted: Sequence[bytes] | None) -> StepBatch | None:
        batch, known = StepBatch(step=step, wanted=WANTED), dict(submissions(step))
        for submission_id in wanted or known:
            if not batch.full:
                batch.add(submission_id, known[submission_id])
        return batch


async def live(folder: Path, model: Path, death: Death | None) -> None:
    """From what is in `folder` to the last policy. Raises ChildDied."""
    config, ledger = settings(model), Ledger(folder / "ledger")
    network: Any = Alone(folder, silent=bool(death and death.silent))
    known = len(ledger.hashes())
    batches = Batches(first_step=max(0, known - 1), wanted=WANTED)
    states, policies = States(network, folder / "states", me="me"), SimpleNamespace(folders={})
    metrics = MetricsLog(folder / "metrics.jsonl")
    words = {"folder": str(folder), "death": json.dumps(asdict(death)) if death else ""}
    argv = [sys.executable, "-S", "-E", str(CLIENT), str(folder / "host"), *(f"{k}={v}" for k, v in words.items())]
    async with (
        open_child(argv, name="trainer", log_path=folder / "trainer.log") as child,
        trio.open_nursery() as nursery,
    ):
        training, accepted = Training(child, config, states, folder / "checkpoints"), Accepted()
        nursery.start_soon(accepted.fill, batches)
        publication = _Publication(1, ledger, network, network, batches, states, DeltaMaker(network, wanted=False))  # type: ignore[arg-type]
        resume = Resume(
            ledger, network, training, policies, states, accepted,  # type: ignore[arg-type]
            pool_id=1, base=model, announce=publication.on_ledger,
        )  # fmt: skip
        place: Any = SimpleNamespace(
            config=config, metrics=metrics, network=network, ledger=ledger, pool_id=1, data_dir=folder
        )  # fmt: skip
        await _train(place, batches, states, training, publication, resume)
        nursery.cancel_scope.cancel()


def node(folder: Path, model: Path, death: Death | None) -> int:
    """One life of the node. Returns 0, or 1 where its training process died."""
    if death and death.who == "node":
        arm(death, folder)
    died = False
    try:
        trio.run(live, folder, model, death)
    except* ChildDied as faults:
        print(faults.exceptions, file=sys.stderr)
        died = True
    return int(died)


def trainer(words: dict[str, str]) -> None:
    """One life of the training process."""
    folder, death = Path(words["folder"]), words["death"] and Death(**json.loads(words["death"]))
    torch.set_num_threads(1)
    if death and death.who == "child":
        ledger, before = Ledger(folder / "ledger"), Ledger(folder / "ledger").hashes()
        arm(death, folder, lambda: not death.once_announced or len(ledger.hashes()) > len(before))
    sys.argv = ["trainer"]
    training_process()


def main(folder: Path, model: Path, deaths: list[Death]) -> None:
    logging.basicConfig(level=logging.INFO)
    server = serve(folder / "host")
    for death in [*deaths, None]:
        began, life = time.monotonic(), os.fork()
        if life == 0:
            server.close()
            os._exit(node(folder, model, death))
        while (ended := os.waitpid(life, os.WNOHANG)) == (0, 0):
            answer(server, trainer)
        print(f"{time.monotonic() - began:6.2f} s  {death}", flush=True)
        wanted = {None: 0, "node": signal.SIGKILL, "child": 1 << 8}[death and death.who]
        if ended[1] != wanted:
            sys.exit(f"life ended with wait status {ended[1]}, not {wanted}: {death}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), [Death(**fields) for fields in json.loads(sys.argv[3])])
