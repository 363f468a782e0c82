"""Decides how a policy travels as what has changed since another one: one file, streamed, bound to both by hash.

    magic, length and msgpack [id of the base, id of the result, [how each file of the result comes about]], then for
    each file in the manifest's order: nothing (SAME), its bytes (WHOLE), or the changes of one run of numbers after
    another (CHANGED: safetensors with an equal header), each with its length.

A delta claims nothing that is believed: its result must have the SHA-256 that the result's manifest says, file by file,
and that manifest is named on the ledger. So anybody may serve one. Applied to another base, or made for another
result, it is refused before anything is computed. Memory is bounded by RUN numbers, whatever the policy's size. It
refuses to choose which delta to take (`dht.routes`) and to fetch.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

import msgpack
import numpy as np

from dht.manifest import FileEntry, Manifest
from dht.patterns import BYTES, LAYOUTS, Layout, PatternInvalid, decode, encode

MAGIC: Final = b"intellect-node/delta/1\n"
SAME, WHOLE, CHANGED = "same", "whole", "changed"
RUN: Final = 1 << 21
"""Numbers that are coded together. 2^21 cost 0.5 % more bytes than 2^22, and half the memory."""
RUN_SLACK_BYTES: Final = 4096
MAX_HEADER_BYTES: Final = 1 << 20
MAX_TENSOR_TABLE_BYTES: Final = 16 << 20
COPY_BYTES: Final = 1 << 20


class DeltaInvalid(Exception):
    """A delta that must not be used; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """A policy on this disk: its manifest, the manifest's id, and the folder with its verified files."""

    content: bytes
    manifest: Manifest
    folder: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """`count` numbers of one layout from byte `start` of a file."""

    start: int
    count: int
    layout: Layout

    @property
    def size_bytes(self) -> int:
        return self.count * np.dtype(self.layout.dtype).itemsize


def write_delta(path: Path, *, base: Version, result: Version) -> int:
    """Write what makes `result` of `base` to a new file; returns its size in bytes."""
    olds = {entry.name: entry for entry in base.manifest.files}
    ways = [_way(olds.get(entry.name), entry, base.folder, result.folder) for entry in result.manifest.files]
    header = msgpack.packb([base.content, result.content, ways])
    with path.open("xb") as out:
        out.write(MAGIC + len(header).to_bytes(4, "little") + header)
        for entry, way in zip(result.manifest.files, ways, strict=True):
            new = result.folder / entry.name
            if way == WHOLE:
                with new.open("rb") as source:
                    while block := source.read(COPY_BYTES):
                        out.write(block)
            elif way == CHANGED:
                _write_changes(out, base.folder / entry.name, new)
        return out.tell()


def _way(old: FileEntry | None, new: FileEntry, old_folder: Path, new_folder: Path) -> str:
    if old is not None and old.sha256 == new.sha256:
        return SAME
    if old is None or old.size_bytes != new.size_bytes or not new.name.endswith(".safetensors"):
        return WHOLE
    tables = [_tensor_table(folder / new.name) for folder in (old_folder, new_folder)]
    return CHANGED if tables[0] is not None and tables[0] == tables[1] else WHOLE


def _write_changes(out: BinaryIO, old_path: Path, new_path: Path) -> None:
    with old_path.open("rb") as old, new_path.open("rb") as new:
        for run in _runs(old_path):
            data = encode(_numbers(old, run), _numbers(new, run), run.layout)
            out.write(len(data).to_bytes(4, "little") + data)


def apply_delta(path: Path, *, base: Version, content: bytes, manifest: Manifest, target: Path) -> None:
    """Write the files of the policy `content`, whose manifest is `manifest`, into the existing folder `target`.

    Files that are there are overwritten. Raises DeltaInvalid; what was written then is of no use.
    """
    with path.open("rb") as source:
        ways = _open(source, base=base, content=content, manifest=manifest)
        for entry, way in zip(manifest.files, ways, strict=True):
            digest = hashlib.sha256()
            with (target / entry.name).open("wb") as out:
                for piece in _pieces(source, entry, way, base.folder / entry.name):
                    digest.update(piece)
                    out.write(piece)
                out.flush()
                os.fsync(out.fileno())
                if out.tell() != entry.size_bytes or digest.digest() != entry.sha256:
                    raise DeltaInvalid(f"what it makes of {entry.name} is not what the manifest names")
        if source.read(1):
            raise DeltaInvalid("more follows than it says")


