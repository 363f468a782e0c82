"""Decides what a DHT record may say and who may say it.

Node and provider records by their subject, if the ledger admits it; run state by the manager of now. Pure: bytes,
clock, domain and who is admitted are arguments. It refuses records that are oversize, foreign to the run, of a
stranger, unsigned, forged, expired or dated beyond MAX_LIFETIME_S; nothing else in the project parses records.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass
from typing import Any

import msgpack
from eth_utils import is_checksum_address, keccak

from dht.admission import EVERYBODY
from dht.keys import node_key, provider_key, run_state_key
from dht.routes import Link
from dht.signing import RecordDomain, SignatureInvalid, Signer, recover, sign, typed_hash, word

MAX_RECORD_BYTES = 4_000
"""Most have below 1,000. What lies under one key travels in one message, of 4 MiB at most (hivemind's p2pd): a thousand
of the largest fit."""
DEFAULT_LIFETIME_S = 60.0  # P2P.md: 60 s to live, refreshed every 20 s
MAX_LIFETIME_S = 600.0
CLOCK_TOLERANCE_S = 5.0  # hivemind refuses peers beyond ±3 s at bootstrap
MAX_INTEGER = 2**63 - 1
MAX_DELTAS = 16  # of 60 bytes each
MAX_SEALED_BYTES = 2_700  # eight long addresses, see node/contact.py
RUN_STATE = "run-state"
ROLES = frozenset(("trainer", "worker", "validator", "relay"))
_RECORD_TYPE = (
    "Record(bytes32 salt,bytes32 runId,string kind,string key,address subject,"
    "bytes body,uint64 sequence,uint64 expires)"
)
_URL = re.compile(r"https?://[A-Za-z0-9.\-\[\]:]{1,200}")
_PEER_ID = re.compile(r"[1-9A-HJ-NP-Za-km-z]{20,128}")
_MULTIADDR = re.compile(r"(/[A-Za-z0-9.:%_\-]+)+")


class RecordInvalid(Exception):
    """A record that must be neither stored nor used; `reason` says which rule it breaks."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRecord:
    """Who is here: chain address, libp2p peer id, roles, libp2p multiaddrs, chunk server's base URL ("" if none).

    `sealed` holds the multiaddrs of a node that shows them to the pool's manager alone (see `node.contact`); `x25519`
    is the public key to seal to, 32 bytes in the manager's record.
    """

    address: str
    peer_id: str
    roles: tuple[str, ...]
    multiaddrs: tuple[str, ...]
    bulk_url: str
    sealed: bytes = b""
    x25519: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderRecord:
    """`address` serves `content` (SHA-256 of a blob, or a manifest id) at `bulk_url`."""

    address: str
    content: bytes
    bulk_url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStateRecord:
    """The manager's word: the step open for rollouts, the newest policy version and its manifest id.

    `epoch` is that of the manager's lease on the ledger; `state_hash` the manifest id of the newest trainer's state
    that is served (32 bytes, or none). `deltas` lead from one policy to another; nothing is believed of them, since
    what comes out must have the hash that the ledger has.
    """

    epoch: int
    open_step: int
    policy_version: int
    manifest_hash: bytes
    state_hash: bytes = b""
    deltas: tuple[Link, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Authority:
    """Whose run state counts, by the ledger: the manager's checksum address and the epoch of its lease."""

    manager: str
    epoch: int


RecordBody = NodeRecord | ProviderRecord | RunStateRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedRecord:
    """An envelope that was signed here or passed `open_record`; `content` is `body` parsed. Times are unix seconds."""

    run_id: bytes
    kind: str
    key: str
    subject: str
    body: bytes
    sequence: int
    expires_unix_s: int
    signature: bytes
    content: RecordBody


def storage_time(record: SignedRecord) -> float:
    """Unix seconds at which a directory may forget the record, with the sequence below the second.

    Directories order records of a subject by it, so a later sequence wins within one second; a publisher never lets a
    later sequence expire before an earlier one.
    """
    return record.expires_unix_s + (record.sequence % 1_000_000) / 1_048_576


def sign_record(
    body: RecordBody, *, domain: RecordDomain, account: Signer, sequence: int, expires_unix_s: int
) -> SignedRecord:
    """Signs `body` as `account`.

    Raises RecordInvalid when the body breaks the format (subject and expiry are checked on opening).
    """
    kind, fields = _fields(body)
    packed = msgpack.packb(fields)
    key = _check_body(kind, packed, domain.run_id, account.address)[1]
    digest = _digest(domain, kind, key, account.address, packed, sequence, expires_unix_s)
    return SignedRecord(
        run_id=domain.run_id, kind=kind, key=key, subject=account.address, body=packed, sequence=sequence,
        expires_unix_s=expires_unix_s, signature=sign(digest, account), content=body,
    )  # fmt: skip


def encode_record(record: SignedRecord) -> bytes:
    """The bytes that a directory stores."""
    return msgpack.packb([
        record.run_id, record.kind, record.key, record.subject, record.body,
        record.sequence, record.expires_unix_s, record.signature,
    ])  # fmt: skip


def open_record(
    data: bytes, *, domain: RecordDomain, authority: Authority, now_unix_s: float, admitted: Container[str] = EVERYBODY
) -> SignedRecord:
    """Parses and checks stored bytes by the receiver's clock, CLOCK_TOLERANCE_S either way; what costs least first.

    A run state is `authority`'s to sign, in its present lease: what a former manager still says, or what this one said
    in an earlier lease, is refused. Other records come from whoever is `admitted`, or the manager.

    Raises RecordInvalid(reason).
    """
    if len(data) > MAX_RECORD_BYTES:
        raise RecordInvalid(f"oversize: {len(data)} bytes, limit {MAX_RECORD_BYTES}")
    run_id, kind, key, subject, body, sequence, expires, signature = _unpack(
        data, (bytes, str, str, str, bytes, int, int, bytes), "envelope"
    )
    if run_id != domain.run_id:
        raise RecordInvalid("foreign run")
    if not is_checksum_address(subject):
        raise RecordInvalid("subject is not a checksum address")
    if not (0 <= sequence <= MAX_INTEGER and 0 <= expires <= MAX_INTEGER):
        raise RecordInvalid("sequence or expiry out of range")
    if now_unix_s > expires + CLOCK_TOLERANCE_S:
        raise RecordInvalid("expired")
    if expires > now_unix_s + MAX_LIFETIME_S + CLOCK_TOLERANCE_S:
        raise RecordInvalid(f"expiry is more than {MAX_LIFETIME_S:.0f} s ahead")
    if kind != RUN_STATE and subject != authority.manager and subject not in admitted:
        raise RecordInvalid(f"the ledger shows no such stake for {subject} as the pool asks for")
    content, expected_key = _check_body(kind, body, run_id, subject)
    if key != expected_key:
        raise RecordInvalid("key does not belong to the body")
    if isinstance(content, RunStateRecord):
        if subject != authority.manager:
            raise RecordInvalid(f"run state is the manager's to sign, {authority.manager}, not {subject}'s")
        if content.epoch < authority.epoch:
            raise RecordInvalid(f"run state of lease {content.epoch}, where the ledger has lease {authority.epoch}")
    try:
        signer = recover(_digest(domain, kind, key, subject, body, sequence, expires), signature)
    except SignatureInvalid as error:
        raise RecordInvalid(f"signature: {error}") from error
    if signer != subject:
        raise RecordInvalid("forged: not signed by its subject")
    return SignedRecord(
        run_id=run_id, kind=kind, key=key, subject=subject, body=body, sequence=sequence,
        expires_unix_s=expires, signature=signature, content=content,
    )  # fmt: skip


def _digest(
    domain: RecordDomain, kind: str, key: str, subject: str, body: bytes, sequence: int, expires_unix_s: int
) -> bytes:
    return typed_hash(domain, _RECORD_TYPE, (
        domain.salt, domain.run_id, keccak(text=kind), keccak(text=key), word(subject), keccak(body),
        word(sequence), word(expires_unix_s),
    ))  # fmt: skip


def _fields(body: RecordBody) -> tuple[str, list[Any]]:
    match body:
        case NodeRecord():
            return "node", [
                body.address, body.peer_id, list(body.roles), list(body.multiaddrs), body.bulk_url, body.sealed,
                body.x25519,
            ]  # fmt: skip
        case ProviderRecord():
            return "provider", [body.address, body.content, body.bulk_url]
        case RunStateRecord():
            numbers = [body.epoch, body.open_step, body.policy_version]
            deltas = [[link.base, link.result, link.size_bytes, link.content] for link in body.deltas]
            return RUN_STATE, [*numbers, body.manifest_hash, body.state_hash, deltas]


def _check_body(kind: str, body: bytes, run_id: bytes, subject: str) -> tuple[RecordBody, str]:
    """The parsed body and the key it belongs under; RecordInvalid if it is malformed or speaks for another address."""
    parse = _PARSERS.get(kind)
    if parse is None:
        raise RecordInvalid(f"unknown kind {kind[:40]!r}")
    content, key = parse(body, run_id)
    if not isinstance(content, RunStateRecord) and content.address != subject:
        raise RecordInvalid("body speaks for another address than its subject")
    return content, key


def _parse_node(body: bytes, run_id: bytes) -> tuple[RecordBody, str]:
    address, peer_id, roles, multiaddrs, bulk_url, sealed, x25519 = _unpack(
        body, (str, str, list, list, str, bytes, bytes), "node body"
    )
    _require(is_checksum_address(address), "address")
    _require(_PEER_ID.fullmatch(peer_id) is not None, "peer id")
    _require(len(roles) <= len(ROLES) and all(isinstance(r, str) and r in ROLES for r in roles), "roles")
    _require(len(multiaddrs) <= 8 and all(isinstance(a, str) and len(a) <= 256 for a in multiaddrs), "multiaddrs")
    _require(all(_MULTIADDR.fullmatch(a) for a in multiaddrs), "multiaddrs")
    _require(bulk_url == "" or _URL.fullmatch(bulk_url) is not None, "bulk url")
    _require(len(sealed) <= MAX_SEALED_BYTES, "sealed contact")
    _require(len(x25519) in (0, 32), "x25519 key")
    record = NodeRecord(
        address=address, peer_id=peer_id, roles=tuple(roles), multiaddrs=tuple(multiaddrs), bulk_url=bulk_url,
        sealed=sealed, x25519=x25519,
    )  # fmt: skip
    return record, node_key(run_id, address)


def _parse_provider(body: bytes, run_id: bytes) -> tuple[RecordBody, str]:
    address, content, bulk_url = _unpack(body, (str, bytes, str), "provider body")
    _require(len(content) == 32, "content")
    _require(_URL.fullmatch(bulk_url) is not None, "bulk url")
    return ProviderRecord(address=address, content=content, bulk_url=bulk_url), provider_key(run_id, content)


def _parse_run_state(body: bytes, run_id: bytes) -> tuple[RecordBody, str]:
    types = (int, int, int, bytes, bytes, list)
    epoch, open_step, policy_version, manifest_hash, state_hash, deltas = _unpack(body, types, "run state body")
    _require(all(0 <= number <= MAX_INTEGER for number in (epoch, open_step, policy_version)), "epoch, step or version")
    _require(len(manifest_hash) == 32, "manifest hash")
    _require(len(state_hash) in (0, 32), "state hash")
    record = RunStateRecord(
        epoch=epoch, open_step=open_step, policy_version=policy_version, manifest_hash=manifest_hash,
        state_hash=state_hash, deltas=tuple(_parse_deltas(deltas)),
    )  # fmt: skip
    return record, run_state_key(run_id)


def _parse_deltas(deltas: list[Any]) -> Iterator[Link]:
    _require(len(deltas) <= MAX_DELTAS, "deltas")
    for item in deltas:
        _require(isinstance(item, list) and [type(field) for field in item] == [int, int, int, bytes], "delta")
        base, result, size_bytes, content = item
        _require(0 <= base < result <= MAX_INTEGER and 0 < size_bytes <= MAX_INTEGER, "delta")
        _require(len(content) == 32, "delta")
        yield Link(base=base, result=result, size_bytes=size_bytes, content=content)


_PARSERS: dict[str, Callable[[bytes, bytes], tuple[RecordBody, str]]] = {
    "node": _parse_node, "provider": _parse_provider, RUN_STATE: _parse_run_state,
}  # fmt: skip


def _require(condition: bool, what: str) -> None:
    if not condition:
        raise RecordInvalid(f"malformed {what}")


def _unpack(data: bytes, types: tuple[type, ...], what: str) -> list[Any]:
    try:
        values = msgpack.unpackb(data, raw=False)
    except Exception as error:  # msgpack raises a dozen unrelated types on hostile input
        raise RecordInvalid(f"malformed {what}: {error!r}") from error
    if not isinstance(values, list) or [type(value) for value in values] != list(types):
        raise RecordInvalid(f"malformed {what}: wrong fields")
    return values
