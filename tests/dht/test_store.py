"""What is kept and for how long; nothing half written is ever seen."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

import dht.store
from dht.manifest import POLICY, TRAINER_STATE, ManifestInvalid
from dht.store import ContentStore, StoreError
from dht.throttle import Throttle


@pytest.fixture
def open_store(tmp_path: Path) -> Callable[[], ContentStore]:
    return lambda: ContentStore(tmp_path / "store", run_id=b"r" * 32, keep_versions=2, chunk_size_bytes=1024)


def run(story: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(story())  # type: ignore[arg-type]


def test_blobs(open_store: Callable[[], ContentStore], monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        store = open_store()
        sha256 = store.add_blob(b"hello")
        assert sha256 == hashlib.sha256(b"hello").digest() == store.add_blob(b"hello")
        path = store.blob_path(sha256)
        assert path is not None
        assert path.read_bytes() == b"hello"
        assert open_store().blob_path(sha256) == path
        assert await store.wait_blob(b"?" * 32, 10.0) is None  # unexpected: no waiting
        with store.expecting(hashlib.sha256(b"late").digest()):
            waiting = asyncio.create_task(store.wait_blob(hashlib.sha256(b"late").digest(), 10.0))
            store.add_blob(b"late")
            assert await waiting is not None
        monkeypatch.setattr(dht.store, "MAX_BLOB_BYTES", 4)
        with pytest.raises(StoreError, match="exceeds"):
            store.add_blob(b"12345")
        with pytest.raises(StoreError):
            store.blob_path(b"short")
        store.remove_blob(sha256)
        assert store.blob_path(sha256) is None

    run(story)


def test_attack_submissions_do_not_fill_the_disk_of_who_reads_them(tmp_path: Path) -> None:
    async def story() -> None:
        def opened() -> ContentStore:
            return ContentStore(tmp_path / "store", run_id=b"r" * 32, fetched_bytes=3000)

        def here() -> list[int]:
            return [n for n, sha256 in enumerate(submissions) if store.blob_path(sha256)]

        store, given = opened(), b"handed in here" * 100
        kept = store.add_blob(given)
        submissions = [store.add_fetched(bytes([n]) * 1000) for n in range(9)]
        assert here() == [6, 7, 8], "the oldest went first"
        assert store.blob_path(kept), "what was given to this node to keep stays"
        store.add_blob(bytes([6]) * 1000)
        store.add_fetched(b"x" * 3001)
        assert here() == [6], "handed in here as well, it is no more a fetched one; and the newest may be larger"
        for path in (tmp_path / "store" / "blobs").iterdir():
            path.unlink()
        submissions = [store.add_blob(bytes([n]) * 1000) for n in range(9)]
        store = opened()
        assert len(here()) == 3, "what an earlier process kept is bounded, too"

    run(story)


def test_a_manifest_is_not_taken_for_something_fetched(tmp_path: Path, folder: Path) -> None:
    async def story() -> None:
        for _ in range(2):
            store = ContentStore(tmp_path / "store", run_id=b"r" * 32, chunk_size_bytes=1024, fetched_bytes=1)
            content = store.seal(store.stage(folder, 0, kind=POLICY))
            for n in range(2):
                store.add_fetched(bytes([n]) * 1000)
            assert store.blob_path(content)

    run(story)


def test_the_last_versions_are_kept_over_a_restart(open_store: Callable[[], ContentStore], folder: Path) -> None:
    async def story() -> None:
        store, contents = open_store(), []
        for version in range(4):
            (folder / "config.json").write_text(str(version))
            contents.append(store.seal(store.stage(folder, version, kind=POLICY)))
        for found in (store, open_store()):
            assert [files.content for files in found.checkpoints()] == contents[2:]
            assert [(files.folder / "config.json").read_text() for files in found.checkpoints()] == ["2", "3"]
            assert found.blob_path(contents[0]) is None
            assert len(list((found.folder / "checkpoints").iterdir())) == 2

    run(story)


def test_what_cannot_be_staged_or_sealed(open_store: Callable[[], ContentStore], folder: Path) -> None:
    async def story() -> None:
        store = open_store()
        data = store.stage(folder, 1, kind=POLICY)
        with pytest.raises(ManifestInvalid, match="malformed"):
            store.seal(data[:-1])
        store = open_store()  # a restart drops what was staged and never sealed
        with pytest.raises(StoreError, match="not staged"):
            store.seal(data)
        (folder / "sub").mkdir()
        with pytest.raises(StoreError, match="flat"):
            store.stage(folder, 1, kind=POLICY)
        assert list((store.folder / "staging").iterdir()) == []

    run(story)


def test_a_checkpoint_with_a_broken_manifest_is_dropped_at_start(
    open_store: Callable[[], ContentStore], folder: Path
) -> None:
    async def story() -> None:
        store = open_store()
        content = store.seal(store.stage(folder, 1, kind=POLICY))
        (store.folder / "blobs" / content.hex()).write_bytes(b"rotten")
        assert open_store().checkpoints() == ()

    run(story)


def test_each_kind_has_its_own_versions_and_a_linked_state_outlives_its_source(
    open_store: Callable[[], ContentStore], folder: Path
) -> None:
    async def story() -> None:
        store = open_store()
        policy = store.seal(store.stage(folder, 0, kind=POLICY))
        states = [store.seal(store.stage(folder, version, kind=TRAINER_STATE, link=True)) for version in range(4)]
        assert [files.content for files in store.checkpoints()] == [policy, *states[2:]]
        model = (folder / "model.safetensors").read_bytes()
        (folder / "model.safetensors").unlink()
        newest = store.checkpoint(states[3])
        assert newest is not None
        assert (newest.folder / "model.safetensors").read_bytes() == model

    run(story)


def test_throttle_keeps_the_rate() -> None:
    throttle = Throttle(100.0, burst_bytes=50, now_s=0.0)
    assert throttle.reserve(50, 0.0) == 0.0
    assert throttle.reserve(100, 0.0) == pytest.approx(1.0)
    assert throttle.reserve(50, 2.0) == 0.0
    assert Throttle(None, burst_bytes=1, now_s=0.0).reserve(10**9, 0.0) == 0.0
    with pytest.raises(ValueError, match="above 0"):
        Throttle(0, burst_bytes=1, now_s=0.0)