def _open(source: BinaryIO, *, base: Version, content: bytes, manifest: Manifest) -> list[str]:
    """How each file comes about."""
    if source.read(len(MAGIC)) != MAGIC:
        raise DeltaInvalid("not a delta")
    size = int.from_bytes(_exactly(source, 4), "little")
    if size > MAX_HEADER_BYTES:
        raise DeltaInvalid(f"a header of {size} bytes")
    try:
        fields = msgpack.unpackb(_exactly(source, size), raw=False)
    except Exception as error:  # msgpack raises a dozen unrelated types on hostile input
        raise DeltaInvalid(f"malformed header: {error!r}") from error
    if not isinstance(fields, list) or [type(field) for field in fields] != [bytes, bytes, list]:
        raise DeltaInvalid("malformed header: wrong fields")
    if fields[0] != base.content:
        raise DeltaInvalid(f"it changes {fields[0].hex()[:64]}, not {base.content.hex()}")
    if fields[1] != content:
        raise DeltaInvalid(f"it makes {fields[1].hex()[:64]}, not {content.hex()}")
    ways, olds = fields[2], {entry.name: entry for entry in base.manifest.files}
    if len(ways) != len(manifest.files):
        raise DeltaInvalid("another number of files than the manifest")
    for entry, way in zip(manifest.files, ways, strict=True):
        if way not in (SAME, WHOLE, CHANGED):
            raise DeltaInvalid("malformed header: unknown way")
        if way != WHOLE and (entry.name not in olds or olds[entry.name].size_bytes != entry.size_bytes):
            raise DeltaInvalid(f"the base has no {entry.name} of that size")
    return ways


def _pieces(source: BinaryIO, entry: FileEntry, way: str, old_path: Path) -> Iterator[bytes | memoryview]:
    """The bytes of one file of the result."""
    if way == CHANGED:
        yield from _changed(source, old_path)
        return
    if way == WHOLE:
        yield from _copied(source, entry.size_bytes)
        return
    with old_path.open("rb") as old:
        yield from _copied(old, entry.size_bytes)


def _copied(source: BinaryIO, size: int) -> Iterator[bytes]:
    while size:
        block = _exactly(source, min(size, COPY_BYTES))
        size -= len(block)
        yield block


def _changed(source: BinaryIO, old_path: Path) -> Iterator[bytes | memoryview]:
    table = _tensor_table(old_path)
    if table is None:
        raise DeltaInvalid(f"{old_path.name} of the base is no safetensors file")
    yield table
    with old_path.open("rb") as old:
        for run in _runs(old_path):
            size = int.from_bytes(_exactly(source, 4), "little")
            if size > 2 * run.size_bytes + RUN_SLACK_BYTES:
                raise DeltaInvalid(f"{size} bytes for the changes of {run.size_bytes}")
            try:
                yield decode(_numbers(old, run), _exactly(source, size), run.layout).data.cast("B")
            except PatternInvalid as fault:
                raise DeltaInvalid(str(fault)) from fault


def _numbers(source: BinaryIO, run: _Run) -> np.ndarray:
    source.seek(run.start)
    return np.frombuffer(_exactly(source, run.size_bytes), dtype=run.layout.dtype)


def _exactly(source: BinaryIO, size: int) -> bytes:
    data = source.read(size)
    if len(data) != size:
        raise DeltaInvalid("truncated")
    return data


def _tensor_table(path: Path) -> bytes | None:
    """The first bytes of a safetensors file, up to the numbers; None where there is no such file or table."""
    try:
        with path.open("rb") as file:
            length = file.read(8)
            size = int.from_bytes(length, "little")
            table = file.read(size) if len(length) == 8 and size <= MAX_TENSOR_TABLE_BYTES else b""
    except FileNotFoundError:
        return None
    return length + table if len(table) == size else None


def _runs(path: Path) -> Iterator[_Run]:
    """All numbers of a safetensors file in order, those of one type that lie side by side together, in runs.

    What the table does not explain is taken as bytes, so that both sides come to the same runs whatever it says.
    """
    table = _tensor_table(path) or b""
    at, end = len(table), path.stat().st_size
    for start, stop, layout in _spans(table, end):
        if at < start:
            yield from _cut(at, start, BYTES)
        yield from _cut(start, stop, layout)
        at = stop
    yield from _cut(at, end, BYTES)


def _spans(table: bytes, end: int) -> list[tuple[int, int, Layout]]:
    """Where numbers of one layout lie, in order and without overlap; what is odd is left out."""
    try:
        entries = json.loads(table[8:])
        found = sorted(
            (len(table) + first, len(table) + last, entry["dtype"])
            for name, entry in entries.items() if name != "__metadata__"
            for first, last in (entry["data_offsets"],)
        )  # fmt: skip
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return []
    spans: list[tuple[int, int, Layout]] = []
    at = len(table)
    for start, stop, name in found:
        layout = LAYOUTS.get(name) if isinstance(name, str) else None
        if layout is None or type(start) is not int or type(stop) is not int or not at <= start < stop <= end:
            continue
        if (stop - start) % np.dtype(layout.dtype).itemsize:
            continue
        if spans and spans[-1][1] == start and spans[-1][2] is layout:
            start = spans.pop()[0]
        spans.append((start, stop, layout))
        at = stop
    return spans


def _cut(start: int, stop: int, layout: Layout) -> Iterator[_Run]:
    size = np.dtype(layout.dtype).itemsize
    for first in range(start, stop, RUN * size):
        yield _Run(start=first, count=min(RUN, (stop - first) // size), layout=layout)
