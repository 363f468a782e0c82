"""Which step is open, when its batch goes to training, and that the ledger's order alone decides what is in it."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.testing

from dht.plan import ContentUnavailable
from ledger.events import CaseClosed, Event, OutcomeReached
from ledger.types import CaseState, Kind, Outcome
from node import batches as module
from node.batches import Batches, Gathering, accepted_by, bounds_of
from node.config import RunConfig, parse_config
from rl.batch import StepBatch
from rl.rollouts import Rollout, read_rollouts, write_rollouts
from rl.signal import PATIENCE
from rl.vetting import ANYTHING, Bounds


def fill(batches: Batches, step: int, name: str, *, useful: bool = True) -> None:
    """One accepted submission of one group of two."""
    rows = [
        Rollout(
            step=step, policy_version=0, counter=0, group=0, sample=sample, problem_id="p", prompt_ids=(1,),
            completion_ids=(2, 0), text="", logprobs=(-1.0, -1.0), finish_reason="eos",
            reward=float(sample) if useful else 1.0, proofs=(b"p",),
        )
        for sample in (0, 1)
    ]  # fmt: skip
    batches.step(step).add(name.encode(), rows)
    batches.advance()


def test_the_open_step_is_the_smallest_that_lacks_rollouts() -> None:
    batches = Batches(first_step=3, wanted=2)
    assert batches.open_step == 3
    fill(batches, 3, "a")
    fill(batches, 3, "a")
    fill(batches, 3, "b", useful=False)
    assert batches.open_step == 3, "neither the same submission twice nor a group without signal fills a batch"
    fill(batches, 4, "c")
    fill(batches, 4, "d")
    assert batches.open_step == 3
    fill(batches, 3, "e")
    assert batches.open_step == 5


async def test_whoever_waits_for_a_step_gets_its_batch_when_it_is_full() -> None:
    batches, got = Batches(first_step=0, wanted=2), []

    async def train() -> None:
        for step in range(2):
            got.append(await batches.wait_full(step))

    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(train)
            fill(batches, 1, "ahead")
            fill(batches, 0, "a")
            await trio.testing.wait_all_tasks_blocked()
            assert got == []
            fill(batches, 0, "b")
            await trio.testing.wait_all_tasks_blocked()
            assert [batch.step for batch in got] == [0]
            assert batches.open_step == 1
            fill(batches, 1, "c")
    assert [(batch.step, len(batch.batch())) for batch in got] == [(0, 2), (1, 2)]
    assert all(isinstance(batch, StepBatch) for batch in got)


async def test_a_policy_that_appears_closes_the_steps_below_it() -> None:
    batches = Batches(first_step=0, wanted=1)
    fill(batches, 2, "ahead")
    assert batches.open_step == 0
    batches.trained(2)
    assert batches.open_step == 3, "steps 0 and 1 were trained elsewhere, step 2 is full"
    for step in range(6):
        batches.remember(step, bytes([step]))
    batches.trained(6)
    assert [batches.accepted(step) for step in (2, 3, 5)] == [(), (b"\x03",), (b"\x05",)]


def outcome(submission_id: bytes, kind: Kind = Kind.SUBMISSION, outcome: Outcome = Outcome.ACCEPTED) -> OutcomeReached:
    return OutcomeReached(
        block=1, log_index=0, pool_id=1, docket_id=submission_id, node="0x", kind=kind, outcome=outcome, reason="",
        evidence_hash=b"",
    )  # fmt: skip


def closed(docket_id: bytes, state: CaseState) -> CaseClosed:
    return CaseClosed(block=1, log_index=0, pool_id=1, docket_id=docket_id, node="0x", state=state, burnt_wei=0)


@pytest.mark.parametrize(
    ("event", "accepted"),
    [
        (outcome(b"s"), b"s"),
        (outcome(b"s", outcome=Outcome.REJECTED), None),
        (outcome(b"s", outcome=Outcome.LATE), None),
        (outcome(b"s", kind=Kind.ACCUSATION), None),
        (outcome(b"s", kind=Kind.APPEAL), None),
        (closed(b"s", CaseState.OVERTURNED), b"s"),
        (closed(b"s", CaseState.BURNT), None),
        (Event(block=1, log_index=0), None),
    ],
)
def test_what_makes_a_submission_accepted(event: Event, accepted: bytes | None) -> None:
    assert accepted_by(event) == accepted


CONFIG: RunConfig = parse_config(
    "", overrides=("rl.groups_per_step=4", "rl.groups_per_submission=2", "rl.group_size=2")
)


class Past:
    """A ledger whose history is over, and a network that serves its files except those in `lost`."""

    def __init__(self, folder: Path, seed: int) -> None:
        rng = random.Random(seed)
        self.submissions: dict[bytes, Any] = {}
        self.files: dict[bytes, Path] = {}
        self.lost: set[bytes] = set()
        self.history: list[Event] = []
        for step in range(3):
            for counter in range(6):
                submission_id = bytes([step, counter]) * 16
                self.submissions[submission_id] = SimpleNamespace(
                    submission_id=submission_id, step=step, counter=counter, node="0xab", file_hash=submission_id
                )
                path = self.files[submission_id] = folder / f"{step}-{counter}"
                write_rollouts(path, tuple(self._rows(rng, step, counter)))
                self.history.append(outcome(submission_id))
                if rng.random() < 0.2:
                    self.history.append(outcome(submission_id, outcome=Outcome.REJECTED))
        rng.shuffle(self.history)

    @staticmethod
    def _rows(rng: random.Random, step: int, counter: int) -> list[Rollout]:
        rewards = [[0.0, rng.choice((0.0, 1.0, 1.0))] for _ in range(2)]
        return [
            Rollout(
                step=step, policy_version=0, counter=counter, group=group, sample=sample, problem_id=f"{group}",
                prompt_ids=(1, step, counter), completion_ids=(2, 0), text="", logprobs=(-1.0, -1.0),
                finish_reason="eos", reward=rewards[group][sample], proofs=(b"p",),
            )
            for group in range(2) for sample in range(2)
        ]  # fmt: skip

    def cursor(self, *_: object) -> None: ...

    def submission(self, submission_id: bytes) -> Any:
        return self.submissions.get(submission_id)

    @property
    def content(self) -> Past:
        return self

    async def fetch_blob(self, file_hash: bytes, **_: object) -> Path:
        if file_hash in self.lost:
            raise ContentUnavailable("nobody has it")
        return self.files[file_hash]


class Lines(list[dict[str, Any]]):
    """Metrics as they were written."""

    def write(self, kind: str, **values: Any) -> None:
        self.append({"kind": kind, **values})


async def gathered(
    past: Past,
    monkeypatch: pytest.MonkeyPatch,
    *,
    first_step: int = 0,
    metrics: Lines | None = None,
    bounds: Bounds = ANYTHING,
    between: Callable[[Batches], None] = lambda _: None,
) -> tuple[Batches, Gathering]:
    """Batches after the whole history was read; `between` is what a trainer does after each event."""

    async def events(*_: object) -> AsyncIterator[Event]:
        for event in past.history:
            yield event
            between(batches)

    async def no_relays(*_: object) -> list[str]:
        return []

    monkeypatch.setattr(module, "follow_events", events)
    monkeypatch.setattr(module, "relay_urls", no_relays)
    batches = Batches(first_step=first_step, wanted=CONFIG.rl.groups_per_step, bounds=bounds)
    lines = Lines() if metrics is None else metrics
    gathering = Gathering(CONFIG, past, past, batches, lines)  # type: ignore[arg-type]
    await gathering.run()
    return batches, gathering


@pytest.mark.parametrize("seed", range(5))
async def test_two_trainers_fill_the_same_batches_wherever_they_begin_and_however_often_events_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    past = Past(tmp_path, seed)
    first, gathering = await gathered(past, monkeypatch)
    full = [step for step in range(3) if first.step(step).full]
    assert full, f"seed {seed}"
    past.history = [event for event in past.history for _ in range(2)]  # a crash makes events come again
    second, _ = await gathered(past, monkeypatch, first_step=full[0])
    for step in full:
        batch = first.step(step)
        assert second.step(step).batch() == batch.batch(), f"seed {seed}, step {step}"
        for submissions in (None, batch.used()):
            again = await gathering.again(step, submissions)
            assert again is not None
            assert (again.batch(), again.used()) == (batch.batch(), batch.used()), f"seed {seed}, step {step}"


async def test_a_file_that_this_trainer_cannot_get_is_missed_only_where_it_was_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    past = Past(tmp_path, 0)
    whole, gathering = await gathered(past, monkeypatch)
    step = next(step for step in range(3) if whole.step(step).full)
    used = whole.step(step).used()
    past.lost = set(past.files) - set(used)
    again = await gathering.again(step, used)
    assert again is not None
    assert again.batch() == whole.step(step).batch()
    past.lost = {used[0]}
    assert await gathering.again(step, used) is None, "not another batch instead"
    assert await gathering.again(step + 1, used) is None, "nor for another step"


Trained = dict[int, tuple[tuple[bytes, ...], tuple[Any, ...]]]
"""Step → the submissions and groups it was trained on."""


async def train_through(
    past: Past, monkeypatch: pytest.MonkeyPatch, *, announced: int, stop_after: int | None, lost_step: bool = False
) -> Trained:
    """One trainer's life, from policy `announced` on: each step in turn as soon as it is full, till it dies.

    It dies after so many events (None: it reads them all); `lost_step`: the last it trained was not announced any more.
    """
    trained: Trained = {}
    events = 0

    class Died(Exception):
        pass

    def between(batches: Batches) -> None:
        nonlocal events, announced
        while batches.step(announced).full:
            batch = batches.step(announced)
            assert announced not in trained
            trained[announced] = (batch.used(), batch.batch())
            announced += 1
            batches.trained(announced)
        events += 1
        if events == stop_after:
            raise Died

    try:
        await gathered(past, monkeypatch, first_step=announced, between=between)
    except Died:
        if lost_step and trained:
            del trained[max(trained)]
    return trained


@pytest.mark.parametrize("seed", range(12))
async def test_every_accepted_group_is_trained_once_whenever_the_trainer_dies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Over the same ledger, lives cut anywhere train what one whole life does: nothing twice, nothing left out."""
    past, rng = Past(tmp_path, seed), random.Random(seed)
    past.history = [event for event in past.history for _ in range(rng.choice((1, 1, 2)))]
    whole = await train_through(past, monkeypatch, announced=0, stop_after=None)
    done: Trained = {}
    for _ in range(4):
        life = await train_through(
            past, monkeypatch, announced=len(done), stop_after=rng.randint(1, len(past.history)),
            lost_step=rng.random() < 0.5,
        )  # fmt: skip
        assert not life.keys() & done.keys(), f"seed {seed}: a step twice"
        done |= life
    done |= await train_through(past, monkeypatch, announced=len(done), stop_after=None)
    assert done == whole, f"seed {seed}"
    assert whole, f"seed {seed}: nothing was trained"
    used = [(group.prompt_ids, group.problem_id) for _, groups in done.values() for group in groups]
    assert len(used) == len(set(used)), f"seed {seed}: a group twice"


