"""Decides how one checkpoint lies on disk while it arrives.

Files at full length, a bitmap of what is there, a rename at the end. A chunk is written only after its hash fits and
is readable at once; the folder gets its final name only after every whole file's SHA-256 fits. The bitmap is a hint:
on resume every marked chunk is hashed again. It refuses to delete or to serve.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from pathlib import Path

from dht.manifest import Manifest, chunk_places

READ_BYTES = 1024 * 1024


class ChunkWrong(Exception):
    """The bytes are not the chunk that the manifest names."""


class CheckpointWrong(Exception):
    """All chunks fit and yet a whole file's SHA-256 does not: the manifest contradicts itself.

    Take the next version.
    """


class CheckpointFiles:
    """Files of one manifest. `complete` once the folder carries its final name; single asyncio loop."""

    def __init__(self, content: bytes, manifest: Manifest, *, incoming: Path, final: Path) -> None:
        self.content, self.manifest, self.places = content, manifest, chunk_places(manifest)
        self._incoming, self._final = incoming, final
        self._bitmap = incoming.with_suffix(".bitmap")
        self.complete = final.is_dir()
        self.have = bytearray([self.complete]) * len(self.places)
        self._changed = asyncio.Event()

    @property
    def folder(self) -> Path:
        """Where the files are now; only to be read as a checkpoint when `complete`."""
        return self._final if self.complete else self._incoming

    @property
    def missing(self) -> list[int]:
        """Indices of the chunks not here yet, in order."""
        return [index for index, here in enumerate(self.have) if not here]

    async def prepare(self) -> None:
        """Makes the files, or takes up those of an earlier attempt after hashing what they claim to hold."""
        if not self.complete:
            self.have = await asyncio.to_thread(self._resume)

    async def write(self, index: int, data: bytes) -> None:
        """Stores a chunk after checking it; idempotent. Raises ChunkWrong."""
        await asyncio.to_thread(self._verify_and_write, index, data)
        self.have[index] = True
        temporary = self._bitmap.with_suffix(".new")
        try:
            temporary.write_bytes(self.have)
            os.replace(temporary, self._bitmap)
        finally:
            temporary.unlink(missing_ok=True)
        self._wake()

    async def wait(self, index: int, timeout_s: float) -> bool:
        """Whether chunk `index` is here, waiting at most `timeout_s` for it."""
        try:
            async with asyncio.timeout(timeout_s):
                while not self.have[index]:
                    await self._changed.wait()
        except TimeoutError:
            return False
        return True

    async def finish(self) -> Path:
        """Checks every whole file, syncs, and gives the folder its final name.

        Raises CheckpointWrong; then all is fetched anew.
        """
        if not self.complete:
            wrong = await asyncio.to_thread(self._check_files)
            if wrong:
                self.have = bytearray(len(self.places))
                self._bitmap.unlink(missing_ok=True)
                raise CheckpointWrong(f"SHA-256 of {', '.join(wrong)} does not match the manifest {self.content.hex()}")
            os.replace(self._incoming, self._final)
            self._bitmap.unlink(missing_ok=True)
            self.complete = True
        return self._final

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _resume(self) -> bytearray:
        have = bytearray(len(self.places))
        claimed = self._bitmap.read_bytes() if self._bitmap.exists() else b""
        self._incoming.mkdir(parents=True, exist_ok=True)
        for file in self.manifest.files:
            with (self._incoming / file.name).open("ab") as handle:
                handle.truncate(file.size_bytes)
        if len(claimed) == len(have):
            for index, place in enumerate(self.places):
                if claimed[index]:
                    with (self._incoming / place.name).open("rb") as handle:
                        data = os.pread(handle.fileno(), place.size_bytes, place.offset_bytes)
                    have[index] = hashlib.sha256(data).digest() == place.sha256
        return have

    def _verify_and_write(self, index: int, data: bytes) -> None:
        place = self.places[index]
        if len(data) != place.size_bytes or hashlib.sha256(data).digest() != place.sha256:
            raise ChunkWrong(f"chunk {index} of {self.content.hex()}")
        with (self._incoming / place.name).open("r+b") as handle:
            handle.seek(place.offset_bytes)
            handle.write(data)

    def _check_files(self) -> list[str]:
        return [file.name for file in self.manifest.files if sync_and_hash(self._incoming / file.name) != file.sha256]


def sync_and_hash(path: Path) -> bytes:
    """SHA-256 of a file, which is on disk when this returns."""
    digest = hashlib.sha256()
    with path.open("rb") as handle:
        os.fsync(handle.fileno())
        while block := handle.read(READ_BYTES):
            digest.update(block)
    return digest.digest()
