"""Which trainer's states are kept, served to standbys, and fetched."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.testing

from dht.manifest import TRAINER_STATE, ManifestInvalid
from dht.records import NodeRecord, RunStateRecord
from node.states import States
from rl.state_files import largest_state_bytes

ME, OTHER = "0x" + "aA" * 20, "0x" + "bB" * 20


class Net:
    """What of a network is used here."""

    def __init__(self) -> None:
        self.here: list[NodeRecord] = []
        self.published: list[tuple[str, int, str, bool]] = []
        self.kept: list[dict[str, Any]] = []
        self.named: RunStateRecord | None = None
        self.fetched: list[tuple[bytes, str, int]] = []
        self.refuses = False

    async def nodes(self) -> list[Any]:
        return [SimpleNamespace(content=node) for node in self.here]

    async def status(self) -> dict[str, Any]:
        return {"checkpoints": self.kept}

    @property
    def content(self) -> Net:
        return self

    async def publish_checkpoint(self, folder: Path, version: int, *, kind: str, link: bool) -> bytes:
        self.published.append((folder.name, version, kind, link))
        return bytes([version]) * 32

    async def run_state(self) -> RunStateRecord | None:
        return self.named

    async def fetch_checkpoint(self, content: bytes, *, timeout_s: float, kind: str, max_bytes: int) -> Path:
        self.fetched.append((content, kind, max_bytes))
        if self.refuses:
            raise ManifestInvalid("oversize")
        folder = Path(f"/store/{content[0]}")
        self.kept.append({"kind": kind, "complete": True, "version": content[0], "folder": str(folder)})
        return folder


def node(address: str, role: str) -> NodeRecord:
    return NodeRecord(address=address, peer_id="p", roles=(role,), multiaddrs=(), bulk_url="")


def states_of(net: Net, folder: Path) -> States:
    return States(net, folder, me=ME)  # type: ignore[arg-type]


def make(states: States, version: int) -> None:
    states.path(version).mkdir(parents=True)
    states.made(version)


def test_the_newest_two_are_kept(tmp_path: Path) -> None:
    states = states_of(Net(), tmp_path)
    for version in range(5):
        make(states, version)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["state-3", "state-4"]
    assert sorted(states.folders) == [3, 4]


async def test_what_earlier_processes_left_is_found_and_of_two_the_fetched_one(tmp_path: Path) -> None:
    net = Net()
    for name in ("state-3", "state-4", "state-5.part", "state-x"):
        (tmp_path / name).mkdir()
    net.kept = [
        {"kind": TRAINER_STATE, "complete": True, "version": 4, "folder": "/store/4"},
        {"kind": TRAINER_STATE, "complete": False, "version": 5, "folder": "/store/5"},
        {"kind": "policy", "complete": True, "version": 6, "folder": "/store/6"},
    ]
    states = states_of(net, tmp_path)
    await states.find()
    assert states.folders == {3: tmp_path / "state-3", 4: Path("/store/4")}


async def test_served_only_while_a_standby_is_there(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    net, told = Net(), []
    states = states_of(net, tmp_path)
    net.here = [node(ME, "trainer"), node(OTHER, "worker")]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(states.share, lambda: told.append(states.shared))
        make(states, 1)
        await trio.sleep(30)
        assert net.published == []
        net.here.append(node(OTHER, "trainer"))
        await trio.sleep(5)
        make(states, 2)
        await trio.sleep(5)
        nursery.cancel_scope.cancel()
    assert net.published == [("state-1", 1, TRAINER_STATE, True), ("state-2", 2, TRAINER_STATE, True)]
    assert told == [b"\x01" * 32, b"\x02" * 32]


def named(state_hash: bytes) -> RunStateRecord:
    return RunStateRecord(epoch=1, open_step=1, policy_version=1, manifest_hash=b"m" * 32, state_hash=state_hash)


async def test_a_standby_fetches_what_the_manager_names_and_no_more_than_the_policy_allows(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    (tmp_path / "weights").write_bytes(bytes(1000))
    net, policies = Net(), SimpleNamespace(folders={1: tmp_path}, newest=1)
    states = states_of(net, tmp_path / "states")
    steps: list[Callable[[], None]] = [
        lambda: setattr(net, "named", named(b"")),
        lambda: setattr(net, "named", named(b"\x01" * 32)),
        lambda: setattr(net, "refuses", True),
        lambda: setattr(net, "named", named(b"\x02" * 32)),
    ]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(states.follow, policies)
        for step in steps:
            step()
            await trio.sleep(5)
        nursery.cancel_scope.cancel()
    bound = largest_state_bytes(1000)
    assert net.fetched == [(b"\x01" * 32, TRAINER_STATE, bound), (b"\x02" * 32, TRAINER_STATE, bound)]
    assert states.folders == {1: Path("/store/1")}


@pytest.mark.parametrize("policies", [{}, {1: Path("/x")}])
async def test_without_a_policy_no_state_is_fetched(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, policies: dict[int, Path]
) -> None:
    net = Net()
    net.named = None if policies else named(b"\x01" * 32)
    with trio.move_on_after(10):
        await states_of(net, tmp_path).follow(SimpleNamespace(folders=policies, newest=-1))  # type: ignore[arg-type]
    assert net.fetched == []
