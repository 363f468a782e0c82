"""Dockets, verdicts and cases.

Decides the ids of appeals and accusations and what is asked in one transaction. `Court` decides the rest.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import eth_abi
from eth_utils import keccak

from ledger.abi import interface
from ledger.commitments import commitment_of, commitment_salt, verdict_tuple
from ledger.errors import LedgerError
from ledger.runs import RunReader, RunWriter
from ledger.types import Case, CaseState, Docket, File, Kind, Outcome, Submission, Verdict, reason_bytes

REVEALED = (1).to_bytes(32, "big")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A verdict on a docket; `file` where the docket must first be opened."""

    docket_id: bytes
    verdict: Verdict
    file: File | None = None


def appeal_id_of(docket_id: bytes) -> bytes:
    """The docket of the appeal against this one."""
    return keccak(eth_abi.encode(["string", "bytes32"], ["appeal", docket_id]))


def accusation_id_of(pool_id: int, node: str, reason: str, evidence_hash: bytes) -> bytes:
    kinds = ["string", "uint256", "address", "bytes32", "bytes32"]
    return keccak(eth_abi.encode(kinds, ["accusation", pool_id, node, reason_bytes(reason), evidence_hash]))


class CourtReader(RunReader):
    """What is before the validators, and what became of it."""

    def docket(self, docket_id: bytes) -> Docket | None:
        """None where nobody has opened it."""
        values = self._read("Court", "getDocket", docket_id)
        pool_id, node, kind, outcome, opened, quorum, panel, commits, validators, seed_block, seed, about = values
        if kind == Kind.NONE:
            return None
        return Docket(
            docket_id=docket_id, pool_id=pool_id, node=node, kind=Kind(kind), outcome=Outcome(outcome),
            opened_unix_s=opened, quorum=quorum, panel=panel, commits=commits, validators=validators,
            seed_block=seed_block, seed=seed, about=about,
        )  # fmt: skip

    def case(self, docket_id: bytes) -> Case | None:
        """None where no rejection opened one."""
        amount, until, state = self._read("Court", "getCase", docket_id)
        if state == CaseState.NONE:
            return None
        return Case(docket_id=docket_id, amount_wei=amount, until_unix_s=until, state=CaseState(state))

    def submission(self, submission_id: bytes, *, block: int | None = None) -> Submission | None:
        """A recorded file with its outcome; quick where its block is known, or somebody has opened its docket."""
        docket = self.docket(submission_id)
        recorded = self.recorded(submission_id, block=docket.seed_block if docket else block)
        if recorded is None:
            return None
        time_unix_s = docket.opened_unix_s if docket else self._time_of(recorded.block)
        return Submission(
            submission_id=submission_id, pool_id=recorded.pool_id, step=recorded.step, counter=recorded.counter,
            node=recorded.node, file_hash=recorded.file_hash, block=recorded.block, time_unix_s=time_unix_s,
            outcome=docket.outcome if docket else Outcome.PENDING,
        )  # fmt: skip

    def require_drawn(self, docket_id: bytes, validator: str, *, file: File | None = None) -> None:
        """Raise `Reverted`, with the reason, unless the validator may give a verdict on this docket now.

        Args:
            file: to ask about a submission whose docket is not open yet.
        """
        calls = [] if file is None else [_open(file)]
        calls.append(interface("Court").encode("requireDrawn", docket_id, validator))
        self._try("Court", "multicall", calls, sender=validator)

    def draw_order(self, docket_id: bytes, validators: Collection[str], *, block: int) -> tuple[str, ...]:
        """These validators as the court's draw ranks them: whoever is drawn by now comes before whoever is not.

        Args:
            block: whose hash draws the panel (`Docket.seed_block`, or the submission's block).

        Raises `LedgerError` where the chain has no such block.
        """
        docket = self.docket(docket_id)
        if docket is not None and any(docket.seed):
            seed = docket.seed
        else:
            known = self._rpc.call("eth_getBlockByNumber", hex(block), False)
            if known is None:
                raise LedgerError(f"the chain has no block {block}")
            seed = keccak(eth_abi.encode(["bytes32", "bytes32"], [docket_id, bytes.fromhex(known["hash"][2:])]))

        def number(address: str) -> bytes:
            return keccak(eth_abi.encode(["bytes32", "address"], [seed, address]))

        return tuple(sorted(validators, key=number))

    def has_committed(self, docket_id: bytes, validator: str) -> bool:
        return any(self._read("Court", "commitmentBy", docket_id, validator))

    def has_revealed(self, docket_id: bytes, validator: str) -> bool:
        return self._read("Court", "commitmentBy", docket_id, validator) == REVEALED

    def _time_of(self, block: int) -> int:
        return int(self._rpc.call("eth_getBlockByNumber", hex(block), False)["timestamp"], 16)


