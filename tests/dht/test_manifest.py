"""A hostile manifest is refused as a whole, before anything is allocated for it."""

from __future__ import annotations

import hashlib
from typing import Any

import msgpack
import pytest
from eth_account.signers.local import LocalAccount
from eth_utils import keccak

from dht.manifest import (
    MAX_MANIFEST_BYTES,
    Manifest,
    ManifestInvalid,
    chunk_places,
    cut,
    encode_body,
    encode_manifest,
    open_manifest,
    sign_manifest,
)
from dht.signing import RecordDomain, sign, typed_hash, word

SIZE = 1024


def manifest_of(domain: RecordDomain, files: dict[str, bytes]) -> Manifest:
    entries = tuple(
        cut(name, (data[start : start + SIZE] for start in range(0, len(data), SIZE))) for name, data in files.items()
    )
    return Manifest(run_id=domain.run_id, version=3, chunk_size_bytes=SIZE, files=entries, signature=b"")


def test_cut_sign_open(domain: RecordDomain, accounts: list[LocalAccount]) -> None:
    files = {"a.bin": b"x" * 2500, "b": b"", "c.json": b"{}"}
    body = encode_body(manifest_of(domain, files))
    data = encode_manifest(body, sign_manifest(body, domain=domain, account=accounts[0]))
    opened = open_manifest(data, domain=domain, manager=accounts[0].address)
    assert (opened.version, opened.size_bytes, encode_body(opened)) == (3, 2502, body)
    places = chunk_places(opened)
    assert [(p.name, p.offset_bytes, p.size_bytes) for p in places] == [
        ("a.bin", 0, 1024), ("a.bin", 1024, 1024), ("a.bin", 2048, 452), ("c.json", 0, 2)
    ]  # fmt: skip
    for place in places:
        piece = files[place.name][place.offset_bytes : place.offset_bytes + place.size_bytes]
        assert hashlib.sha256(piece).digest() == place.sha256


def hostile(domain: RecordDomain, account: LocalAccount, **changes: Any) -> bytes:
    """A manifest that a malicious manager really signed, whatever it says."""
    fields = {"run_id": domain.run_id, "version": 1, "chunk_size": SIZE, "files": [["a", 5, b"h" * 32, b"h" * 32]]}
    fields |= changes
    body = msgpack.packb(list(fields.values()))
    version = fields["version"] if isinstance(fields["version"], int) and fields["version"] >= 0 else 0
    struct = "Manifest(bytes32 salt,bytes32 runId,uint64 version,bytes body)"
    digest = typed_hash(domain, struct, (domain.salt, domain.run_id, word(version), keccak(body)))
    return encode_manifest(body, sign(digest, account))


def entry(**changes: Any) -> list[Any]:
    return list(({"name": "a", "size": 5, "sha256": b"h" * 32, "chunks": b"h" * 32} | changes).values())


def test_the_hostile_maker_makes_valid_ones_too(domain: RecordDomain, accounts: list[LocalAccount]) -> None:
    assert open_manifest(hostile(domain, accounts[0]), domain=domain, manager=accounts[0].address).version == 1


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
        ({"run_id": b"q"}, "run id"), ({"files": 7}, "wrong fields"),
    ],
)  # fmt: skip
def test_hostile_manifests(
    domain: RecordDomain, accounts: list[LocalAccount], changes: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ManifestInvalid, match=reason):
        open_manifest(hostile(domain, accounts[0], **changes), domain=domain, manager=accounts[0].address)


def test_signed_by_another(domain: RecordDomain, accounts: list[LocalAccount]) -> None:
    with pytest.raises(ManifestInvalid, match="forged"):
        open_manifest(hostile(domain, accounts[1]), domain=domain, manager=accounts[0].address)


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x92\xc4\x00\xc4\x00", bytes(MAX_MANIFEST_BYTES + 1)])
def test_hostile_bytes(domain: RecordDomain, accounts: list[LocalAccount], data: bytes) -> None:
    with pytest.raises(ManifestInvalid):
        open_manifest(data, domain=domain, manager=accounts[0].address)
