"""While one file is under check the next are fetched: a bounded number, in order, each once, and no fault stops it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.testing

from dht.plan import ContentUnavailable
from ledger.types import Checkpoint, Kind, Outcome, Submission
from node.config import RunConfig
from node.dhtd_link import NetworkDown
from node.dockets import Dockets
from node.judge import AHEAD, LOOK_S, Judge


def hash_of(number: int) -> bytes:
    return bytes([number]) * 32


class FakeLedger:
    """Submission n, of step n, was recorded in block n; step 3 is open."""

    def chain_time_s(self) -> int:
        return 1_000

    def submission(self, submission_id: bytes, *, block: int) -> Submission:
        return Submission(
            submission_id=submission_id, pool_id=1, step=block, counter=0, node="0x1", file_hash=hash_of(block),
            block=block, time_unix_s=0, outcome=Outcome.PENDING,
        )  # fmt: skip

    def latest_checkpoint(self, pool_id: int) -> Checkpoint:
        return Checkpoint(version=3, manifest_hash=b"m" * 32, block=0, epoch=1)

    def block_hash(self, block: int) -> bytes:
        return b"h" * 32

    def run_id(self, pool_id: int) -> bytes:
        return b"r" * 32


@dataclass
class FakeNetwork:
    faults: dict[bytes, Exception] = field(default_factory=dict)
    fetched: list[bytes] = field(default_factory=list)

    @property
    def content(self) -> FakeNetwork:
        return self

    async def nodes(self) -> tuple[()]:
        return ()

    async def fetch_blob(self, sha256: bytes, **_: Any) -> Path:
        self.fetched.append(sha256)
        if sha256 in self.faults:
            raise self.faults[sha256]
        return Path("file")


@pytest.fixture
def dockets(monkeypatch: pytest.MonkeyPatch) -> Dockets:
    async def at_once(call: Any, *arguments: Any) -> Any:
        return call(*arguments)

    for module in ("judge", "claims"):  # a thread would not hold a virtual clock up
        monkeypatch.setattr(f"node.{module}.on_chain", at_once)
    return Dockets(None, "salt")


async def look(dockets: Dockets, network: FakeNetwork, *, then: Any = lambda: None) -> list[bytes]:
    """What is fetched in a few looks; `then` happens in between."""
    place = SimpleNamespace(ledger=FakeLedger(), network=network, pool_id=1, config=RunConfig.model_validate({}))
    judge = Judge(place, SimpleNamespace(), dockets)  # type: ignore[arg-type]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(judge.fetch_ahead)
        await trio.sleep(3 * LOOK_S)
        then()
        await trio.sleep(3 * LOOK_S)
        nursery.cancel_scope.cancel()
    return network.fetched


def wait(dockets: Dockets, *numbers: int) -> None:
    for number in numbers:
        dockets.add(hash_of(number), Kind.SUBMISSION, number)


async def test_the_next_are_fetched_once_and_no_more_than_a_few(
    dockets: Dockets, autojump_clock: trio.testing.MockClock
) -> None:
    wait(dockets, 3, 4, 5)
    assert await look(dockets, FakeNetwork()) == [hash_of(4), hash_of(5)], "the first is under check"
    fresh = Dockets(None, "salt")
    for number in range(3, 6):
        for counter in range(3):
            fresh.add(bytes([number, counter]) * 16, Kind.SUBMISSION, number)
    assert len(await look(fresh, FakeNetwork())) == AHEAD


async def test_when_one_is_done_the_next_follows(dockets: Dockets, autojump_clock: trio.testing.MockClock) -> None:
    wait(dockets, 3, 4, 5)
    dockets.add(b"x" * 32, Kind.SUBMISSION, 5)
    found = await look(dockets, FakeNetwork(), then=lambda: dockets.done(hash_of(3)))
    assert found == [hash_of(4), hash_of(5), hash_of(5)]


@pytest.mark.parametrize("fault", [ContentUnavailable("nobody"), NetworkDown("dhtd")])
async def test_a_fault_is_left_to_whoever_needs_the_file(
    dockets: Dockets, fault: Exception, autojump_clock: trio.testing.MockClock
) -> None:
    wait(dockets, 3, 4, 5)
    assert await look(dockets, FakeNetwork({hash_of(4): fault})) == [hash_of(4), hash_of(5)]


async def test_what_cannot_be_accepted_is_not_fetched(dockets: Dockets, autojump_clock: trio.testing.MockClock) -> None:
    wait(dockets, 1, 2, 9)
    assert await look(dockets, FakeNetwork()) == []
