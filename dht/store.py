"""Decides what this node keeps.

Blobs by SHA-256, checkpoints by manifest id (the last few versions), everything atomically. It refuses blobs above
MAX_BLOB_BYTES, manifests that the manager did not sign, and folders that are not flat; it never opens a network
connection.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import secrets
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dht.checkpoint import CheckpointFiles
from dht.manifest import (
    CHUNK_SIZE_BYTES,
    FileEntry,
    Manifest,
    ManifestInvalid,
    cut,
    encode_body,
    encode_manifest,
    manifest_id,
    open_manifest,
)
from dht.signing import RecordDomain

MAX_BLOB_BYTES = 64 * 1024 * 1024
KEEP_VERSIONS = 5  # the report's relays keep the last five


class StoreError(Exception):
    """What was asked to be kept cannot be: too large, not a flat folder, never cut, or not there."""


class ContentStore:
    """Folders: blobs/<hex>, checkpoints/<manifest hex>/, incoming/<manifest hex>/ and bitmap, staging/<body hex>/."""

    def __init__(
        self, folder: Path, *, domain: RecordDomain, manager: str, keep_versions: int = KEEP_VERSIONS,
        chunk_size_bytes: int = CHUNK_SIZE_BYTES,
    ) -> None:  # fmt: skip
        self.folder, self._domain, self._manager = folder, domain, manager
        self._keep_versions, self._chunk_size_bytes = keep_versions, chunk_size_bytes
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
        self._arrived.set()
        self._arrived = asyncio.Event()
        return sha256

    def add_blob_file(self, path: Path) -> bytes:
        """`add_blob` of a file's bytes; its size is checked before it is read."""
        if path.stat().st_size > MAX_BLOB_BYTES:
            raise StoreError(f"{path.name} exceeds {MAX_BLOB_BYTES} bytes")
        return self.add_blob(path.read_bytes())

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

    def stage(self, source: Path, version: int) -> bytes:
        """Copies and cuts a flat folder; returns the manifest body for the manager to sign.

        Raises StoreError, ManifestInvalid.
        """
        staged = self.folder / "staging" / secrets.token_hex(8)
        staged.mkdir()
        try:
            paths = sorted(source.iterdir())
            if not paths or not all(path.is_file() for path in paths):
                raise StoreError(f"{source} is not a flat folder of files")
            manifest = Manifest(
                run_id=self._domain.run_id, version=version, chunk_size_bytes=self._chunk_size_bytes, signature=b"",
                files=tuple(self._copy(path, staged / path.name) for path in paths),
            )  # fmt: skip
            body = encode_body(manifest)
            target = self._staged(body)
            if target.exists():
                shutil.rmtree(target)
            os.replace(staged, target)
        finally:
            shutil.rmtree(staged, ignore_errors=True)
        return body

    def seal(self, body: bytes, signature: bytes) -> bytes:
        """Completes a staged checkpoint with the manager's signature; returns the manifest id.

        Raises ManifestInvalid, StoreError.
        """
        data = encode_manifest(body, signature)
        manifest = open_manifest(data, domain=self._domain, manager=self._manager)
        content, staged = manifest_id(data), self._staged(body)
        final = self.folder / "checkpoints" / content.hex()
        if not final.exists():
            if not staged.exists():
                raise StoreError("this checkpoint was not staged here")
            os.replace(staged, final)
        self.add_blob(data)
        self._checkpoints[content] = self._files(content, manifest)
        self.prune()
        return content

    async def begin(self, data: bytes) -> CheckpointFiles:
        """The checkpoint of an encoded manifest, ready for its missing chunks (idempotent). Raises ManifestInvalid."""
        manifest = open_manifest(data, domain=self._domain, manager=self._manager)
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
        """Deletes complete checkpoints beyond the newest `keep_versions`, and any arriving one older than those.

        Returns their ids.
        """
        complete = [files for files in self.checkpoints() if files.complete]
        if len(complete) <= self._keep_versions:
            return []
        oldest_kept = complete[-self._keep_versions].manifest.version
        dropped = [f for f in self.checkpoints() if f.manifest.version < oldest_kept and not self.expects(f.content)]
        for files in dropped:
            del self._checkpoints[files.content]
            shutil.rmtree(files.folder, ignore_errors=True)
            (self.folder / "incoming" / f"{files.content.hex()}.bitmap").unlink(missing_ok=True)
            self._blob(files.content).unlink(missing_ok=True)
        return [files.content for files in dropped]

    def remove_blob(self, sha256: bytes) -> None:
        """Forgets a blob; nothing happens when it is not there."""
        self._blob(sha256).unlink(missing_ok=True)

    def _reopen(self, path: Path) -> None:
        """Takes up a checkpoint found on disk at start; one without a valid manifest of this run is removed."""
        blob = self.folder / "blobs" / path.name
        try:
            data = blob.read_bytes()
            content, manifest = manifest_id(data), open_manifest(data, domain=self._domain, manager=self._manager)
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

    def _copy(self, source: Path, target: Path) -> FileEntry:
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

    def _staged(self, body: bytes) -> Path:
        return self.folder / "staging" / hashlib.sha256(body).hexdigest()
