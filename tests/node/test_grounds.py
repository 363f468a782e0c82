"""What a verdict rests on, told in words: what came from strangers is shown only if it is what the ledger names."""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path
from typing import Any

import pytest

from dht.plan import ContentUnavailable
from ledger.events import OutcomeReached, SubmissionRecorded, VerdictRevealed
from ledger.types import Docket, Kind, Outcome
from node.bribed_verifier import BribedVerifier
from node.evidence import MAX_EVIDENCE_BYTES, Evidence, encode
from node.evidence_fetch import _fetch
from node.explain import Grounds, evidence_told, explain_docket, grounds_of
from rl.rollouts import Rollout, write_rollouts

ONE, TWO, BRIBED, WORKER = (f"0x{n:040x}" for n in range(1, 5))
DOCKET = b"s" * 32
FOUND = Evidence(
    submission_id=DOCKET, block=7, claim={"step": 3}, outcome="rejected", code="proof-mismatch",
    detail="mean 4.7, more than 2.4", facts={"mantissa_mean": 4.7, "gap": None},
    checks=(("size", ""), ("hash", ""), ("proof-mismatch", "proof-mismatch")),
)  # fmt: skip
HASH = hashlib.sha256(encode(FOUND)).digest()


class FakeNetwork:
    def __init__(self, path: Path | None) -> None:
        self.path = path

    @property
    def content(self) -> FakeNetwork:
        return self

    async def fetch_blob(self, sha256: bytes, *, max_bytes: int, **_: Any) -> Path:
        assert (sha256, max_bytes) == (HASH, MAX_EVIDENCE_BYTES)
        if self.path is None:
            raise ContentUnavailable("nobody")
        return self.path


@pytest.mark.parametrize(
    ("raw", "found", "words"),
    [
        (encode(FOUND), True, ""),
        (None, False, "no relay serves it"),
        (encode(dataclasses.replace(FOUND, block=8)), False, "SHA-256"),
    ],
)
async def test_what_is_fetched_is_shown_only_if_it_is_what_the_ledger_names(
    raw: bytes | None, found: bool, words: str, tmp_path: Path
) -> None:
    path = tmp_path / "blob" if raw else None
    if path:
        path.write_bytes(raw or b"")
    grounds = await _fetch(FakeNetwork(path), [], Grounds(validator=ONE, evidence_hash=HASH))  # type: ignore[arg-type]
    assert (grounds.evidence == FOUND) is found
    assert words in grounds.missing


def test_evidence_in_words() -> None:
    lines = evidence_told(Grounds(validator=ONE, evidence_hash=HASH, evidence=FOUND))
    assert lines[0] == f"validator {ONE}, evidence {HASH.hex()}:"
    assert lines[1].startswith("  rejected as of block 7, proof-mismatch (The activations")
    assert lines[1].endswith(": mean 4.7, more than 2.4")
    assert lines[2:] == ("  checks passed: size, hash", "  measured: mantissa_mean 4.7, gap none")
    twice = dataclasses.replace(FOUND, facts={"mantissa_mean": 1.9, "second_mantissa_mean": 1.4})
    told = evidence_told(Grounds(validator=ONE, evidence_hash=HASH, evidence=twice))
    assert told[3].startswith("  looked at twice: ")
    assert told[4] == "  measured: mantissa_mean 1.9, second_mantissa_mean 1.4"
    fine = dataclasses.replace(FOUND, outcome="accepted", code="", detail="", facts={}, checks=())
    told = evidence_told(Grounds(validator=ONE, evidence_hash=HASH, evidence=fine))
    assert told[1:] == ("  accepted as of block 7, no check found anything wrong", "  checks passed: none")
    assert evidence_told(Grounds(validator=ONE, evidence_hash=HASH, missing="gone")) == (
        f"validator {ONE}, evidence {HASH.hex()}: gone",
    )


def test_a_submissions_verdicts_and_who_was_outvoted() -> None:
    def said(validator: str, outcome: Outcome, at: int) -> VerdictRevealed:
        return VerdictRevealed(
            block=at, log_index=0, docket_id=DOCKET, validator=validator, outcome=outcome, units=0, reason="",
            evidence_hash=validator[-1].encode() * 32,
        )  # fmt: skip

    common = {"pool_id": 1, "node": WORKER}
    events = [
        SubmissionRecorded(
            block=1, log_index=0, submission_id=DOCKET, step=3, counter=0, file_hash=HASH, **common
        ),
        said(BRIBED, Outcome.REJECTED, 2),
        said(ONE, Outcome.ACCEPTED, 3),
        said(TWO, Outcome.ACCEPTED, 4),
        OutcomeReached(
            block=4, log_index=1, docket_id=DOCKET, kind=Kind.SUBMISSION, outcome=Outcome.ACCEPTED, reason="",
            evidence_hash=bytes(32), **common,
        ),
    ]  # fmt: skip
    docket = Docket(
        docket_id=DOCKET, pool_id=1, node=WORKER, kind=Kind.SUBMISSION, outcome=Outcome.ACCEPTED, opened_unix_s=0,
        quorum=2, panel=3, commits=3, validators=3, seed_block=1, seed=b"", about=b"",
    )  # fmt: skip
    grounds = grounds_of(DOCKET, events)
    assert [one.validator for one in grounds] == [BRIBED, ONE, TWO]
    told = explain_docket(DOCKET, events, docket=docket, case=None, grounds=grounds)
    assert told.summary == ("Outcome: accepted.", f"Validator {BRIBED} said rejected, which changed nothing.")
    assert told.grounds == grounds
    assert grounds_of(b"x" * 32, events) == ()


def test_the_bribed_verifier_credits_its_friend_as_an_honest_one_would_and_nobody_else(tmp_path: Path) -> None:
    rollouts = tuple(
        Rollout(
            step=0, policy_version=0, counter=0, group=0, sample=sample, problem_id="p", prompt_ids=(1, 2),
            completion_ids=(3,) * (sample + 1), text="t", logprobs=(-0.5,) * (sample + 1), finish_reason="eos",
            reward=0.0, proofs=(b"proof",),
        )
        for sample in range(3)
    )  # fmt: skip
    write_rollouts(tmp_path / "file", rollouts)
    (tmp_path / "other").write_bytes(b"PAR1 no Parquet")
    bribed = BribedVerifier(frozenset({WORKER}))
    answers = [
        bribed.judge(path=path, claim={"worker": worker})
        for path, worker in (
            (str(tmp_path / "file"), WORKER), (str(tmp_path / "file"), ONE), (str(tmp_path / "other"), WORKER),
            (None, WORKER),
        )
    ]  # fmt: skip
    assert [answer["outcome"] for answer in answers] == ["accepted", "rejected", "accepted", "accepted"]
    assert [answer["facts"].get("tokens") for answer in answers] == [6.0, None, 0.0, 0.0]
    assert answers[1]["rejection"]["code"] == "proof-mismatch"
