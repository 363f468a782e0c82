"""Asynchrony from level 0 to 4: the real worker, batches, policies and trainer's step, over a network in memory.

Virtual time: what takes long in a run takes as long here, and costs nothing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.testing

from dht.records import RunStateRecord
from ledger.types import Outcome
from node import generation, policies, trainer
from node.batches import Batches
from node.collapse_watch import CollapseWatch
from node.config import RunConfig, parse_config
from node.generation import Generation
from node.metrics import MetricsLog, MetricsTail
from node.outbox import Outbox
from node.policies import Policies
from node.resume import Position
from node.state import NodeState
from node.timeline import Timeline
from node.watchdog import Watchdog
from rl.rollouts import Rollout
from tests.node.test_lease import inline
from verify.checks import check_age, check_version
from verify.rules import Claim, Rules

STEPS, WORKERS, GROUPS = 8, 2, 4
SOLVE_S, TRAIN_S, PUBLISH_S, FETCH_S, SWAP_S, CHECK_S = 14.0, 30.0, 5.0, 6.0, 1.0, 3.0
"""Two workers make six groups in 42 s: a batch's four, and two more while its verdicts are awaited."""


@dataclass
class Solved:
    """One submission as its engine made it."""

    worker: int
    step: int
    version: int
    began_s: float
    newest_here: int
    """The newest verified policy on that worker's disk when it began."""


@dataclass
class World:
    """The ledger and the network, as far as rollouts and policies need them."""

    config: RunConfig
    folder: Path
    batches: Batches
    version: int = 0
    solved: list[Solved] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    decided: set[Any] = field(default_factory=set)
    used: dict[int, set[int]] = field(default_factory=dict)
    """Step → policies of the rollouts that it was trained on."""
    finished_s: float = 0.0

    # What a worker asks the ledger and the directory.
    def run_id(self, pool_id: int) -> bytes:
        return b"r" * 32

    def next_counter(self, pool_id: int, node: str, step: int) -> int:
        return sum(1 for known in self.decided if known[0] == node and known[1] == step)

    def submission_id(self, pool_id: int, step: int, counter: int, node: str) -> Any:
        return node, step, counter

    def docket(self, docket_id: Any) -> Any:
        return SimpleNamespace(outcome=Outcome.ACCEPTED) if docket_id in self.decided else None

    def latest_checkpoint(self, pool_id: int) -> Any:
        return SimpleNamespace(version=self.version, manifest_hash=bytes([self.version]) * 32)

    async def run_state(self) -> RunStateRecord:
        return RunStateRecord(
            epoch=1, open_step=self.batches.open_step, policy_version=self.version, manifest_hash=b"m" * 32
        )

    @property
    def content(self) -> World:
        return self

    async def fetch_checkpoint(self, manifest_hash: bytes, **_: object) -> Path:
        await trio.sleep(FETCH_S)
        folder = self.folder / f"policy-{manifest_hash[0]}"
        folder.mkdir(exist_ok=True)
        return folder

    async def take(self, worker: int, step: int, counter: int, version: int) -> bool:
        """A validator's and the trainer's part: the same checks of age, then into the batch."""
        newest = self.version
        await trio.sleep(CHECK_S)
        rows = rollouts(worker, step, counter, version)
        claim = Claim(
            run_id=b"r" * 32, worker=address(worker), step=step, counter=counter, file_hash=b"f" * 32,
            open_step=newest, newest_version=newest,
        )  # fmt: skip
        rules = Rules(groups=1, samples=2, max_new_tokens=4, max_policy_lag=self.config.rl.asynchrony)
        found = check_version(rows, claim) or check_age(rows, claim, rules)
        self.decided.add((address(worker), step, counter))
        if found is None and step >= self.batches.open_step:
            self.batches.step(step).add(b"%d/%d/%d" % (worker, step, counter), rows)
            self.batches.advance()
        elif found is not None:
            self.refused.append(found.code)
        return found is None


def address(worker: int) -> str:
    return f"0x{worker:040x}"