def spoil(past: Past, name: bytes, **changes: Any) -> None:
    """Every row of a file changed; the ledger goes on naming it by what it was."""
    path = past.files[name]
    write_rollouts(path, tuple(replace(row, **changes) for row in read_rollouts(path, max_rows=4)))


@pytest.mark.parametrize("online_filter", [True, False])
def test_the_filter_is_a_setting_of_every_step(online_filter: bool) -> None:
    batches = Batches(first_step=0, wanted=1, online_filter=online_filter)
    fill(batches, 0, "a", useful=False)
    assert batches.open_step == (0 if online_filter else 1)
    assert batches.empty(5).online_filter is online_filter


async def test_no_bad_file_stops_the_others_and_each_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    past, metrics = Past(tmp_path, 0), Lines()
    first, second, third, fourth, fifth, sixth = (bytes([0, counter]) * 16 for counter in range(6))
    past.history = [outcome(name) for name in (first, second, third, fourth, fifth, sixth)]
    spoil(past, first, step=1)  # of another step, or of an earlier run that had got so far
    past.files[second].write_bytes(b"PAR1 no more")
    past.lost = {third}
    spoil(past, fourth, reward=float("nan"))
    spoil(past, fifth, completion_ids=(40, 0))
    bounds = bounds_of(CONFIG, 32)
    assert (bounds.group_size, bounds.asynchrony, bounds.max_tokens) == (2, 2, CONFIG.model.max_model_len)
    batches, _ = await gathered(past, monkeypatch, metrics=metrics, bounds=bounds)
    batch = batches.step(0)
    assert batch.dropped == {
        "another-submission": 1, "unreadable": 1, "not-served": 1, "reward": 2, "vocabulary": 2,
    }  # fmt: skip
    assert batch.seen_groups == 2, "the last file's"
    told = [line for line in metrics if line["kind"] == "dropped"]
    assert [line["counter"] for line in told] == [0, 1, 2, 3, 4]
    assert told[3] == {"kind": "dropped", "step": 0, "node": "0xab", "counter": 3, "faults": {"reward": 2}}
    assert "2 reward (a reward that is no finite number" in caplog.text


async def test_a_run_without_signal_says_so_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    past, metrics = Past(tmp_path, 0), Lines()
    for name in past.files:
        spoil(past, name, reward=0.0)
    past.history = [outcome(name) for name in past.files]
    batches, _ = await gathered(past, monkeypatch, metrics=metrics)
    assert batches.open_step == 0
    hints = [line for line in metrics if line["kind"] == "no-signal"]
    assert [(line["cause"], line["submissions"]) for line in hints] == [
        ("too-hard", PATIENCE), ("too-hard", 2 * PATIENCE),
    ]  # fmt: skip
    assert "no answer earned anything" in caplog.text
