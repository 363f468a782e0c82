"""A hostile manifest is refused as a whole, before anything is allocated for it."""

from __future__ import annotations

import hashlib
from typing import Any

import msgpack
import pytest

from dht.manifest import (
    MAX_MANIFEST_BYTES,
    POLICY,
    TRAINER_STATE,
    Manifest,
    ManifestInvalid,
    check_asked,
    chunk_places,
    cut,
    encode_manifest,
    open_manifest,
)

SIZE = 1024
RUN = b"r" * 32


def manifest_of(files: dict[str, bytes]) -> Manifest:
    entries = tuple(
        cut(name, (data[start : start + SIZE] for start in range(0, len(data), SIZE))) for name, data in files.items()
    )
    return Manifest(run_id=RUN, kind=POLICY, version=3, chunk_size_bytes=SIZE, files=entries)


def test_cut_and_open() -> None:
    files = {"a.bin": b"x" * 2500, "b": b"", "c.json": b"{}"}
    made = manifest_of(files)
    opened = open_manifest(encode_manifest(made), run_id=RUN)
    assert opened == made
    assert opened.size_bytes == 2502
    places = chunk_places(opened)
    assert [(p.name, p.offset_bytes, p.size_bytes) for p in places] == [
        ("a.bin", 0, 1024), ("a.bin", 1024, 1024), ("a.bin", 2048, 452), ("c.json", 0, 2)
    ]  # fmt: skip
    for place in places:
        piece = files[place.name][place.offset_bytes : place.offset_bytes + place.size_bytes]
        assert hashlib.sha256(piece).digest() == place.sha256


def hostile(**changes: Any) -> bytes:
    """A manifest that a malicious manager really announced, whatever it says."""
    fields = {"run_id": RUN, "kind": POLICY, "version": 1, "chunk_size": SIZE}
    return msgpack.packb(list((fields | {"files": [["a", 5, b"h" * 32, b"h" * 32]]} | changes).values()))


def entry(**changes: Any) -> list[Any]:
    return list(({"name": "a", "size": 5, "sha256": b"h" * 32, "chunks": b"h" * 32} | changes).values())


def test_the_hostile_maker_makes_valid_ones_too() -> None:
    assert open_manifest(hostile(), run_id=RUN).version == 1


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        *[({"files": [entry(name=name)]}, "file name") for name in
          ("", ".", "..", "../a", "a/b", "/etc/passwd", ".hidden", "a\0b", "a" * 129, "a\\b", "ä", "a\n")],
        ({"files": [entry(), entry()]}, "duplicate"),
        ({"files": [entry(name="a"), entry(name="A")]}, "duplicate"),
        ({"files": []}, "number of files"),
        ({"files": [entry(name=str(n)) for n in range(513)]}, "number of files"),
        ({"files": [entry(size=2**62)]}, "file size"),
        ({"files": [entry(size=-1)]}, "file size"),
        ({"files": [entry(size=2**40)]}, "wrong number"),
        ({"files": [entry(size=5000)]}, "wrong number"),
        ({"files": [entry(size=0)]}, "wrong number"),
        ({"files": [entry(chunks=b"h" * 33)]}, "wrong number"),
        ({"files": [entry(sha256=b"h")]}, "wrong number"),
        ({"files": [entry(size="5")]}, "file entry"),
        ({"files": ["a"]}, "file entry"),
        ({"chunk_size": 1}, "chunk size"), ({"chunk_size": 0}, "chunk size"), ({"chunk_size": 2**40}, "chunk size"),
        ({"version": -1}, "version"), ({"version": 2**63}, "version"), ({"run_id": b"q" * 32}, "foreign run"),
        ({"kind": "poem"}, "kind"), ({"files": 7}, "wrong fields"), ({"kind": 1}, "wrong fields"),
    ],
)  # fmt: skip
def test_hostile_manifests(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(ManifestInvalid, match=reason):
        open_manifest(hostile(**changes), run_id=RUN)


def test_another_kind_or_more_bytes_than_asked_for() -> None:
    manifest = open_manifest(hostile(), run_id=RUN)
    check_asked(manifest, kind=POLICY, max_bytes=5)
    with pytest.raises(ManifestInvalid, match="a policy, where a trainer-state"):
        check_asked(manifest, kind=TRAINER_STATE, max_bytes=5)
    with pytest.raises(ManifestInvalid, match="oversize"):
        check_asked(manifest, kind=POLICY, max_bytes=4)


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x92\xc4\x00\xc4\x00", bytes(MAX_MANIFEST_BYTES + 1)])
def test_hostile_bytes(data: bytes) -> None:
    with pytest.raises(ManifestInvalid):
        open_manifest(data, run_id=RUN)