def rollouts(worker: int, step: int, counter: int, version: int) -> tuple[Rollout, ...]:
    """One group of two with signal."""
    return tuple(
        Rollout(
            step=step, policy_version=version, counter=counter, group=0, sample=sample,
            problem_id=f"{worker}/{counter}", prompt_ids=(1,), completion_ids=(2, 0), text="", logprobs=(-1.0, -1.0),
            finish_reason="eos", reward=float(sample), proofs=(b"p",),
        )
        for sample in (0, 1)
    )  # fmt: skip


class Worker:
    """A real `Generation` with real `Policies` and outbox, and an engine that only takes its time."""

    def __init__(self, world: World, number: int) -> None:
        self._world, self.number = world, number
        folder = world.folder / f"worker-{number}"
        (folder / "submissions").mkdir(parents=True)
        self.metrics = MetricsLog(folder / "metrics.jsonl", now_s=trio.current_time)
        self.tail = MetricsTail(folder / "metrics.jsonl")
        self.outbox = Outbox(NodeState(folder, b"r" * 32), folder / "submissions")
        self.policies = Policies(world, world, self.metrics, pool_id=1, serve=False, by_delta=False)  # type: ignore[arg-type]
        place: Any = SimpleNamespace(
            config=world.config, ledger=world, network=world, address=address(number), pool_id=1, data_dir=folder,
            metrics=self.metrics,
        )  # fmt: skip
        intent: Any = SimpleNamespace(takes_work=True, draining=False)
        pulse: Any = SimpleNamespace(run_state=None, step=0)
        self.generation = Generation(place, self.policies, self.outbox, intent, pulse)
        self.loaded = -1

    async def call(self, name: str, *, timeout_s: float, **asked: Any) -> dict[str, Any]:
        """The engine's answers."""
        if name in ("start", "load"):
            await trio.sleep(SWAP_S)
            self.loaded = int(Path(asked["folder"]).name.removeprefix("policy-"))
        if name == "solve":
            assert asked["policy_version"] == self.loaded, "the file names the weights that made it"
            self._world.solved.append(
                Solved(
                    worker=self.number, step=asked["step"], version=self.loaded, began_s=trio.current_time(),
                    newest_here=self.policies.newest,
                )
            )  # fmt: skip
            await trio.sleep(SOLVE_S)
            Path(asked["path"]).write_bytes(b"PAR1 %d" % self.loaded)
            return {"seconds": SOLVE_S, "tokens": 100}
        return {"seconds": SWAP_S, "backend": "none", "compute_type": "none"}

    async def live(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: self.policies.follow(behind=0))
            nursery.start_soon(self._hand_in)
            await self.generation.run()

    async def _hand_in(self) -> None:
        while True:
            for item in self.outbox.unsent():
                version = int(item.path.read_bytes().split()[1])

                async def record(item: Any = item, version: int = version) -> bool:
                    return await self._world.take(self.number, item.step, item.counter, version) or True

                async def hand_over(path: Path, item: Any = item) -> bytes:
                    return item.sha256

                await self.outbox.send(item, hand_over=hand_over, record=record)
            await self.outbox.changed()


class Training:
    def path(self, version: int) -> Path:
        return Path(f"policy-{version}")

    async def train(self, batch: Any, target: Path) -> dict[str, float]:
        await trio.sleep(TRAIN_S)
        return {"grad_norm": 1.0, "clip_ratio": 0.0, "entropy": 1.0}

    async def save_state(self, version: int) -> None: ...


class Publication:
    def __init__(self, world: World) -> None:
        self._world = world

    async def publish(self, folder: Path, version: int) -> Position:
        await trio.sleep(PUBLISH_S)
        self._world.version = version
        return Position(version=version, folder=folder, manifest_hash=b"m" * 32)


