"""What the chain says, as values. Addresses are checksum strings, hashes are 32 bytes, amounts are wei.

Decides only how a short ASCII code fits a bytes32. Knows no RPC, no keys and no files. Times are unix seconds of the
chain's clock. Fields mean what contracts/src/interfaces says of the members with the same names.
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


class Bar(IntEnum):
    """Whether, and by whom, an account is kept out of a pool."""

    NONE = 0
    BY_VERDICT = 1
    BY_MANAGER = 2


class PoolState(IntEnum):
    """Members join and work only in an active pool."""

    PENDING = 0
    ACTIVE = 1
    ENDED = 2


class Kind(IntEnum):
    """What a docket asks the validators about."""

    NONE = 0
    SUBMISSION = 1
    ACCUSATION = 2
    APPEAL = 3


class Outcome(IntEnum):
    """What became of a docket; of accusations and appeals REJECTED means guilty, ACCEPTED not guilty."""

    PENDING = 0
    ACCEPTED = 1
    REJECTED = 2
    LATE = 3


class CaseState(IntEnum):
    """Where a rejection stands between the verdict and the burning."""

    NONE = 0
    OPEN = 1
    APPEALED = 2
    BURNT = 3
    OVERTURNED = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    domain_id: int
    owner: str
    pending_owner: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a pool's members agreed to; fixed when the pool is created."""

    min_stake_wei: int
    slash_wei: int
    """Burnt per dishonest submission."""
    unit_price_wei: int = 0
    """Paid per verified unit of work."""
    member_limit: int = 10_000
    quorum: int = 1
    """Validators that must agree on a verdict."""
    panel: int = 1
    """Validators drawn at first."""
    round_s: int = 60
    """Seconds until the panel widens."""
    verdict_s: int = 86_400
    """Seconds after which nobody can be slashed any more."""
    challenge_s: int = 3_600
    """Seconds to appeal, and then again to judge the appeal."""
    lease_s: int = 600
    """Seconds for which a silent manager stays the manager."""
    requirements_uri: str = ""


UNBEGUN_LEASE_UNIX_S = 2**64 - 1
"""When a pool's first lease lapses as long as its manager has not taken it once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """A compute pool; `manager` is the key whose word counts now, in epoch `epoch`."""

    pool_id: int
    domain_id: int
    owner: str
    pending_owner: str
    state: PoolState
    joins_paused: bool
    ended_unix_s: int
    manager: str
    epoch: int
    lease_expires_unix_s: int
    """Inclusive; after it another of the pool's managers may take over. UNBEGUN_LEASE_UNIX_S before the first start."""
    terms: Terms


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """An address's standing in one pool. `active` is false for whom the pool or its domain has barred."""

    address: str
    role: Role
    active: bool
    since_unix_s: int
    epoch: int
    """Invites of earlier epochs are void; grows with each ejection."""
    used: int
    """One bit per invite of this epoch that is used up or cancelled."""
    bar: Bar


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A registered machine and what its staker has at stake for it."""

    address: str
    staker: str
    """The zero address where it is not registered."""
    stake_wei: int
    unbonding_wei: int
    locked_wei: int
    """What open cases may burn."""
    matures_unix_s: int
    """From when `unbonding_wei` may be withdrawn."""

    @property
    def registered(self) -> bool:
        return int(self.staker, 16) != 0

    @property
    def at_work_wei(self) -> int:
        """What no open case holds of its stake: what counts towards a pool's minimum."""
        return max(0, self.stake_wei - self.locked_wei)


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """A node's agreement to be this staker's, good through second `expires_unix_s`, once."""

    staker: str
    node: str
    nonce: int
    expires_unix_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Invite:
    """Leave to join, good through second `expires_unix_s`; `nonce` is the member's epoch times 256 plus a free bit."""

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
    epoch: int
    """The manager's lease under which it was announced."""


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
class File:
    """A submission with the way from its leaf to its batch's Merkle root, as the court wants it."""

    pool_id: int
    node: str
    step: int
    first_counter: int
    counter: int
    file_hash: bytes
    proof: tuple[bytes, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One validator's answer; `units` of verified work for an accepted submission, `reason` a short ASCII code."""

    outcome: Outcome
    units: int = 0
    reason: str = ""
    evidence_hash: bytes = bytes(32)


@dataclass(frozen=True, slots=True, kw_only=True)
class Docket:
    """What validators are asked about; its id is the submission's, or a hash of the accusation or appeal."""

    docket_id: bytes
    pool_id: int
    node: str
    kind: Kind
    outcome: Outcome
    opened_unix_s: int
    quorum: int
    panel: int
    commits: int
    validators: int
    seed_block: int
    """For a submission the block that recorded it."""
    seed: bytes
    about: bytes
    """For an appeal the docket that is appealed; else zero."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What a rejection may burn, and through which second it can still be appealed or overturned."""

    docket_id: bytes
    amount_wei: int
    until_unix_s: int
    state: CaseState


def reason_bytes(code: str) -> bytes:
    """A reason code as bytes32; ValueError unless it is ASCII of at most 32 bytes."""
    raw = code.encode("ascii")
    if len(raw) > 32:
        raise ValueError(f"reason code longer than 32 bytes: {code}")
    return raw.ljust(32, b"\0")


def reason_text(raw: bytes) -> str:
    """The code in a bytes32; bytes that are not ASCII are shown escaped, for any validator may write them."""
    return raw.rstrip(b"\0").decode("ascii", "backslashreplace")
