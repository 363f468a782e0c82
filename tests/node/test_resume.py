"""Where training goes on: with what is left on disk, with a step trained again, or loudly without moments."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dht.plan import ContentUnavailable
from node.child import ChildError
from node.errors import UserError
from node.resume import Plan, Resume, plan
from rl.batch import StepBatch, write_trained_on


@pytest.mark.parametrize(
    ("newest", "states", "policies", "expected"),
    [
        (0, [], [0], Plan(start=0, with_state=False, replay=())),
        (5, [5], [5], Plan(start=5, with_state=True, replay=())),
        (5, [5], [], Plan(start=5, with_state=True, replay=())),  # the policy can be fetched
        (5, [4, 5], [4, 5], Plan(start=5, with_state=True, replay=())),
        (5, [4], [4, 5], Plan(start=4, with_state=True, replay=(4,))),
        (5, [3], [3, 5], Plan(start=3, with_state=True, replay=(3, 4))),
        (5, [4], [5], Plan(start=5, with_state=False, replay=())),  # a state whose policy is gone
        (5, [2], [2, 5], Plan(start=5, with_state=False, replay=())),  # too long ago
        (5, [6, 7], [5], Plan(start=5, with_state=False, replay=())),  # of policies that were never announced
        (1, [], [0, 1], Plan(start=0, with_state=False, replay=(0,))),  # policy 0 is its own state
        (2, [], [0, 2], Plan(start=0, with_state=False, replay=(0, 1))),
        (3, [], [0, 3], Plan(start=3, with_state=False, replay=())),
    ],
)
def test_the_way_to_the_newest_policy(
    newest: int, states: Sequence[int], policies: Sequence[int], expected: Plan
) -> None:
    assert plan(newest, states=states, policies=policies) == expected


class World:
    """A run of five policies on the ledger. A policy is one file of text: what it was trained from and on.

    The training process is a list of what it was told; `differs` makes it a machine that computes something else.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.calls = folder, []
        self.served: dict[bytes, Path] = {}
        self.published: set[bytes] = set()
        self.differs = self.unreadable = False
        self.lost_rollouts = False
        self.folders: dict[int, Path] = {}  # of states
        self.ledger_folder = folder / "ledger"
        self.base = self._write(self.ledger_folder / "0", "base")
        content = "base"
        for step in range(5):
            content = f"{content}+{step}"
            self._write(self.ledger_folder / str(step + 1), content, step)
        self.announced = [self.hash(self.ledger_folder / str(version)) for version in range(6)]
        self.loaded = ""
        self.needs_reference, self.reference = False, None

    @staticmethod
    def _write(folder: Path, content: str, step: int | None = None) -> Path:
        folder.mkdir(parents=True)
        (folder / "weights").write_text(content)
        if step is not None:
            write_trained_on(folder, step, [f"{step:064x}"])
        return folder

    @staticmethod
    def hash(folder: Path) -> bytes:
        return hashlib.sha256(b"".join(path.read_bytes() for path in sorted(folder.iterdir()))).digest()

    def own(self, *versions: int) -> None:
        for version in versions:
            self._write(self.path(version), (self.ledger_folder / str(version) / "weights").read_text(), version - 1)

    # the ledger
    def latest_checkpoint(self, pool_id: int) -> Any:
        return self.checkpoint(pool_id, len(self.announced) - 1) if self.announced else None

    def checkpoint(self, pool_id: int, version: int) -> Any:
        return SimpleNamespace(version=version, manifest_hash=self.announced[version])

    # the network
    @property
    def content(self) -> World:
        return self

    async def publish_checkpoint(self, folder: Path, version: int) -> bytes:
        self.published.add(self.hash(folder))
        return self.hash(folder)

    async def fetch_checkpoint(self, manifest_hash: bytes, *, timeout_s: float) -> Path:
        if manifest_hash not in self.served:
            raise ContentUnavailable("nobody serves it")
        return self.served[manifest_hash]

    def withdraw(self, content: bytes) -> None:
        self.published.discard(content)

    # the training process
    def path(self, version: int) -> Path:
        return self.folder / f"policy-{version}"

    async def load(self, folder: Path) -> None:
        self.loaded = (folder / "weights").read_text()
        self.calls.append(f"load {self.loaded}")

    async def load_state(self, folder: Path, version: int) -> None:
        if self.unreadable:
            raise ChildError("trainer", "StateInvalid", "it goes with another policy")
        self.calls.append(f"state {version}")

    async def train(self, batch: StepBatch, target: Path) -> None:
        self.loaded += f"+{batch.step}" + ("?" if self.differs else "")
        self._write(target, self.loaded, batch.step)
        self.calls.append(f"train {batch.step}")

    async def save_state(self, version: int) -> None:
        self.calls.append(f"save {version}")

    # the states
    async def find(self) -> None: ...

    def use(self, version: int) -> None: ...

    def drop(self, version: int) -> None:
        self.folders.pop(version)

    # the rollouts
    async def again(self, step: int, submissions: Sequence[bytes] | None) -> StepBatch | None:
        assert submissions in (None, (step.to_bytes(32, "big"),))
        return None if self.lost_rollouts else StepBatch(step=step, wanted=1)

    async def announce(self, version: int, manifest_hash: bytes) -> None:
        self.announced.append(manifest_hash)

    def resume(self) -> Resume:
        policies: Any = SimpleNamespace(folders={})
        me: Any = self
        return Resume(me, me, me, policies, me, me, pool_id=1, base=self.base, announce=self.announce)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


