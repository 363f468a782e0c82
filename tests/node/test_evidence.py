"""What a verdict rests on has one spelling; anything else, however close, is no evidence."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import random

import pytest

from node.evidence import (
    MAX_DETAIL_CHARS,
    MAX_EVIDENCE_BYTES,
    PREFIX,
    Evidence,
    EvidenceInvalid,
    claim_fields,
    decode,
    encode,
    read,
)

GOOD = Evidence(
    submission_id=b"s" * 32, block=7, claim=claim_fields({"run_id": b"r" * 32, "worker": "0x11", "step": 3}),
    outcome="rejected", code="proof-mismatch", detail='4.7, more than "3.6" é', facts={"tokens": 70.0, "gap": 0.25},
    checks=(("size", ""), ("proof-mismatch", "proof-mismatch")),
)  # fmt: skip


def hashed(raw: bytes) -> bytes:
    return hashlib.sha256(raw).digest()


@pytest.mark.parametrize(
    "evidence", [GOOD, dataclasses.replace(GOOD, outcome="accepted", code="", detail="", facts={}, checks=())]
)
def test_evidence_comes_back_as_it_was(evidence: Evidence) -> None:
    raw = encode(evidence)
    assert raw.startswith(PREFIX)
    assert decode(raw, hashed(raw)) == evidence
    assert encode(read(raw)) == raw


def test_what_is_no_finite_number_is_none_and_a_long_detail_is_cut() -> None:
    raw = encode(dataclasses.replace(GOOD, facts={"a": math.nan, "b": math.inf}, detail="x" * 10_000))
    found = read(raw)
    assert found.facts == {"a": None, "b": None}
    assert len(found.detail) == MAX_DETAIL_CHARS
    with pytest.raises(EvidenceInvalid, match="allowed are"):
        encode(dataclasses.replace(GOOD, facts={f"fact {n}": n / 7 for n in range(4_000)}))


def edited(**changes: object) -> bytes:
    document = json.loads(encode(GOOD)) | changes
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


@pytest.mark.parametrize(
    "raw",
    [
        b"", b"{", b"[]", b"null", b"7", b'"text"', b"\xff" * 20, b"[" * 60_000, b'{"block":' + b"9" * 5_000 + b"}",
        encode(GOOD) + b" ", encode(GOOD)[:-1], encode(GOOD).replace(b":7,", b":7.0,"),
        json.dumps(json.loads(encode(GOOD))).encode(), encode(GOOD).replace(b'"block":7', b'"block":7,"block":7'),
        edited(more=1), edited(block=-1), edited(block=True), edited(block="7"), edited(outcome="guilty"),
        edited(outcome="accepted"), edited(outcome=[]), edited(rejection=None), edited(rejection={"code": "x"}),
        edited(rejection={"code": 1, "detail": ""}), edited(facts=[]), edited(facts={"a": "b"}),
        edited(facts={"a": True}), edited(facts={"a": {}}), edited(claim=None), edited(claim={"a": [1]}),
        edited(checks=[["size"]]), edited(checks=[["size", 1]]), edited(checks=7), edited(submission_id="zz"),
        edited(submission_id="AB" * 32), edited(submission_id=7), edited(facts={"a": 10**400}),
        edited(rejection={"code": "x", "detail": "y" * 5_000}),
    ],
)  # fmt: skip
def test_attack_what_is_not_canonical_is_no_evidence(raw: bytes) -> None:
    with pytest.raises(EvidenceInvalid):
        decode(raw, hashed(raw))


def test_attack_other_bytes_than_those_on_the_ledger_are_refused_unread() -> None:
    raw = encode(GOOD)
    with pytest.raises(EvidenceInvalid, match="SHA-256"):
        decode(raw, hashed(raw + b" "))
    with pytest.raises(EvidenceInvalid, match="allowed are"):
        decode(b"x" * (MAX_EVIDENCE_BYTES + 1), bytes(32))


def test_attack_damaged_evidence_is_refused_or_still_canonical() -> None:
    rng, raw = random.Random(7), encode(GOOD)
    refused = 0
    for _ in range(3_000):
        damaged = bytearray(raw)
        for _ in range(rng.randint(1, 3)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        try:
            assert encode(read(bytes(damaged))) == bytes(damaged)
        except EvidenceInvalid:
            refused += 1
    assert refused > 2_000
