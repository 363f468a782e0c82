"""Work and its verdicts."""

from __future__ import annotations

from eth_utils import keccak

from ledger.commitments import commitment_of, verdict_tuple
from ledger.court import REVEALED
from ledger.merkle import leaf_of, proof_of
from ledger.rules import Call
from ledger.runs import submission_id_of
from ledger.types import CaseState, Kind, Outcome, Role, Verdict, reason_bytes
from tests.ledger.histories.base import (
    ANYBODY,
    EVIDENCE,
    NODES,
    REASON,
    Act,
    Draw,
    Submitted,
)


class CourtActs(Draw):
    """Acts on RunLedger and Court."""

    def announce_checkpoint(self) -> Act:
        pool_id, model = self.pool_id(), self.rules.runs.announce_checkpoint
        version = len(self.rules.runs.checkpoints[pool_id]) + self.odd()
        arguments = (pool_id, version, self.one([EVIDENCE], [bytes(32)]))
        return self.call(
            "RunLedger", self.manager(pool_id), "announceCheckpoint", arguments, lambda c: model(c, *arguments)
        )

    def submit(self) -> Act:
        pool_id, step, runs = self.pool_id(), self.rng.randrange(2), self.rules.runs
        node = self.one(self.active(pool_id, Role.WORKER) if pool_id != 99 else [], NODES)
        first = runs.next_counter[pool_id, node, step] + self.odd(0.04)
        hashes = [self.rng.randbytes(32) for _ in range(self.rng.choice([1, 1, 2, 3, 7, 0]))]
        if self.odd(0.03):
            hashes.append(bytes(32))
        ids = [submission_id_of(pool_id, step, first + i, node) for i in range(len(hashes))]
        leaves = tuple(leaf_of(i, h) for i, h in zip(ids, hashes, strict=True))

        def model(call: Call) -> None:
            runs.submit(call, pool_id, step, first, hashes)
            for number, submission_id in enumerate(ids):
                self.submitted[submission_id] = Submitted(
                    pool_id, node, step, first, first + number, hashes[number], leaves
                )

        return self.call("RunLedger", node, "submit", (pool_id, step, first, hashes), model)

    def open(self) -> Act:
        fresh = [i for i in self.submitted if i not in self.rules.court.dockets]
        if not fresh and (not self.submitted or not self.odd()):
            return self.submit()
        chosen = self.one(fresh, list(self.submitted))
        file = self.submitted[chosen]
        file_hash = self.one([file.file_hash], [EVIDENCE])
        proof = list(proof_of(file.leaves, file.counter - file.first))
        struct = (file.pool_id, file.node, file.step, file.first, file.counter, file_hash, proof)
        return self.call(
            "Court", self.rng.choice(ANYBODY), "open", (struct,),
            lambda c: self.rules.court.open(c, chosen, file_hash),
        )  # fmt: skip

    def commit(self) -> Act:
        answerable = self.answerable()
        if not answerable and not self.odd():
            return self.open()
        anyhow = [(self.docket(), self.judge_of())]
        docket_id, sender = self.one(anyhow if self.odd(0.15) else answerable, anyhow)
        commitment = self._commitment(docket_id, sender, self.verdict_on(docket_id))
        if self.odd(0.02):
            commitment = REVEALED
        return self.call(
            "Court", sender, "commit", (docket_id, commitment),
            lambda c: self.rules.court.commit(c, docket_id, commitment),
        )  # fmt: skip

    def reveal(self) -> Act:
        ready = [
            (docket_id, account)
            for docket_id, docket in self.rules.court.dockets.items()
            if docket.commits >= docket.quorum
            for account, made in docket.commitments.items()
            if made != REVEALED
        ]
        ready += [(d, v) for d, v in self.answerable() if self.rules.court.dockets[d].quorum == 1][:1]
        if not ready and not self.odd():
            return self.open()
        docket_id, sender = self.one(ready, [(self.docket(), self.judge_of())])
        verdict = self.verdict_on(docket_id)
        if self.odd(0.05):
            verdict = Verdict(outcome=Outcome(self.rng.randrange(4)), units=self.rng.randrange(2))
        salt = self._salt(docket_id, sender) if not self.odd(0.03) else EVIDENCE
        commitment = commitment_of(docket_id, sender, verdict, salt)
        return self.call(
            "Court", sender, "reveal", (docket_id, verdict_tuple(verdict), salt),
            lambda c: self.rules.court.reveal(c, docket_id, verdict, commitment),
        )  # fmt: skip

    def appeal(self) -> Act:
        court = self.rules.court
        cases = [i for i, case in court.cases.items() if case.state is CaseState.OPEN]
        if not cases and not self.odd():
            return self.commit()
        docket_id = self.one(cases, [self.docket()])
        docket = court.dockets.get(docket_id)
        accused = [docket.node, self.rules.stakes.staker_of(docket.node)] if docket else []
        sender = self.one(accused, NODES)
        return self.call("Court", sender, "appeal", (docket_id,), lambda c: court.appeal(c, docket_id))

    def execute(self) -> Act:
        court = self.rules.court
        open_states = (CaseState.OPEN, CaseState.APPEALED)
        docket_id = self.one([i for i, case in court.cases.items() if case.state in open_states], [self.docket()])
        return self.call(
            "Court", self.rng.choice(ANYBODY), "execute", (docket_id,), lambda c: court.execute(c, docket_id)
        )

    def accuse(self) -> Act:
        pool_id, node, court = self.pool_id(), self.rng.choice(NODES), self.rules.court
        validators = self.active(pool_id, Role.VALIDATOR) if pool_id != 99 else []
        sender = self.rng.choice([self.manager(pool_id), self.one(validators, ANYBODY)])
        evidence = keccak(text=str(self.rng.randrange(3)))
        return self.call(
            "Court", sender, "accuse", (pool_id, node, reason_bytes(REASON), evidence),
            lambda c: court.accuse(c, pool_id, node, REASON, evidence),
        )  # fmt: skip

    def answerable(self) -> list[tuple[bytes, str]]:
        """Dockets with validators that are drawn and have not answered."""
        court = self.rules.court
        pending = [(i, docket) for i, docket in court.dockets.items() if docket.outcome is Outcome.PENDING]
        return [
            (docket_id, validator)
            for docket_id, docket in pending[-8:]
            for validator in self.active(docket.pool_id, Role.VALIDATOR)
            if validator not in docket.commitments and court.is_drawn(self.present(validator), docket_id)
        ]

    def docket(self) -> bytes:
        """Mostly one that is pending."""
        dockets = self.rules.court.dockets
        pending = [i for i, docket in dockets.items() if docket.outcome is Outcome.PENDING]
        return self.one(pending[-6:], [*dockets, *list(self.submitted)[-2:], EVIDENCE])

    def judge_of(self) -> str:
        validators = [n for pool_id in self.rules.pools.pools for n in self.active(pool_id, Role.VALIDATOR)]
        return self.one(validators, ANYBODY)

    def verdict_on(self, docket_id: bytes) -> Verdict:
        """What an honest validator says: the same as every other."""
        kind = docket_id[0] % 5
        docket = self.rules.court.dockets.get(docket_id)
        if docket and docket.kind is Kind.APPEAL:
            kind = 4 * (docket_id[0] % 3 > 0)
        if kind < self.harshness:
            return Verdict(outcome=Outcome.REJECTED, reason="hash", evidence_hash=EVIDENCE)
        if docket_id[1] % 6 == 0:
            return Verdict(outcome=Outcome.LATE, reason="late")
        return Verdict(outcome=Outcome.ACCEPTED, units=docket_id[1] % 5)

    def _commitment(self, docket_id: bytes, sender: str, verdict: Verdict) -> bytes:
        return commitment_of(docket_id, sender, verdict, self._salt(docket_id, sender))

    @staticmethod
    def _salt(docket_id: bytes, sender: str) -> bytes:
        return keccak(docket_id + sender.encode())