async def test_a_new_run_begins_with_the_base(world: World) -> None:
    expected, world.announced = world.announced[0], []
    at = await world.resume().run()
    assert (at.version, at.manifest_hash, world.announced) == (0, expected, [expected])


async def test_a_restart_goes_on_with_its_own_state(world: World) -> None:
    world.own(4, 5)
    world.folders = {4: world.folder, 5: world.folder}
    at = await world.resume().run()
    assert world.calls == ["load base+0+1+2+3+4", "state 5"]
    assert (at.version, at.folder, at.manifest_hash) == (5, world.path(5), world.announced[5])


async def test_the_announced_policy_is_made_again_where_nobody_has_it(world: World) -> None:
    world.own(4)
    world.folders = {4: world.folder}
    at = await world.resume().run()
    assert world.calls == ["load base+0+1+2+3", "state 4", "train 4", "save 5"]
    assert at.folder == world.path(5)
    assert world.announced[5] in world.published, "others get it under the announced hash"


async def test_what_comes_out_differently_is_not_used_and_said(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.own(4, 5)
    world.folders, world.differs = {4: world.folder}, True
    at = await world.resume().run()
    assert world.calls[-1] == "load base+0+1+2+3+4"
    assert (at.folder, world.hash(at.folder)) == (world.path(5), world.announced[5])
    assert "step 4 came out differently than announced" in caplog.text
    assert "NO TRAINER STATE IS LEFT" in caplog.text
    assert len(world.published) == 2, "only announced policies are served"


@pytest.mark.parametrize("fault", ["unreadable", "lost_rollouts"])
async def test_a_state_that_does_not_fit_or_rollouts_that_are_gone(
    world: World, caplog: pytest.LogCaptureFixture, fault: str
) -> None:
    world.own(4, 5)
    world.folders = {4: world.folder}
    setattr(world, fault, True)
    at = await world.resume().run()
    assert at.folder == world.path(5)
    assert "NO TRAINER STATE IS LEFT" in caplog.text


async def test_nothing_left_but_the_announced_weights(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.served = {world.announced[5]: world.ledger_folder / "5"}
    at = await world.resume().run()
    assert world.calls == ["load base+0+1+2+3+4"]
    assert at.version == 5
    assert "fresh optimiser moments" in caplog.text


async def test_not_even_those(world: World) -> None:
    with pytest.raises(UserError, match="policy 5 is neither here nor served"):
        await world.resume().run()


async def test_a_policy_of_ones_own_that_was_never_announced_is_passed_over(world: World) -> None:
    world.own(5)
    (world.path(5) / "weights").write_text("trained, fenced, never announced")
    world.served = {world.announced[5]: world.ledger_folder / "5"}
    at = await world.resume().run()
    assert at.folder == world.ledger_folder / "5"
    assert world.published == set(), "nor served"


async def test_a_folder_that_is_not_the_announced_policy(world: World) -> None:
    world.own(5)
    (world.path(5) / "weights").write_text("something else")
    with pytest.raises(UserError, match="not policy 5 as the ledger records it"):
        await world.resume().run()


async def test_a_new_runs_kl_is_to_its_base(world: World) -> None:
    world.announced, world.needs_reference = [], True
    await world.resume().run()
    assert world.reference == world.base


async def test_a_kl_is_to_the_announced_policy_0_whatever_base_is_here(world: World) -> None:
    world.own(5)
    world.needs_reference = True
    await world.resume().run()
    assert world.reference == world.base
    world.served = {world.announced[0]: world._write(world.folder / "fetched", "base")}
    (world.base / "weights").write_text("another model")
    await world.resume().run()
    assert world.reference == world.folder / "fetched"
    world.served = {}
    world.calls.clear()
    with pytest.raises(UserError, match="the KL term needs the run's policy 0") as refused:
        await world.resume().run()
    assert "model.path" in refused.value.fix
    assert world.calls == [], "nothing is trained with another reference"
