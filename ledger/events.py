"""Everything the contracts log, one class an event, with the Solidity event's name and fields.

Decides nothing. Amounts are wei, times unix seconds of the chain's clock.
"""

from __future__ import annotations

from dataclasses import dataclass

from ledger.types import Bar, CaseState, Kind, Outcome, PoolState, Role, Terms


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something a contract logged; (block, log_index) is unique and ordered."""

    block: int
    log_index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolEvent(Event):
    """Something that concerns one pool."""

    pool_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRegistered(Event):
    node: str
    staker: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StakeAdded(Event):
    node: str
    amount_wei: int
    stake_wei: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StakeBurnt(Event):
    """`amount_wei` was burnt; `stake_wei` is left at work."""

    node: str
    amount_wei: int
    stake_wei: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StakeLocked(Event):
    node: str
    amount_wei: int
    locked_wei: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StakeUnlocked(Event):
    node: str
    amount_wei: int
    locked_wei: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StakeWithdrawn(Event):
    node: str
    staker: str
    amount_wei: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UnbondingStarted(Event):
    """`amount_wei` more is on its way out."""

    node: str
    amount_wei: int
    matures_unix_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Blacklisted(PoolEvent):
    account: str
    bar: Bar
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainBlacklisted(Event):
    domain_id: int
    account: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainCreated(Event):
    domain_id: int
    owner: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainOwnerChanged(Event):
    domain_id: int
    owner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainOwnerOffered(Event):
    domain_id: int
    to: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainUnblacklisted(Event):
    domain_id: int
    account: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InviteCancelled(PoolEvent):
    node: str
    nonce: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinsPaused(PoolEvent):
    paused: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTaken(PoolEvent):
    manager: str
    epoch: int
    expires_unix_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerSet(PoolEvent):
    manager: str
    allowed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberEjected(PoolEvent):
    """`by` is the manager, who purged it, or the court after a verdict."""

    node: str
    by: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberJoined(PoolEvent):
    node: str
    role: Role
    nonce: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberLeft(PoolEvent):
    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolCreated(PoolEvent):
    domain_id: int
    owner: str
    terms: Terms


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolOwnerChanged(PoolEvent):
    owner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolOwnerOffered(PoolEvent):
    to: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolStateChanged(PoolEvent):
    state: PoolState


@dataclass(frozen=True, slots=True, kw_only=True)
class Unblacklisted(PoolEvent):
    account: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointAnnounced(PoolEvent):
    version: int
    manifest_hash: bytes
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionRecorded(PoolEvent):
    submission_id: bytes
    node: str
    step: int
    counter: int
    file_hash: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseClosed(PoolEvent):
    """OVERTURNED for the docket that was appealed makes it ACCEPTED."""

    docket_id: bytes
    node: str
    state: CaseState
    burnt_wei: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseOpened(PoolEvent):
    docket_id: bytes
    node: str
    amount_wei: int
    until_unix_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DocketOpened(PoolEvent):
    """`reason` and `evidence_hash` are an accusation's."""

    docket_id: bytes
    node: str
    kind: Kind
    reason: str
    evidence_hash: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeReached(PoolEvent):
    """A quorum agreed; `node` is the one judged, `reason` and `evidence_hash` are those of the deciding verdict."""

    docket_id: bytes
    node: str
    kind: Kind
    outcome: Outcome
    reason: str
    evidence_hash: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictCommitted(Event):
    docket_id: bytes
    validator: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictRevealed(Event):
    """One validator's answer, in full."""

    docket_id: bytes
    validator: str
    outcome: Outcome
    units: int
    reason: str
    evidence_hash: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class CreditClaimed(Event):
    node: str
    staker: str
    amount_wei: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FundsReclaimed(PoolEvent):
    owner: str
    amount_wei: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolFunded(PoolEvent):
    by: str
    amount_wei: int
    funds_wei: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkCredited(PoolEvent):
    """`amount_wei` is less than the units' price where the pool's funds ran out."""

    node: str
    units: int
    amount_wei: int
