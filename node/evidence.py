"""What a verdict rests on, as one canonical JSON text whose SHA-256 goes on the ledger.

Decides the fields, their order and their bounds. Evidence comes from strangers: it is bounded, compared with the hash
that the ledger has, and read strictly, in that order; what is not canonical is no evidence. It proves nothing by
itself: whoever doubts it runs the same checks again (`intellect-node verify`), for which the claim is in it.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rl import flat_json

MAX_EVIDENCE_BYTES = 64 * 1024
"""An honest one has 1 to 3 kB: some twenty numbers, as many checks, and a sentence."""
PREFIX = b'{"block":'
"""How every one begins, its keys being sorted; nothing else that is kept by its hash begins so."""
MAX_DETAIL_CHARS = 4_000
OUTCOMES = ("accepted", "rejected", "late")


class EvidenceInvalid(Exception):
    """The bytes are not evidence as `encode` writes it, or not those that were asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What one validator found about one submission."""

    submission_id: bytes
    block: int
    """That recorded the submission."""
    claim: Mapping[str, str | int]
    """What the ledger said of it as of that block: the fields of `verify.rules.Claim`, bytes as 0x…"""
    outcome: str
    """One of `OUTCOMES`."""
    code: str
    """Of the check that failed; empty where none did."""
    detail: str
    """What that check saw and what it expected."""
    facts: Mapping[str, float | None]
    """What was measured; None where it was no finite number."""
    checks: tuple[tuple[str, str], ...]
    """Every check that ran, in order, with the code that it found; empty where it found nothing."""


def claim_fields(claim: Mapping[str, Any]) -> dict[str, str | int]:
    """A claim's fields as JSON has them; bytes as 0x…"""
    return {name: f"0x{value.hex()}" if isinstance(value, bytes) else value for name, value in claim.items()}


def encode(evidence: Evidence) -> bytes:
    """The canonical bytes. Raises EvidenceInvalid where they are too many."""
    rejection = {"code": evidence.code, "detail": evidence.detail[:MAX_DETAIL_CHARS]} if evidence.code else None
    document = {
        "block": evidence.block,
        "checks": [list(check) for check in evidence.checks],
        "claim": dict(evidence.claim),
        "facts": {name: _finite(value) for name, value in evidence.facts.items()},
        "outcome": evidence.outcome,
        "rejection": rejection,
        "submission_id": evidence.submission_id.hex(),
    }
    raw = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
    if len(raw) > MAX_EVIDENCE_BYTES:
        raise EvidenceInvalid(f"{len(raw)} bytes of evidence, allowed are {MAX_EVIDENCE_BYTES}")
    return raw


def decode(raw: bytes, sha256: bytes) -> Evidence:
    """The evidence in `raw`, which must be the bytes of that hash. Raises EvidenceInvalid."""
    if len(raw) > MAX_EVIDENCE_BYTES:
        raise EvidenceInvalid(f"{len(raw)} bytes, allowed are {MAX_EVIDENCE_BYTES}")
    if hashlib.sha256(raw).digest() != sha256:
        raise EvidenceInvalid("its SHA-256 is not the one on the ledger")
    return read(raw)


def read(raw: bytes) -> Evidence:
    """The evidence in `raw`, whoever it is from. Raises EvidenceInvalid."""
    if len(raw) > MAX_EVIDENCE_BYTES:
        raise EvidenceInvalid(f"{len(raw)} bytes, allowed are {MAX_EVIDENCE_BYTES}")
    try:
        evidence = _parsed(flat_json.loads(raw))
        canonical = encode(evidence)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as fault:
        raise EvidenceInvalid(f"not as evidence is written: {type(fault).__name__}") from fault
    if canonical != raw:
        raise EvidenceInvalid("not as evidence is written: another order, other keys or other spaces")
    return evidence


def _parsed(document: Any) -> Evidence:
    """Types are checked here; keys, order and spelling by writing it again."""
    rejection = document["rejection"] or {"code": "", "detail": ""}
    outcome, block = document["outcome"], document["block"]
    if outcome not in OUTCOMES or (outcome == "accepted") != (document["rejection"] is None):
        raise ValueError("outcome")
    if type(block) is not int or block < 0:
        raise ValueError("block")
    return Evidence(
        submission_id=bytes.fromhex(document["submission_id"]),
        block=block,
        claim={name: _is(value, (str, int)) for name, value in document["claim"].items()},
        outcome=outcome,
        code=_is(rejection["code"], (str,)),
        detail=_is(rejection["detail"], (str,)),
        facts={name: _is(value, (int, float, type(None))) for name, value in document["facts"].items()},
        checks=tuple(_pair(check) for check in document["checks"]),
    )


def _pair(check: Sequence[Any]) -> tuple[str, str]:
    name, code = check
    return _is(name, (str,)), _is(code, (str,))


def _is(value: Any, kinds: tuple[type, ...]) -> Any:
    if type(value) not in kinds:
        raise TypeError(type(value).__name__)
    return value


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
