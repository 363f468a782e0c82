"""Every submission reaches relay and ledger exactly once, wherever the process is killed on the way."""

from __future__ import annotations

import hashlib
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import trio
import trio.testing

from node.outbox import Item, Outbox, Stage
from node.state import NodeState


class Killed(BaseException):
    """kill -9 at this very await."""


@dataclass
class World:
    """A relay and a ledger that count what happens to them, in a process that dies at its `dies_at`-th await."""

    dies_at: int = 10**9
    awaits: int = 0
    stored: list[bytes] = field(default_factory=list)
    recorded: list[tuple[int, int, bytes]] = field(default_factory=list)
    refused: set[tuple[int, int]] = field(default_factory=set)

    async def wait(self) -> None:
        self.awaits += 1
        if self.awaits == self.dies_at:
            raise Killed
        await trio.lowlevel.checkpoint()

    async def hand_over(self, path: Path) -> bytes:
        await self.wait()  # on the way there
        sha256 = hashlib.sha256(path.read_bytes()).digest()
        if sha256 not in self.stored:  # as `node.handover.Reception` does
            self.stored.append(sha256)
        await self.wait()  # on the way back
        return sha256

    async def record(self, item: Item) -> bool:
        await self.wait()
        if (item.step, item.counter) in self.refused:
            return False
        entry = (item.step, item.counter, item.sha256)
        taken = [known for known in self.recorded if known[:2] == entry[:2]]
        assert taken in ([], [entry]), "another file under a counter that is taken"
        assert item.sha256 in self.stored, "recorded before it is really stored"
        if not taken:  # as `Ledger.submit`: the same again is no error
            self.recorded.append(entry)
        await self.wait()
        return True


WORK = [(0, 0), (0, 1), (1, 0)]
FILES = {work: b"PAR1 rollouts of %d/%d" % work for work in WORK}
EXPECTED = [(*work, hashlib.sha256(FILES[work]).digest()) for work in WORK]


async def life(folder: Path, world: World, *, make: bool = True) -> list[Item]:
    """One process: makes what is neither made nor recorded, sends what is unsent; what is left in the outbox."""
    with closing(NodeState(folder)) as state:
        outbox = Outbox(state, folder / "submissions")
        for step, counter in WORK if make else ():
            if outbox.has(step, counter) or any(entry[:2] == (step, counter) for entry in world.recorded):
                continue
            path = folder / "submissions" / f"{step}-{counter}.parquet"
            path.write_bytes(FILES[step, counter][:5])
            await world.wait()  # the engine is writing
            path.write_bytes(FILES[step, counter])
            await world.wait()  # the file is finished, and nobody knows of it
            outbox.add(step, counter, path)
            await world.wait()
        for item in outbox.unsent():
            await outbox.send(item, hand_over=world.hand_over, record=world.record)
        return list(outbox.items())


def awaits_of_a_whole_life() -> int:
    return 3 * len(WORK) + 4 * len(WORK)


@pytest.mark.parametrize("first", range(1, awaits_of_a_whole_life() + 1))
async def test_killed_at_every_await_each_is_handed_in_and_recorded_exactly_once(tmp_path: Path, first: int) -> None:
    world = World(dies_at=first)
    with pytest.raises(Killed):
        await life(tmp_path, world)
    kept = {path.name for path in (tmp_path / "submissions").glob("*")}
    world.dies_at = world.awaits + 3  # and once more soon after
    try:
        left = await life(tmp_path, world)
    except Killed:
        left = await life(tmp_path, world)
    assert world.recorded == EXPECTED
    assert sorted(world.stored) == sorted(sha256 for *_, sha256 in EXPECTED)
    assert [item.stage for item in left] == [Stage.RECORDED] * 3
    assert all(item.path.read_bytes() == FILES[item.step, item.counter] for item in left), kept


async def test_nothing_is_made_again_that_is_on_its_way(tmp_path: Path) -> None:
    world = World(dies_at=3 * len(WORK) + 1)
    with pytest.raises(Killed):
        await life(tmp_path, world)
    made = world.awaits
    await life(tmp_path, world)
    assert world.awaits - made == 4 * len(WORK), "sent, but not made again"


async def test_the_file_stays_until_its_outcome_is_known(tmp_path: Path) -> None:
    left = await life(tmp_path, World())
    with closing(NodeState(tmp_path)) as state:
        outbox = Outbox(state, tmp_path / "submissions")
        assert outbox.unsent() == ()
        outbox.done(left[0])
        assert [(item.step, item.counter) for item in outbox.items()] == WORK[1:]
    assert sorted(path.name for path in (tmp_path / "submissions").iterdir()) == ["0-1.parquet", "1-0.parquet"]


async def test_what_the_ledger_refuses_for_good_is_dropped(tmp_path: Path) -> None:
    world = World(refused={(0, 1)})
    assert [(item.step, item.counter) for item in await life(tmp_path, world)] == [(0, 0), (1, 0)]


async def test_a_file_that_changed_on_the_disk_is_not_sent(tmp_path: Path) -> None:
    world = World(dies_at=3 * len(WORK) + 1)
    with pytest.raises(Killed):
        await life(tmp_path, world)
    (tmp_path / "submissions" / "0-0.parquet").write_bytes(b"PAR1 rotten")
    (tmp_path / "submissions" / "0-1.parquet").unlink()
    assert [(item.step, item.counter) for item in await life(tmp_path, world, make=False)] == [(1, 0)]


async def test_a_half_written_file_goes_at_the_next_start(tmp_path: Path) -> None:
    with pytest.raises(Killed):
        await life(tmp_path, World(dies_at=1))
    assert (tmp_path / "submissions" / "0-0.parquet").exists()
    with closing(NodeState(tmp_path)) as state:
        Outbox(state, tmp_path / "submissions")
    assert list((tmp_path / "submissions").iterdir()) == []


async def test_who_waits_for_a_change_is_woken(tmp_path: Path) -> None:
    with closing(NodeState(tmp_path)) as state:
        outbox = Outbox(state, tmp_path / "submissions")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(outbox.changed)
            await trio.testing.wait_all_tasks_blocked()
            (tmp_path / "submissions" / "f").write_bytes(b"x")
            outbox.add(0, 0, tmp_path / "submissions" / "f")


async def test_what_was_made_for_another_run_is_not_sent(tmp_path: Path) -> None:
    with pytest.raises(Killed):
        await life(tmp_path, World(dies_at=3 * len(WORK) + 1))
    with closing(NodeState(tmp_path, b"another run")) as state:
        assert Outbox(state, tmp_path / "submissions").items() == ()
    assert list((tmp_path / "submissions").iterdir()) == []
