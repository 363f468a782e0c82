"""By deltas: real stores and servers, and a chain and a directory that say what the test wants."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import trio
from safetensors.numpy import save_file

from dht import routes
from dht.manifest import DELTA
from dht.records import RunStateRecord
from dht.store import KEEP_DELTAS
from ledger.types import Checkpoint
from node import deltas
from node.deltas import DeltaMaker, Fetched, bases, fetch_policy, policies_here
from node.network import Network
from tests.dht.directory_contract import EPOCH
from tests.node.real_network import Opener
from tests.node.test_lease import inline

LIMIT_S = 120.0


def test_bases_are_the_policy_before_and_the_anchor() -> None:
    assert [bases(v, range(99)) for v in (1, 2, 4, 5, 6, 8, 9)] == [(0,), (1, 0), (3, 0), (4,), (5, 4), (7, 4), (8,)]
    assert bases(0, range(99)) == ()
    assert bases(6, {4}) == (4,)
    assert bases(6, {1, 2}) == ()


@pytest.fixture(autouse=True)
def ledger_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("node.deltas.on_chain", inline)


class Announced:
    """The ledger's checkpoints."""

    def __init__(self) -> None:
        self.manifests: list[bytes] = []

    def checkpoint(self, pool_id: int, version: int) -> Checkpoint:
        return Checkpoint(version=version, manifest_hash=self.manifests[version], block=version, epoch=EPOCH)


def _policy(folder: Path, version: int) -> Path:
    """A model whose weights move a little from version to version."""
    rng = np.random.default_rng(0)
    weights = rng.normal(0, 0.02, 200_000).astype(np.float16)
    for step in range(version):
        weights = (weights + 2e-6 * np.random.default_rng(step + 1).normal(0, 1, weights.size)).astype(np.float16)
    made = folder / f"made-{version}"
    made.mkdir()
    save_file({"w": weights}, made / "model.safetensors")
    (made / "config.json").write_text("{}")
    return made


class Bench:
    """A trainer and a reader, both real, with `versions` policies published by the former."""

    def __init__(self, trainer: Network, reader: Network, folder: Path) -> None:
        self.trainer, self.reader, self._folder = trainer, reader, folder
        self.ledger, self.maker = Announced(), DeltaMaker(trainer, wanted=True)

    async def publish(self) -> None:
        version = len(self.ledger.manifests)
        made = _policy(self._folder, version)
        self.ledger.manifests.append(await self.trainer.content.publish_checkpoint(made, version))
        await self.maker.make_first(version)

    def tell(self) -> None:
        newest = len(self.ledger.manifests) - 1
        self.trainer.announce_run_state(
            RunStateRecord(
                epoch=EPOCH, open_step=newest, policy_version=newest, manifest_hash=self.ledger.manifests[newest],
                deltas=self.maker.links,
            )
        )  # fmt: skip

    async def fetch(self, version: int, *, by_delta: bool = True) -> Fetched:
        wanted = self.ledger.checkpoint(1, version)
        got = await fetch_policy(
            self.ledger, self.reader, 1, wanted, by_delta=by_delta, timeout_s=30, announce=False,  # type: ignore[arg-type]
        )  # fmt: skip
        for made in (self._folder / f"made-{version}").iterdir():
            assert (got.folder / made.name).read_bytes() == made.read_bytes()
        return got

    async def heard(self) -> None:
        async def same() -> bool:
            state = await self.reader.run_state()
            return state is not None and state.deltas == self.maker.links

        while not await same():
            await trio.sleep(0.05)


@asynccontextmanager
async def _bench(opener: Opener, folder: Path) -> AsyncIterator[Bench]:
    with trio.fail_after(LIMIT_S):
        async with opener(0) as trainer, opener(1, *trainer.multiaddrs) as reader:
            yield Bench(trainer, reader, folder)


async def test_all_of_the_first_then_changes_a_chain_a_skip_and_all_again(
    opener: Opener, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routes, "STEP_BYTES", 1000)  # in keeping with so small a policy
    async with _bench(opener, tmp_path) as bench, trio.open_nursery() as nursery:
        await bench.publish()
        first = await bench.fetch(0)
        assert (first.deltas, first.fetched_bytes) == (0, first.whole_bytes)
        again = await bench.fetch(0)
        assert (again.folder, again.fetched_bytes) == (first.folder, 0), "what is here is not fetched"

        for _ in range(3):
            await bench.publish()
        assert [(link.base, link.result) for link in bench.maker.links] == [(0, 1), (1, 2), (2, 3)]
        bench.tell()
        await bench.heard()
        one = await bench.fetch(1)
        assert one.deltas == 1
        assert 0 < one.fetched_bytes < one.whole_bytes / 4
        chain = await bench.fetch(3)
        assert chain.deltas == 2
        assert set(await policies_here(bench.reader)) == {0, 1, 2, 3}

        nursery.start_soon(bench.maker.run, bench.tell)
        await bench.publish()
        while (0, 4) not in [(link.base, link.result) for link in bench.maker.links]:
            await trio.sleep(0.05)
        await bench.heard()
        whole = await bench.fetch(4, by_delta=False)
        assert whole.fetched_bytes == whole.whole_bytes
        nursery.cancel_scope.cancel()
    assert "all of it" not in caplog.text


async def test_a_delta_that_is_none_costs_its_bytes_and_all_of_the_policy_comes(
    opener: Opener, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deltas, "PATIENCE_S", 1.5)
    async with _bench(opener, tmp_path) as bench:
        for _ in range(8):
            await bench.publish()
        assert [link.result for link in bench.maker.links] == [3, 4, 5, 6, 7], "of the newest policies only"
        true = {link.result: link for link in bench.maker.links}
        await bench.fetch(3)
        lies = (
            replace(true[4], content=true[5].content),  # for another base
            replace(true[5], size_bytes=100),  # larger than it says
            replace(true[6], content=bench.ledger.manifests[6], size_bytes=10**5),  # a policy
            replace(true[7], content=b"?" * 32),  # nobody has it
        )
        for lie in lies:
            bench.maker.links = (lie,)
            bench.tell()
            await bench.heard()
            caplog.clear()
            got = await bench.fetch(lie.result)
            assert (got.deltas, got.fetched_bytes) == (0, got.whole_bytes)
            assert "of no use, fetching all of it" in caplog.text
        kinds = [c["kind"] for c in (await bench.trainer.status())["checkpoints"]]
        assert kinds.count(DELTA) <= KEEP_DELTAS
