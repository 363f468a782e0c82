"""What is kept and for how long; nothing half written is ever seen."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from eth_account.signers.local import LocalAccount

import dht.store
from dht.manifest import ManifestInvalid, sign_manifest
from dht.signing import RecordDomain
from dht.store import ContentStore, StoreError
from dht.throttle import Throttle


@pytest.fixture
def open_store(tmp_path: Path, domain: RecordDomain, accounts: list[LocalAccount]) -> Callable[[], ContentStore]:
    return lambda: ContentStore(
        tmp_path / "store", domain=domain, manager=accounts[0].address, keep_versions=2, chunk_size_bytes=1024
    )


def run(story: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(story())  # type: ignore[arg-type]


def test_blobs(open_store: Callable[[], ContentStore], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        store = open_store()
        sha256 = store.add_blob(b"hello")
        assert sha256 == hashlib.sha256(b"hello").digest() == store.add_blob(b"hello")
        path = store.blob_path(sha256)
        assert path is not None
        assert path.read_bytes() == b"hello"
        assert open_store().blob_path(sha256) == path
        (tmp_path / "file").write_bytes(b"from a file")
        assert store.blob_path(store.add_blob_file(tmp_path / "file")) is not None
        assert await store.wait_blob(b"?" * 32, 10.0) is None  # unexpected: no waiting
        with store.expecting(hashlib.sha256(b"late").digest()):
            waiting = asyncio.create_task(store.wait_blob(hashlib.sha256(b"late").digest(), 10.0))
            store.add_blob(b"late")
            assert await waiting is not None
        monkeypatch.setattr(dht.store, "MAX_BLOB_BYTES", 4)
        for refused in (lambda: store.add_blob(b"12345"), lambda: store.add_blob_file(tmp_path / "file")):
            with pytest.raises(StoreError, match="exceeds"):
                refused()
        with pytest.raises(StoreError):
            store.blob_path(b"short")
        store.remove_blob(sha256)
        assert store.blob_path(sha256) is None

    run(story)


def test_the_last_versions_are_kept_over_a_restart(
    open_store: Callable[[], ContentStore], folder: Path, domain: RecordDomain, accounts: list[LocalAccount]
) -> None:
    async def story() -> None:
        store, contents = open_store(), []
        for version in range(4):
            (folder / "config.json").write_text(str(version))
            body = store.stage(folder, version)
            contents.append(store.seal(body, sign_manifest(body, domain=domain, account=accounts[0])))
        for found in (store, open_store()):
            assert [files.content for files in found.checkpoints()] == contents[2:]
            assert [(files.folder / "config.json").read_text() for files in found.checkpoints()] == ["2", "3"]
            assert found.blob_path(contents[0]) is None
            assert len(list((found.folder / "checkpoints").iterdir())) == 2

    run(story)


def test_what_cannot_be_staged_or_sealed(
    open_store: Callable[[], ContentStore], folder: Path, domain: RecordDomain, accounts: list[LocalAccount]
) -> None:
    async def story() -> None:
        store = open_store()
        body = store.stage(folder, 1)
        with pytest.raises(ManifestInvalid, match="forged"):
            store.seal(body, sign_manifest(body, domain=domain, account=accounts[1]))
        elsewhere = sign_manifest(body, domain=domain, account=accounts[0])
        store = open_store()  # a restart drops what was staged and never sealed
        with pytest.raises(StoreError, match="not staged"):
            store.seal(body, elsewhere)
        (folder / "sub").mkdir()
        with pytest.raises(StoreError, match="flat"):
            store.stage(folder, 1)
        assert list((store.folder / "staging").iterdir()) == []

    run(story)


def test_a_checkpoint_with_a_broken_manifest_is_dropped_at_start(
    open_store: Callable[[], ContentStore], folder: Path, domain: RecordDomain, accounts: list[LocalAccount]
) -> None:
    async def story() -> None:
        store = open_store()
        body = store.stage(folder, 1)
        content = store.seal(body, sign_manifest(body, domain=domain, account=accounts[0]))
        (store.folder / "blobs" / content.hex()).write_bytes(b"rotten")
        assert open_store().checkpoints() == ()

    run(story)


def test_throttle_keeps_the_rate() -> None:
    throttle = Throttle(100.0, burst_bytes=50, now_s=0.0)
    assert throttle.reserve(50, 0.0) == 0.0
    assert throttle.reserve(100, 0.0) == pytest.approx(1.0)
    assert throttle.reserve(50, 2.0) == 0.0
    assert Throttle(None, burst_bytes=1, now_s=0.0).reserve(10**9, 0.0) == 0.0
    with pytest.raises(ValueError, match="above 0"):
        Throttle(0, burst_bytes=1, now_s=0.0)