async def whole_run(folder: Path, level: int, monkeypatch: pytest.MonkeyPatch) -> tuple[World, Timeline]:
    """A run of STEPS steps at this level of asynchrony."""
    config = parse_config(
        "", overrides=(f"rl.asynchrony={level}", f"rl.groups_per_step={GROUPS}", f"rl.steps={STEPS}",
                       "rl.groups_per_submission=1", "rl.group_size=2", "worker.max_unjudged=2"),
    )  # fmt: skip
    folder.mkdir()
    world = World(config=config, folder=folder, batches=Batches(first_step=0, wanted=GROUPS))
    workers = [Worker(world, number) for number in range(WORKERS)]
    engines = iter(workers)

    @asynccontextmanager
    async def engine_of_the_next_worker(*_: object, **__: object) -> AsyncIterator[Worker]:
        yield next(engines)

    for module in (generation, policies):
        monkeypatch.setattr(module, "on_chain", inline)
    monkeypatch.setattr(generation, "open_child", engine_of_the_next_worker)
    metrics = MetricsLog(folder / "trainer.jsonl", now_s=trio.current_time)
    place: Any = SimpleNamespace(metrics=metrics, config=config)
    watchdog = Watchdog(world.batches, metrics, pool_id=1)
    collapse, training, publication = CollapseWatch(metrics, stop=False), Training(), Publication(world)
    with trio.fail_after(10_000):
        async with trio.open_nursery() as nursery:
            for worker in workers:
                nursery.start_soon(worker.live)
            for step in range(STEPS):
                batch = world.batches.step(step)
                await trainer._step(place, training, publication, world.batches, step, watchdog, collapse)  # type: ignore[arg-type]
                world.used[step] = set(batch.versions)
            world.finished_s = trio.current_time()
            nursery.cancel_scope.cancel()
    timeline = Timeline()
    tails = [("trainer", "trainer", MetricsTail(folder / "trainer.jsonl"))]
    tails += [(f"worker-{worker.number}", "worker", worker.tail) for worker in workers]
    for name, role, tail in tails:
        for line in tail.read():
            if line["kind"] == "span":
                timeline.see(name, role, line)
    return world, timeline


@pytest.mark.parametrize("level", [0, 1, 2, 4])
async def test_rollouts_are_never_older_than_the_level_and_always_of_the_newest_policy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock, level: int
) -> None:
    world, _ = await whole_run(tmp_path / "run", level, monkeypatch)
    assert world.refused == [], "an honest worker makes nothing that is too old"
    lags = [step - version for step, versions in world.used.items() for version in versions]
    assert set(lags) <= set(range(level + 1))
    assert max(lags) == min(level, 1), "no older than it must be: generation is nearly as quick as training"
    stale = [s for s in world.solved if s.version != s.newest_here]
    assert stale == [], "between two submissions it takes up what has come"
    assert {s.version for s in world.solved} >= set(range(1, STEPS - 1)), "and it goes from one to the next"


async def test_level_0_generates_nothing_while_it_trains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    world, timeline = await whole_run(tmp_path / "run", 0, monkeypatch)
    assert all(s.version == s.step for s in world.solved)
    assert all(versions == {step} for step, versions in world.used.items())
    for waits in timeline.steps()[1:-1]:
        assert waits.trainer_s >= 2 * SOLVE_S, "training waits for a whole batch"
        assert waits.workers_s >= PUBLISH_S, "and the workers for its policy"


async def test_overlap_pays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    took: dict[int, float] = {}
    waited: dict[int, float] = {}
    for level in (0, 1, 2, 4):
        began_s = trio.current_time()
        world, timeline = await whole_run(tmp_path / f"{level}", level, monkeypatch)
        took[level] = world.finished_s - began_s
        waited[level] = sum(step.trainer_s for step in timeline.steps())
    assert took[1] < 0.8 * took[0]
    assert took[2] <= took[1] * 1.02
    assert took[4] <= took[2] * 1.02
    assert waited[1] < 0.5 * waited[0]


async def test_who_works_with_a_policy_that_is_too_old_fills_no_batch(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    for level in (0, 1, 2, 4):
        config = parse_config("", overrides=(f"rl.asynchrony={level}",))
        world = World(config=config, folder=tmp_path, batches=Batches(first_step=6, wanted=9), version=6)
        taken = [version for version in range(8) if await world.take(0, 6, version, version)]
        assert taken == list(range(6 - level, 7)), "neither too old nor not yet announced"
        assert world.batches.step(6).versions == set(taken)
        assert world.refused == ["stale"] * (6 - level) + ["version"]
