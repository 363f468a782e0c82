"""What a trainer says as the manager, and when it says nothing."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.testing

from dht.records import RunStateRecord
from ledger.errors import Reverted
from node.batches import Batches
from node.child import ChildDied, ChildError
from node.deltas import DeltaMaker
from node.errors import DiskFull
from node.lease import Fenced
from node.resume import Position
from node.trainer import _Publication, told_of
from tests.node.test_lease import LEASE_S, A, B, Chain, inline, lease_of


class Net:
    """Run states as they were said, and None for silence."""

    def __init__(self) -> None:
        self.said: list[RunStateRecord | None] = []

    def announce_run_state(self, state: RunStateRecord) -> None:
        self.said.append(state)

    def withdraw_run_state(self) -> None:
        self.said.append(None)

    @property
    def content(self) -> Net:
        return self

    async def publish_checkpoint(self, folder: Path, version: int) -> bytes:
        return bytes([version]) * 32


class Ledger:
    """Takes checkpoints from the present manager only."""

    def __init__(self, chain: Chain, account: str) -> None:
        self._chain, self._account = chain, account
        self.announced: list[int] = []

    def announce_checkpoint(self, pool_id: int, version: int, manifest_hash: bytes) -> int:
        if self._chain.manager != self._account:
            raise Reverted("NotManager", (self._account,))
        self.announced.append(version)
        return 1


@pytest.fixture(autouse=True)
def no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """The virtual clock does not wait for threads."""
    monkeypatch.setattr("node.trainer.on_chain", inline)


AT = Position(version=3, folder=Path("policy-3"), manifest_hash=b"\x03" * 32)


async def publication_of(chain: Chain) -> tuple[_Publication, Net, Ledger, Any, Batches]:
    lease = lease_of(chain, A)
    await lease.acquire()
    net, ledger, batches = Net(), Ledger(chain, A), Batches(first_step=3, wanted=1)
    states: Any = SimpleNamespace(shared=b"s" * 32)
    deltas = DeltaMaker(net, wanted=False)  # type: ignore[arg-type]
    return _Publication(1, ledger, net, lease, batches, states, deltas), net, ledger, lease, batches  # type: ignore[arg-type]


async def test_it_tells_step_policy_and_state_under_its_lease(autojump_clock: trio.testing.MockClock) -> None:
    publication, net, ledger, _, batches = await publication_of(Chain(A))
    publication.run_state()
    assert net.said == [], "nothing before there is a policy"
    publication.policy(AT)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(publication.follow_open_step)
        await trio.testing.wait_all_tasks_blocked()
        batches.trained(4)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    at = await publication.publish(Path("policy-4"), 4)
    assert at == Position(version=4, folder=Path("policy-4"), manifest_hash=b"\x04" * 32)
    assert ledger.announced == [4]
    assert net.said == [
        RunStateRecord(epoch=1, open_step=step, policy_version=version, manifest_hash=bytes([version]) * 32,
                       state_hash=b"s" * 32)
        for step, version in ((3, 3), (4, 3), (4, 4))
    ]  # fmt: skip


async def test_without_the_chain_it_falls_silent_and_waits(autojump_clock: trio.testing.MockClock) -> None:
    chain = Chain(A)
    publication, net, ledger, lease, _ = await publication_of(chain)
    publication.policy(AT)
    published: list[Position] = []

    async def publish() -> None:
        published.append(await publication.publish(Path("policy-4"), 4))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(publication.follow_lease)
        nursery.start_soon(lease.keep)
        chain.down = True
        await trio.sleep(2 * LEASE_S)
        nursery.start_soon(publish)
        await trio.sleep(LEASE_S)
        publication.run_state()
        assert [said is None for said in net.said] == [False, True], "silent, whatever happens meanwhile"
        assert ledger.announced == published == []
        chain.down = False
        await trio.sleep(5)
        assert [at.version for at in published] == [4]
        assert net.said[-1] is not None
        assert net.said[-1].policy_version == 4
        nursery.cancel_scope.cancel()


async def test_a_policy_that_comes_too_late_is_the_end(autojump_clock: trio.testing.MockClock) -> None:
    chain = Chain(A, B)
    publication, net, ledger, lease, _ = await publication_of(chain)
    chain.manager, chain.epoch = B, 2  # while our lease is still sure by our clock: the owner can do that
    assert lease.sure
    with pytest.raises(Fenced):
        await publication.publish(Path("policy-4"), 4)
    assert net.said == []
    assert ledger.announced == []


@pytest.mark.parametrize(
    "fault",
    [
        ChildError("trainer", "SafetensorError", "I/O error: No space left on device (os error 28)"),
        ChildError("trainer", "OSError", "[Errno 122] Disk quota exceeded: 'policy-3.part-7/config.json'"),
        ChildDied("trainer", 1, "OSError: [Errno 28] No space left on device"),
    ],
)  # fmt: skip
def test_a_full_disk_is_named_and_no_restart_is_tried(fault: Exception) -> None:
    told = told_of(fault, Path("/data"))
    assert isinstance(told, DiskFull)
    assert told.exit_code == DiskFull.exit_code, "supervisors do not start it again"
    assert "free space for /data" in told.fix


def test_any_other_end_of_the_training_process_says_to_start_again() -> None:
    told = told_of(ChildDied("trainer", -9, "last words"), Path("/data"))
    assert told.exit_code == 1
    assert "last words" in told.message
    assert "start the trainer again" in told.fix