class CourtWriter(CourtReader, RunWriter):
    """Where not said otherwise, each write returns the block it was mined in."""

    def open(self, file: File) -> int:
        """By anyone: put a submission before the validators. Opening it again changes nothing."""
        return self._write("Court", "open", _file_tuple(file)).block

    def accuse(self, pool_id: int, node: str, reason: str, evidence_hash: bytes) -> bytes:
        """By the manager or a validator. Returns the docket's id. Raises `Reverted("AlreadyOpen")`."""
        self._write("Court", "accuse", pool_id, node, reason_bytes(reason), evidence_hash)
        return accusation_id_of(pool_id, node, reason, evidence_hash)

    def commit(self, *answers: Answer) -> int:
        """By a drawn validator: the hashes of its verdicts, all in one transaction.

        Raises `Reverted` with NotDrawn, AlreadyDecided, AlreadyCommitted and so on; then none of them was committed.
        """
        calls = []
        for answer in answers:
            validator = self._sender.address
            commitment = commitment_of(answer.docket_id, validator, answer.verdict, self._salt(answer.docket_id))
            calls += [] if answer.file is None else [_open(answer.file)]
            calls.append(interface("Court").encode("commit", answer.docket_id, commitment))
        return self._together(calls)

    def reveal(self, *answers: Answer) -> int:
        """By one that committed to exactly these verdicts, once a quorum has; all in one transaction.

        Where one validator decides alone it reveals without committing before, and may open the docket along with it.
        Raises `Reverted` with TooFewCommits, WrongReveal, AlreadyRevealed and so on; then none of them was revealed.
        """
        calls = []
        for answer in answers:
            calls += [] if answer.file is None else [_open(answer.file)]
            verdict, salt = verdict_tuple(answer.verdict), self._salt(answer.docket_id)
            calls.append(interface("Court").encode("reveal", answer.docket_id, verdict, salt))
        return self._together(calls)

    def appeal(self, docket_id: bytes) -> bytes:
        """By the node, its staker or a validator, once, in the challenge window. Returns the appeal's docket id."""
        self._write("Court", "appeal", docket_id)
        return appeal_id_of(docket_id)

    def execute(self, docket_id: bytes) -> int:
        """By anyone, when the window is over: burn. Raises `Reverted` with StillOpen, or NoOpenCase (already done)."""
        return self._write("Court", "execute", docket_id).block

    def _salt(self, docket_id: bytes) -> bytes:
        return commitment_salt(docket_id, self.deployment, self._sender)

    def _together(self, calls: Sequence[bytes]) -> int:
        if len(calls) == 1:
            return self._writer().send(self._addresses["Court"], calls[0]).block
        return self._write("Court", "multicall", list(calls)).block


def _open(file: File) -> bytes:
    return interface("Court").encode("open", _file_tuple(file))


def _file_tuple(file: File) -> tuple[object, ...]:
    """The contract's struct, in order."""
    return (
        file.pool_id,
        file.node,
        file.step,
        file.first_counter,
        file.counter,
        file.file_hash,
        list(file.proof),
    )
