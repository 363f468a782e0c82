"""Decides what this node keeps.

Blobs by SHA-256, checkpoints by manifest id (the last few versions of each kind), everything atomically. What was only
fetched to be read goes again, the oldest first, before it fills the disk; so does what an earlier process left. It
refuses blobs above MAX_BLOB_BYTES, manifests of another run, and folders that are not flat; it never opens a network
connection.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import secrets
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from dht.checkpoint import CheckpointFiles
from dht.manifest import (
    CHUNK_SIZE_BYTES,
    DELTA,
    KINDS,
    TRAINER_STATE,
    FileEntry,
    Manifest,
    ManifestInvalid,
    cut,
    encode_manifest,
    manifest_id,
    open_manifest,
)

MAX_BLOB_BYTES = 64 * 1024 * 1024
FETCHED_BYTES = 4 << 30  # 512 submissions of the largest size that relays take: more than are read at any time
KEEP_VERSIONS = 5  # the report's relays keep the last five
KEEP_DELTAS = 10  # two to each of the last five policies, see `node.deltas`
KEEP_STATES = 2  # the newest, and the one before, from which the newest can be computed again


class StoreError(Exception):
    """What was asked to be kept cannot be: too large, not a flat folder, never cut, or not there."""


class ContentStore:
    """Folders: blobs/<hex>, checkpoints/<manifest hex>/, incoming/<manifest hex>/ and bitmap, staging/<hex>/."""

    def __init__(
        self, folder: Path, *, run_id: bytes, keep_versions: int = KEEP_VERSIONS,
        chunk_size_bytes: int = CHUNK_SIZE_BYTES, fetched_bytes: int = FETCHED_BYTES,
    ) -> None:  # fmt: skip
        self.folder, self.run_id, self._chunk_size_bytes = folder, run_id, chunk_size_bytes
        self._fetched_bytes = fetched_bytes
        self._fetched: dict[bytes, int] = {}
        """Blobs that may go, oldest first, with their sizes."""
        self._keep = dict.fromkeys(KINDS, keep_versions) | {TRAINER_STATE: KEEP_STATES, DELTA: KEEP_DELTAS}
        self._checkpoints: dict[bytes, CheckpointFiles] = {}
        self._expected: Counter[bytes] = Counter()
        self._arrived = asyncio.Event()
        for name in ("blobs", "checkpoints", "incoming", "staging"):
            (folder / name).mkdir(parents=True, exist_ok=True, mode=0o700)
        for leftover in (folder / "staging").iterdir():
            shutil.rmtree(leftover)
        for leftover in (folder / "blobs").glob("*.new-*"):
            leftover.unlink()
        for path in sorted((folder / "checkpoints").iterdir()):
            self._reopen(path)
        for path in sorted((folder / "blobs").iterdir(), key=lambda path: path.stat().st_mtime_ns):
            if not (folder / "checkpoints" / path.name).exists() and not (folder / "incoming" / path.name).exists():
                self._fetched[bytes.fromhex(path.name)] = path.stat().st_size
        self._make_room()

    def add_fetched(self, data: bytes) -> bytes:
        """Keeps what was fetched to be read now, until newer ones need the room. As `add_blob`."""
        sha256 = self.add_blob(data)
        self._fetched[sha256] = len(data)
        self._make_room()
        return sha256

    def add_blob(self, data: bytes) -> bytes:
        """Keeps `data` and returns its SHA-256.

        Raises StoreError above MAX_BLOB_BYTES, OSError when the disk refuses.
        """
        if len(data) > MAX_BLOB_BYTES:
            raise StoreError(f"a blob of {len(data)} bytes exceeds {MAX_BLOB_BYTES}")
        sha256 = hashlib.sha256(data).digest()
        path = self._blob(sha256)
        if not path.exists():
            temporary = path.with_suffix(f".new-{secrets.token_hex(4)}")
            try:
                with temporary.open("wb") as handle:
                    handle.write(data)
                    handle.flush()
                    os.fsync(handle.fileno())
                os.replace(temporary, path)
            finally:
                temporary.unlink(missing_ok=True)
        self._fetched.pop(sha256, None)
        self._arrived.set()
        self._arrived = asyncio.Event()
        return sha256

    def blob_path(self, sha256: bytes) -> Path | None:
        """Where a blob lies, or None."""
        path = self._blob(sha256)
        return path if path.exists() else None

    async def wait_blob(self, sha256: bytes, timeout_s: float) -> Path | None:
        """The blob's path; waits up to `timeout_s` only when a fetch of it is under way."""
        try:
            async with asyncio.timeout(timeout_s):
                while (path := self.blob_path(sha256)) is None and self._expected[sha256]:
                    await self._arrived.wait()
        except TimeoutError:
            return None
        return path

    @contextmanager
    def expecting(self, content: bytes) -> Iterator[None]:
        """While inside, `content` counts as on its way: who asks for it waits instead of being turned away."""
        self._expected[content] += 1
        try:
            yield
        finally:
            self._expected[content] -= 1
            self._arrived.set()
            self._arrived = asyncio.Event()

    def expects(self, content: bytes) -> bool:
        """Whether `content` is on its way."""
        return self._expected[content] > 0

    def stage(self, source: Path, version: int, *, kind: str, link: bool = False) -> bytes:
        """Copies and cuts a flat folder; returns the encoded manifest, to be sealed.

        `link`: the files are never written to again, so a second name for them does instead of a copy.
        Raises StoreError.
        """
        paths = sorted(source.iterdir())
        if not paths or not all(path.is_file() for path in paths):
            raise StoreError(f"{source} is not a flat folder of files")
        with self.staging() as staged:
            manifest = Manifest(
                run_id=self.run_id, kind=kind, version=version, chunk_size_bytes=self._chunk_size_bytes,
                files=tuple(self._take(path, staged / path.name, link) for path in paths),
            )  # fmt: skip
            data = encode_manifest(manifest)
            self._keep_staged(staged, manifest_id(data))
        return data

    def stage_as(self, content: bytes, write: Callable[[Path], None]) -> None:
        """Stages the checkpoint `content` from what `write` puts into a folder; it answers for the files' hashes."""
        with self.staging() as staged:
            write(staged)
            self._keep_staged(staged, content)

    def seal(self, data: bytes) -> bytes:
        """Makes a checkpoint of what was staged under this manifest; returns its id.

        Raises StoreError, ManifestInvalid.
        """
        manifest, content = open_manifest(data, run_id=self.run_id), manifest_id(data)
        final = self.folder / "checkpoints" / content.hex()
        if not final.exists():
            if not self._staged(content).exists():
                raise StoreError("this checkpoint was not staged here")
            os.replace(self._staged(content), final)
            self._drop_incoming(content)  # it may have been on its way, too
        shutil.rmtree(self._staged(content), ignore_errors=True)  # or have been here before
        self.add_blob(data)
        self._checkpoints[content] = self._files(content, manifest)
        self.prune()
        return content

    async def begin(self, data: bytes) -> CheckpointFiles:
        """The checkpoint of an encoded manifest, ready for its missing chunks (idempotent). Raises ManifestInvalid."""
        manifest = open_manifest(data, run_id=self.run_id)
        content = self.add_blob(data)
        if content not in self._checkpoints:
            files = self._files(content, manifest)
            await files.prepare()
            self._checkpoints.setdefault(content, files)
        return self._checkpoints[content]

    def checkpoint(self, content: bytes) -> CheckpointFiles | None:
        """A known checkpoint, complete or arriving."""
        return self._checkpoints.get(content)

    def checkpoints(self) -> tuple[CheckpointFiles, ...]:
        """All known checkpoints, oldest version first."""
        return tuple(sorted(self._checkpoints.values(), key=lambda files: files.manifest.version))

    def prune(self) -> list[bytes]:
        """Deletes complete checkpoints beyond the newest of their kind, and any arriving one older than those.

        Returns their ids.
        """
        dropped: list[CheckpointFiles] = []
        for kind, keep in self._keep.items():
            known = [files for files in self.checkpoints() if files.manifest.kind == kind]
            complete = [files for files in known if files.complete]
            if len(complete) > keep:
                oldest_kept = complete[-keep].manifest.version
                dropped += [f for f in known if f.manifest.version < oldest_kept and not self.expects(f.content)]
        for files in dropped:
            del self._checkpoints[files.content]
            shutil.rmtree(files.folder, ignore_errors=True)
            self._drop_incoming(files.content)
            self._blob(files.content).unlink(missing_ok=True)
        return [files.content for files in dropped]

    def remove_blob(self, sha256: bytes) -> None:
        """Forgets a blob; nothing happens when it is not there."""
        self._fetched.pop(sha256, None)
        self._blob(sha256).unlink(missing_ok=True)

    def _make_room(self) -> None:
        """The newest one stays in any case: somebody is about to read it."""
        while len(self._fetched) > 1 and sum(self._fetched.values()) > self._fetched_bytes:
            self.remove_blob(next(iter(self._fetched)))

    def _reopen(self, path: Path) -> None:
        """Takes up a checkpoint found on disk at start; one without a valid manifest of this run is removed."""
        blob = self.folder / "blobs" / path.name
        try:
            data = blob.read_bytes()
            content, manifest = manifest_id(data), open_manifest(data, run_id=self.run_id)
            if content.hex() != path.name:
                raise ManifestInvalid("bytes of another SHA-256")
        except (FileNotFoundError, ManifestInvalid):
            shutil.rmtree(path)
            blob.unlink(missing_ok=True)
            return
        self._checkpoints[content] = self._files(content, manifest)

    def _files(self, content: bytes, manifest: Manifest) -> CheckpointFiles:
        return CheckpointFiles(
            content, manifest, incoming=self.folder / "incoming" / content.hex(),
            final=self.folder / "checkpoints" / content.hex(),
        )  # fmt: skip

    def _take(self, source: Path, target: Path, link: bool) -> FileEntry:
        if link:
            os.link(source, target)
            with source.open("rb") as reader:
                return cut(source.name, iter(partial(reader.read, self._chunk_size_bytes), b""))
        with source.open("rb") as reader, target.open("wb") as writer:

            def pieces() -> Iterator[bytes]:
                while piece := reader.read(self._chunk_size_bytes):
                    writer.write(piece)
                    yield piece

            entry = cut(source.name, pieces())
            writer.flush()
            os.fsync(writer.fileno())
        return entry

    def _blob(self, sha256: bytes) -> Path:
        if len(sha256) != 32:
            raise StoreError("content is named by 32 bytes")
        return self.folder / "blobs" / sha256.hex()

    def _drop_incoming(self, content: bytes) -> None:
        shutil.rmtree(self.folder / "incoming" / content.hex(), ignore_errors=True)
        (self.folder / "incoming" / f"{content.hex()}.bitmap").unlink(missing_ok=True)

    @contextmanager
    def staging(self) -> Iterator[Path]:
        """A new empty folder on the store's disk, which is gone afterwards unless it was moved."""
        folder = self.folder / "staging" / secrets.token_hex(8)
        folder.mkdir()
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _keep_staged(self, folder: Path, content: bytes) -> None:
        if self._staged(content).exists():
            shutil.rmtree(self._staged(content))
        os.replace(folder, self._staged(content))

    def _staged(self, content: bytes) -> Path:
        return self.folder / "staging" / content.hex()
