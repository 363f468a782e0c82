"""What a worker does next, and the settings that its engine starts with."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
import trio.testing

from dht.records import RunStateRecord
from ledger.errors import Reverted
from ledger.types import Bar, Outcome
from node import generation, worker
from node.child import ChildError
from node.config import RunConfig
from node.errors import UserError
from node.generation import Generation, Work, engine_environment, next_step
from node.membership import Blacklisted
from node.metrics import MetricsLog, MetricsTail
from node.outbox import Item, Outbox, Stage
from node.spans import Waits
from node.state import NodeState
from rl.draw import MAX_SUBMISSIONS


@pytest.mark.parametrize(
    ("last_step", "open_step", "policy_version", "asynchrony", "expected"),
    [
        (0, 0, 0, 2, 0),
        (0, 1, 0, 2, 1),
        (1, 2, 0, 2, 2),
        # The policy is too old for the open step: wait.
        (2, 3, 0, 2, None),
        (0, 3, 0, 2, None),
        (0, 1, 0, 0, None),
        (0, 1, 1, 0, 1),
        # A run state from yesterday: policy 4 says that steps 0 to 3 are closed.
        (0, 2, 4, 2, 4),
        # Nobody goes back to an earlier step, whatever the directory says meanwhile.
        (5, 3, 4, 2, 5),
        (7, 3, 4, 2, None),
        # The run has 10 steps.
        (0, 9, 9, 2, 9),
        (0, 10, 9, 2, None),
        (0, 9, 10, 2, None),
    ],
)
def test_next_step(last_step: int, open_step: int, policy_version: int, asynchrony: int, expected: int | None) -> None:
    found = next_step(last_step, open_step=open_step, policy_version=policy_version, asynchrony=asynchrony, steps=10)
    assert found == expected


@dataclass
class FakeLedger:
    """Has recorded so many submissions of each step, and decided some."""

    counters: dict[int, int]
    decided: set[tuple[int, int]] = field(default_factory=set)
    opened: set[tuple[int, int]] = field(default_factory=set)

    def run_id(self, pool_id: int) -> bytes:
        return b"r" * 32

    def next_counter(self, pool_id: int, node: str, step: int) -> int:
        return self.counters.get(step, 0)

    def submission_id(self, pool_id: int, step: int, counter: int, node: str) -> tuple[int, int]:
        return step, counter

    def docket(self, docket_id: tuple[int, int]) -> Any:
        if docket_id not in self.opened | self.decided:
            return None
        return SimpleNamespace(outcome=Outcome.ACCEPTED if docket_id in self.decided else Outcome.PENDING)


@dataclass
class FakeNetwork:
    open_step: int = 0

    async def run_state(self) -> RunStateRecord:
        return RunStateRecord(epoch=1, open_step=self.open_step, policy_version=0, manifest_hash=b"m" * 32)


def generation_of(ledger: FakeLedger, network: FakeNetwork, outbox: Outbox) -> Any:
    place = SimpleNamespace(config=RunConfig(), ledger=ledger, network=network, address="0x" + "11" * 20, pool_id=1)
    return Generation(place, None, outbox, None, SimpleNamespace(run_state=None))  # type: ignore[arg-type]


@pytest.fixture
def outbox(tmp_path: Path) -> Outbox:
    return Outbox(NodeState(tmp_path, b"r" * 32), tmp_path / "submissions")


def make(outbox: Outbox, folder: Path, step: int, counter: int) -> Item:
    path = folder / "submissions" / f"{step}-{counter}.parquet"
    path.write_bytes(b"rollouts")
    return outbox.add(step, counter, path)


async def send(outbox: Outbox, item: Item, *, recorded: bool = True) -> None:
    async def hand_over(path: Path) -> bytes:
        return item.sha256

    async def record(item: Item) -> bool:
        return recorded

    await outbox.send(item, hand_over=hand_over, record=record)


async def test_the_next_counter_is_the_ledgers_and_none_is_skipped(tmp_path: Path, outbox: Outbox) -> None:
    ledger, network = FakeLedger({0: 3, 1: MAX_SUBMISSIONS - 1}), FakeNetwork()
    made = generation_of(ledger, network, outbox)
    assert await made._next(0) == Work(step=0, counter=3), "also after a restart, in the middle of a step"
    item = make(outbox, tmp_path, 0, 3)
    assert await made._next(0) == Work(step=0, counter=4), "while the one before is still on its way"
    await send(outbox, item, recorded=False)
    assert await made._next(0) == Work(step=0, counter=3), "the one before was refused"
    network.open_step = 1
    assert await made._next(0) == Work(step=1, counter=MAX_SUBMISSIONS - 1)
    make(outbox, tmp_path, 1, MAX_SUBMISSIONS - 1)
    assert await made._next(0) is None, "as many as a step takes from one worker"


@pytest.mark.parametrize("kind", ["RewardFailed", "PromptTooLong"])
async def test_a_step_whose_reward_fails_is_given_up_and_the_next_one_is_not(
    tmp_path: Path, outbox: Outbox, kind: str
) -> None:
    class Engine:
        fault = ChildError("engine", kind, "arithmetic/1+1: TimeoutError")

        async def call(self, *_: Any, **__: Any) -> None:
            raise self.fault

    network, engine = FakeNetwork(), Engine()
    made = generation_of(FakeLedger({}), network, outbox)
    made._place.metrics, made._place.data_dir = MetricsLog(tmp_path / "metrics.jsonl"), tmp_path
    made._intent = SimpleNamespace(draining=False)
    await made._make(engine, await made._next(0), 0)
    assert await made._next(0) is None, "the seed would draw the same again"
    assert (outbox.items(), made.solving) == ((), False)
    spent, told = MetricsTail(tmp_path / "metrics.jsonl").read()
    assert (spent["kind"], spent["activity"], spent["step"]) == ("span", "generating", 0)
    assert (told["kind"], told["step"], told["fault"]) == ("given-up", 0, "arithmetic/1+1: TimeoutError")
    network.open_step = 1
    work = await made._next(0)
    assert work == Work(step=1, counter=0)
    engine.fault = ChildError("engine", "EngineFault", "broken")
    with pytest.raises(ChildError, match="broken"):
        await made._make(engine, work, 0)
    assert await made._next(0) == work, "another fault says nothing about the step"


async def test_a_policy_that_comes_while_the_ledger_is_asked_is_taken_up_first(tmp_path: Path, outbox: Outbox) -> None:
    class Engine:
        asked: ClassVar[list[str]] = []

        async def call(self, name: str, **_: Any) -> dict[str, Any]:
            self.asked.append(name)
            return {"seconds": 0.1}

    class SlowLedger(FakeLedger):
        def next_counter(self, pool_id: int, node: str, step: int) -> int:
            policies.newest = 1
            return 0

    policies = SimpleNamespace(newest=0, folders={0: tmp_path, 1: tmp_path})
    made = generation_of(SlowLedger({}), FakeNetwork(), outbox)
    made._policies, made._intent = policies, SimpleNamespace(takes_work=True, draining=False)
    made._place.metrics, engine = MetricsLog(tmp_path / "metrics.jsonl"), Engine()
    waits = Waits(made._place.metrics)
    loaded = await made._look(engine, 0, waits)
    assert (loaded, made._last_step, engine.asked) == (0, 0, []), "nothing is made with the old one"
    assert await made._look(engine, loaded, waits) == 1
    assert engine.asked == ["load"]


async def test_what_waits_for_its_outcome_holds_the_engine_up_for_a_while(
    tmp_path: Path, outbox: Outbox, autojump_clock: trio.testing.MockClock
) -> None:
    ledger = FakeLedger({0: 0})
    made = generation_of(ledger, FakeNetwork(), outbox)
    items = [make(outbox, tmp_path, 0, counter) for counter in range(4)]
    assert await made._count_unjudged() == 4, "none is recorded"
    for item in items:
        await send(outbox, item, recorded=item.counter < 3)
    assert await made._count_unjudged() == 3, "the last was refused"
    ledger.opened = {(0, 0), (0, 1)}
    ledger.decided = {(0, 1)}
    assert await made._count_unjudged() == 2, "one is decided"
    assert not items[1].path.exists()
    assert items[0].path.exists(), "a file stays until its outcome is known"
    await trio.sleep(generation.PATIENCE_S + 1)
    assert await made._count_unjudged() == 0, "nobody judges the others"


class FakeAdmission:
    """Lets the node in again when it waits."""

    def __init__(self, ledger: Any) -> None:
        self.ledger, self.waited = ledger, 0

    async def wait(self) -> None:
        self.waited += 1
        self.ledger.refusals.pop()


@dataclass
class RefusingLedger:
    refusals: list[str]
    bar: Bar = Bar.NONE
    arguments: tuple[object, ...] = ()
    recorded: list[Any] = field(default_factory=list)

    def submit(self, *arguments: Any) -> None:
        if self.refusals:
            raise Reverted(self.refusals[-1], self.arguments)
        self.recorded.append(arguments)

    def member(self, pool_id: int, address: str) -> Any:
        return SimpleNamespace(bar=self.bar)


async def record(ledger: RefusingLedger, admission: FakeAdmission) -> bool:
    item = Item(step=2, counter=1, path=Path("2-1.parquet"), sha256=b"f" * 32, stage=Stage.HANDED_OVER)
    return await worker._record(ledger, admission, 3, item, "0x" + "11" * 20)  # type: ignore[arg-type]


async def test_an_ejected_worker_records_its_work_once_it_is_back() -> None:
    ledger = RefusingLedger(["NotActiveMember", "NotActiveMember"])
    admission = FakeAdmission(ledger)
    assert await record(ledger, admission)
    assert (admission.waited, ledger.recorded) == (2, [(3, 2, 1, [b"f" * 32])])


async def test_a_blacklisted_worker_ends_and_other_refusals_are_told() -> None:
    ledger = RefusingLedger(["NotActiveMember"], bar=Bar.BY_VERDICT)
    with pytest.raises(Blacklisted):
        await record(ledger, FakeAdmission(ledger))
    ledger = RefusingLedger(["WrongCounter"])
    assert not await record(ledger, FakeAdmission(ledger))
    assert ledger.recorded == []


async def test_a_worker_whose_stake_was_taken_out_ends_and_keeps_its_work() -> None:
    ledger = RefusingLedger(["StakeTooLow"], arguments=("0x" + "11" * 20, 5 * 10**17, 2_000 * 10**18))
    with pytest.raises(UserError, match=r"0\.5 tokens are at stake for it, where 2,000 have to be") as told:
        await record(ledger, FakeAdmission(ledger))
    assert f"stake deposit 1999.5 --node 0x{'11' * 20}" in told.value.fix
    assert ledger.recorded == []


def test_the_engine_reads_its_settings_from_the_environment() -> None:
    settings = engine_environment(RunConfig.model_validate({"worker": {"threads": 3, "kv_cache_gib": 2}}))
    assert settings["OMP_NUM_THREADS"] == "3"
    assert settings["VLLM_CPU_KVCACHE_SPACE"] == "2"
    assert settings["VLLM_ENABLE_V1_MULTIPROCESSING"] == "0", "the states are read in the engine's own process"
    assert settings["HF_HUB_OFFLINE"] == "1"
