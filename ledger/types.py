"""What the chain says, as values. Addresses are checksum strings, hashes are 32 bytes, amounts are wei.

Decides only how a short ASCII code fits a bytes32. Knows no RPC, no keys and no files.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Role(IntEnum):
    """A pool member's role; the trainer is no member but the pool's manager."""

    NONE = 0
    WORKER = 1
    VALIDATOR = 2
    RELAY = 3


class Outcome(IntEnum):
    """What became of a submission."""

    PENDING = 0
    ACCEPTED = 1
    REJECTED = 2
    LATE = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    domain_id: int
    owner: str
    pending_owner: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """A compute pool; each rejection burns up to `slash_wei` of a member's stake."""

    pool_id: int
    domain_id: int
    owner: str
    pending_owner: str
    manager: str
    min_stake_wei: int
    slash_wei: int
    member_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """An address's standing in one pool; `nonce` is that of the only invite that is still good for it."""

    address: str
    role: Role
    active: bool
    ejected: bool
    nonce: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A registered machine; its stake cannot be taken back while `holds` (memberships, unjudged work) is not 0."""

    address: str
    registered: bool
    stake_wei: int
    holds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Invite:
    """Leave to join, good through second `expires_unix_s` of chain time; `nonce` must equal `Member.nonce`."""

    node: str
    pool_id: int
    domain_id: int
    role: Role
    nonce: int
    expires_unix_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    version: int
    manifest_hash: bytes
    block: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """One worker's recorded file for (step, counter); `file_hash` is the file's SHA-256."""

    submission_id: bytes
    pool_id: int
    step: int
    counter: int
    node: str
    file_hash: bytes
    block: int
    time_unix_s: int
    outcome: Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something a contract logged; (block, log_index) is unique and ordered."""

    block: int
    log_index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRegistered(Event):
    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StakeAdded(Event):
    node: str
    amount_wei: int
    stake_wei: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StakeWithdrawn(Event):
    node: str
    amount_wei: int
    stake_wei: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StakeSlashed(Event):
    """`amount_wei` was burnt; `stake_wei` is left."""

    node: str
    amount_wei: int
    stake_wei: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainCreated(Event):
    domain_id: int
    owner: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolCreated(Event):
    pool_id: int
    domain_id: int
    owner: str
    manager: str
    min_stake_wei: int
    slash_wei: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolOwnerChanged(Event):
    pool_id: int
    owner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerChanged(Event):
    pool_id: int
    manager: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InvitesRevoked(Event):
    pool_id: int
    node: str
    next_nonce: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberJoined(Event):
    pool_id: int
    node: str
    role: Role
    nonce: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberLeft(Event):
    pool_id: int
    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberEjected(Event):
    """`by` is the manager, or the run ledger's address after a rejection."""

    pool_id: int
    node: str
    by: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointAnnounced(Event):
    pool_id: int
    version: int
    manifest_hash: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionRecorded(Event):
    pool_id: int
    submission_id: bytes
    node: str
    step: int
    counter: int
    file_hash: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictGiven(Event):
    """The final verdict on a submission; `node` is the submitter, `reason` a short ASCII code."""

    pool_id: int
    submission_id: bytes
    node: str
    validator: str
    outcome: Outcome
    reason: str
    evidence_hash: bytes


def reason_bytes(code: str) -> bytes:
    """A reason code as bytes32; ValueError unless it is ASCII of at most 32 bytes."""
    raw = code.encode("ascii")
    if len(raw) > 32:
        raise ValueError(f"reason code longer than 32 bytes: {code}")
    return raw.ljust(32, b"\0")


def reason_text(raw: bytes) -> str:
    """The code in a bytes32; bytes that are not ASCII are shown escaped, for any validator may write them."""
    return raw.rstrip(b"\0").decode("ascii", "backslashreplace")
