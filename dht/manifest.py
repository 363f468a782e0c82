"""Decides how a checkpoint is described: flat files cut into hashed chunks, named by the SHA-256 of the description.

A manifest carries no signature. It is believed for its hash alone, and the hash for who named it: the pool's manager
of that time on the ledger (a policy), or the manager of now in its signed run state (a trainer's state). So manifests
of earlier managers stay good, and whoever computes the same files may serve them under the same name. Pure: bytes in,
values out. A hostile manifest is refused as a whole before anything is allocated for it: names that leave the folder,
duplicate or absurd sizes, chunk lists that do not fit, another run or kind than asked for.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import msgpack

CHUNK_SIZE_BYTES = 4 * 1024 * 1024  # P2P.md: 16 MiB chunks cost four times the memory for less speed
MIN_CHUNK_SIZE_BYTES, MAX_CHUNK_SIZE_BYTES = 1024, 16 * 1024 * 1024
MAX_MANIFEST_BYTES = 16 * 1024 * 1024
MAX_FILES = 512
MAX_CHECKPOINT_BYTES = 4 * 1024**4
MAX_VERSION = 2**63 - 1
POLICY, TRAINER_STATE, DELTA = "policy", "trainer-state", "delta"
KINDS = (POLICY, TRAINER_STATE, DELTA)
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._\-]{0,127}")


class ManifestInvalid(Exception):
    """A manifest that must not be used; `reason` says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEntry:
    """One flat file: name, size, SHA-256 of the whole, SHA-256 of each chunk in order (the last one may be short)."""

    name: str
    size_bytes: int
    sha256: bytes
    chunks: tuple[bytes, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The files of policy `version` (`kind` POLICY), of the trainer's state that goes with it, or of a delta to it."""

    run_id: bytes
    kind: str
    version: int
    chunk_size_bytes: int
    files: tuple[FileEntry, ...]

    @property
    def size_bytes(self) -> int:
        """Bytes of all files together."""
        return sum(file.size_bytes for file in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkPlace:
    """Where a chunk belongs: its file, offset and length in bytes, and the SHA-256 it must have."""

    name: str
    offset_bytes: int
    size_bytes: int
    sha256: bytes


def chunk_places(manifest: Manifest) -> tuple[ChunkPlace, ...]:
    """All chunks in index order; indices count through the files as listed, and no chunk spans two files."""
    return tuple(
        ChunkPlace(
            name=file.name, offset_bytes=number * manifest.chunk_size_bytes, sha256=digest,
            size_bytes=min(manifest.chunk_size_bytes, file.size_bytes - number * manifest.chunk_size_bytes),
        )
        for file in manifest.files for number, digest in enumerate(file.chunks)
    )  # fmt: skip


def cut(name: str, pieces: Iterable[bytes]) -> FileEntry:
    """Describes a file from its consecutive chunks (every one of the chunk size but the last)."""
    whole, chunks, size = hashlib.sha256(), [], 0
    for piece in pieces:
        whole.update(piece)
        chunks.append(hashlib.sha256(piece).digest())
        size += len(piece)
    return FileEntry(name=name, size_bytes=size, sha256=whole.digest(), chunks=tuple(chunks))


def encode_manifest(manifest: Manifest) -> bytes:
    """The manifest as it travels; its id is `manifest_id` of these bytes."""
    files = [[f.name, f.size_bytes, f.sha256, b"".join(f.chunks)] for f in manifest.files]
    return msgpack.packb([manifest.run_id, manifest.kind, manifest.version, manifest.chunk_size_bytes, files])


def manifest_id(data: bytes) -> bytes:
    """32 bytes: SHA-256 of the encoded manifest, as announced on the ledger."""
    return hashlib.sha256(data).digest()


def open_manifest(data: bytes, *, run_id: bytes) -> Manifest:
    """Parses and checks an encoded manifest: bounds, shape and run. Raises ManifestInvalid."""
    found_id, kind, version, chunk_size, files = _fields(data, (bytes, str, int, int, list))
    if found_id != run_id:
        raise ManifestInvalid("foreign run")
    _require(kind in KINDS, "kind")
    _require(0 <= version <= MAX_VERSION, "version")
    _require(MIN_CHUNK_SIZE_BYTES <= chunk_size <= MAX_CHUNK_SIZE_BYTES, "chunk size")
    _require(0 < len(files) <= MAX_FILES, "number of files")
    entries = tuple(_decode_files(files, chunk_size))
    _require(len({entry.name.lower() for entry in entries}) == len(entries), "names: duplicate")
    _require(sum(entry.size_bytes for entry in entries) <= MAX_CHECKPOINT_BYTES, "size")
    return Manifest(run_id=run_id, kind=kind, version=version, chunk_size_bytes=chunk_size, files=entries)


def check_asked(manifest: Manifest, *, kind: str, max_bytes: int) -> None:
    """Raise ManifestInvalid unless the manifest is of the kind asked for and no larger."""
    if manifest.kind != kind:
        raise ManifestInvalid(f"a {manifest.kind}, where a {kind} was asked for")
    if manifest.size_bytes > max_bytes:
        raise ManifestInvalid(f"oversize: files of {manifest.size_bytes} bytes, limit {max_bytes}")


def _decode_files(files: list[Any], chunk_size: int) -> Iterator[FileEntry]:
    for item in files:
        _require(isinstance(item, list) and [type(field) for field in item] == [str, int, bytes, bytes], "file entry")
        name, size, sha256, hashes = item
        _require(_NAME.fullmatch(name) is not None, "file name")
        _require(0 <= size <= MAX_CHECKPOINT_BYTES, "file size")
        _require(len(sha256) == 32 and len(hashes) == 32 * -(-size // chunk_size), "hashes: wrong number")
        chunks = tuple(hashes[start : start + 32] for start in range(0, len(hashes), 32))
        yield FileEntry(name=name, size_bytes=size, sha256=sha256, chunks=chunks)


def _fields(data: bytes, types: tuple[type, ...]) -> list[Any]:
    if len(data) > MAX_MANIFEST_BYTES:
        raise ManifestInvalid(f"oversize: {len(data)} bytes, limit {MAX_MANIFEST_BYTES}")
    try:
        values = msgpack.unpackb(data, raw=False)
    except Exception as error:  # msgpack raises a dozen unrelated types on hostile input
        raise ManifestInvalid(f"malformed: {error!r}") from error
    if not isinstance(values, list) or [type(value) for value in values] != list(types):
        raise ManifestInvalid("malformed: wrong fields")
    return values


def _require(condition: bool, what: str) -> None:
    if not condition:
        raise ManifestInvalid(f"malformed {what}")
