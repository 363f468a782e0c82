"""Verdicts by quorum, commit and reveal, cases and appeals (`Court`)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import eth_abi
from eth_utils import keccak

from ledger.court import REVEALED, accusation_id_of, appeal_id_of
from ledger.rules.call import Call, Refused, refuse_if
from ledger.rules.members import Members
from ledger.rules.pools import Pools
from ledger.rules.runs import Runs
from ledger.rules.stake import Stakes
from ledger.rules.treasury import Treasury
from ledger.types import CaseState, Kind, Outcome, Role, Terms, Verdict

MAX_DOUBLINGS = 8


@dataclass(slots=True, kw_only=True)
class DocketHeld:
    pool_id: int
    node: str
    kind: Kind
    opened_at: int
    quorum: int
    panel: int
    validators: int
    seed_block: int
    outcome: Outcome = Outcome.PENDING
    seed: bytes = b""
    about: bytes = b""
    commits: int = 0
    commitments: dict[str, bytes] = field(default_factory=dict)
    tally: Counter[tuple[Outcome, int]] = field(default_factory=Counter)


@dataclass(slots=True, kw_only=True)
class CaseHeld:
    amount: int
    until: int
    state: CaseState = CaseState.OPEN


class Court:
    """The only way by which stake is ever burnt."""

    def __init__(self, pools: Pools, members: Members, stakes: Stakes, runs: Runs, treasury: Treasury) -> None:
        self._pools, self._members, self._stakes = pools, members, stakes
        self._runs, self._treasury = runs, treasury
        self.dockets: dict[bytes, DocketHeld] = {}
        self.cases: dict[bytes, CaseHeld] = {}
        self.convictions: Counter[tuple[int, str]] = Counter()
        self.accusations: dict[tuple[int, str], bytes] = {}
        """The newest of each node in each pool."""
        self.guilty_at: Counter[tuple[int, str]] = Counter()
        """When an accusation was last found true."""

    def open(self, call: Call, submission_id: bytes, file_hash: bytes) -> None:
        """Opening it again changes nothing."""
        recorded = self._runs.require_submitted(submission_id, file_hash)
        if submission_id not in self.dockets:
            opened = (recorded.time_s, recorded.block)
            docket = self._open(submission_id, recorded.pool_id, recorded.node, Kind.SUBMISSION, *opened)
            # Who came after the work may not judge it, and so makes no panel thinner and no quorum higher.
            docket.validators = min(docket.validators, recorded.validators)

    def accuse(self, call: Call, pool_id: int, node: str, reason: str, evidence_hash: bytes) -> None:
        pool = self._pools.pool(pool_id)
        refuse_if(call.sender != pool.manager and not self._members.is_validator(pool_id, call.sender), "MayNotAccuse")
        member = self._members.standings[pool_id, node]
        answered = member.left_at <= self.guilty_at[pool_id, node]
        in_reach = not answered and call.now_s <= member.left_at + pool.terms.verdict_s
        refuse_if(not in_reach and not member.active, "NotActiveMember")
        docket_id = accusation_id_of(pool_id, node, reason, evidence_hash)
        refuse_if(docket_id in self.dockets, "AlreadyOpen")
        # Each draws a panel of its own: who could bring many at once would wait for friends to be drawn.
        last = self.dockets.get(self.accusations.get((pool_id, node), b""))
        pending = last and last.outcome is Outcome.PENDING and call.now_s <= self._closes(last)
        refuse_if(bool(pending), "AccusationPending")
        self.accusations[pool_id, node] = docket_id
        self._open(docket_id, pool_id, node, Kind.ACCUSATION, call.now_s, call.block)

    def commit(self, call: Call, docket_id: bytes, commitment: bytes) -> None:
        """By a drawn validator: the hash of its verdict, of which 0 and 1 mean none and revealed."""
        docket = self._pending(call, docket_id)
        self._require_drawn(call, docket_id, docket)
        seed = docket.seed or self._seed(call, docket_id, docket)
        refuse_if(call.sender in docket.commitments, "AlreadyCommitted")
        refuse_if(commitment in (bytes(32), REVEALED), "NotAVerdict")
        docket.seed = seed
        docket.commitments[call.sender] = commitment
        docket.commits += 1

    def reveal(self, call: Call, docket_id: bytes, verdict: Verdict, commitment: bytes) -> None:
        """`commitment` is the one that this verdict and salt would have made."""
        docket = self._docket(docket_id)
        refuse_if(verdict.outcome is Outcome.PENDING, "NotAVerdict")
        refuse_if(verdict.units and verdict.outcome is not Outcome.ACCEPTED, "NotAVerdict")
        made = docket.commitments.get(call.sender)
        refuse_if(made == REVEALED, "AlreadyRevealed")
        if docket.quorum == 1 and made is None:
            self._require_drawn(call, docket_id, self._pending(call, docket_id))
        else:
            refuse_if(made is None, "NoCommitment")
            refuse_if(docket.commits < docket.quorum, "TooFewCommits")
            refuse_if(made != commitment, "WrongReveal")
        docket.commitments[call.sender] = REVEALED
        if docket.outcome is not Outcome.PENDING or call.now_s > self._closes(docket):
            return
        docket.tally[verdict.outcome, verdict.units] += 1
        if docket.tally[verdict.outcome, verdict.units] == docket.quorum:
            self._decide(call, docket_id, docket, verdict)

    def appeal(self, call: Call, docket_id: bytes) -> None:
        """Once, by the accused or a validator: twice the panel, and one more to agree where there are so many."""
        docket = self._docket(docket_id)
        case = self._open_case(docket_id, CaseState.OPEN)
        accused = call.sender in (docket.node, self._stakes.staker_of(docket.node))
        refuse_if(not accused and not self._members.is_validator(docket.pool_id, call.sender), "MayNotAppeal")
        refuse_if(call.now_s > case.until, "AppealTooLate")
        case.state, case.until = CaseState.APPEALED, call.now_s + self._terms(docket).challenge_s
        wider = self._open(
            appeal_id_of(docket_id), docket.pool_id, docket.node, Kind.APPEAL, call.now_s, call.block
        )  # fmt: skip
        wider.about, wider.panel = docket_id, 2 * docket.panel
        wider.validators = min(wider.validators, docket.validators)
        wider.quorum = docket.quorum + (docket.quorum < wider.validators)

    def execute(self, call: Call, docket_id: bytes) -> None:
        case = self.cases.get(docket_id)
        refuse_if(case is None or case.state not in (CaseState.OPEN, CaseState.APPEALED), "NoOpenCase")
        refuse_if(call.now_s <= case.until, "StillOpen")
        self._burn(docket_id, case)

    def is_drawn(self, call: Call, docket_id: bytes) -> bool:
        """Whether the sender may give a verdict now."""
        try:
            self._require_drawn(call, docket_id, self._pending(call, docket_id))
        except Refused:
            return False
        return True

    def _open(self, docket_id: bytes, pool_id: int, node: str, kind: Kind, now_s: int, block: int) -> DocketHeld:
        terms = self._pools.pool(pool_id).terms
        docket = self.dockets[docket_id] = DocketHeld(
            pool_id=pool_id, node=node, kind=kind, opened_at=now_s, quorum=terms.quorum, panel=terms.panel,
            validators=self._members.count(pool_id, Role.VALIDATOR), seed_block=block,
        )  # fmt: skip
        return docket

    def _decide(self, call: Call, docket_id: bytes, docket: DocketHeld, verdict: Verdict) -> None:
        docket.outcome = verdict.outcome
        if docket.kind is Kind.APPEAL:
            self._decide_appeal(docket.about, verdict)
        elif verdict.outcome is Outcome.REJECTED:
            terms = self._terms(docket)
            self.cases[docket_id] = CaseHeld(amount=terms.slash_wei, until=call.now_s + terms.challenge_s)
            self.convictions[docket.pool_id, docket.node] += 1
            if docket.kind is Kind.ACCUSATION:
                self.guilty_at[docket.pool_id, docket.node] = call.now_s
            self._stakes.lock(docket.node, terms.slash_wei)
            self._members.punish(call, docket.pool_id, docket.node)
        elif docket.kind is Kind.SUBMISSION and verdict.units:
            self._treasury.credit(docket.pool_id, docket.node, verdict.units)

    def _decide_appeal(self, docket_id: bytes, verdict: Verdict) -> None:
        case, docket = self._open_case(docket_id, CaseState.APPEALED), self.dockets[docket_id]
        if verdict.outcome is Outcome.REJECTED:
            self._burn(docket_id, case)
            return
        docket.outcome, case.state = verdict.outcome, CaseState.OVERTURNED
        self._stakes.unlock(docket.node, case.amount)
        self.convictions[docket.pool_id, docket.node] -= 1
        if not self.convictions[docket.pool_id, docket.node]:
            self._members.pardon(docket.pool_id, docket.node)
        if docket.kind is Kind.SUBMISSION and verdict.units:
            self._treasury.credit(docket.pool_id, docket.node, verdict.units)

    def _burn(self, docket_id: bytes, case: CaseHeld) -> None:
        case.state = CaseState.BURNT
        self._stakes.burn(self.dockets[docket_id].node, case.amount)

    def _docket(self, docket_id: bytes) -> DocketHeld:
        refuse_if(docket_id not in self.dockets, "UnknownDocket")
        return self.dockets[docket_id]

    def _pending(self, call: Call, docket_id: bytes) -> DocketHeld:
        docket = self._docket(docket_id)
        refuse_if(docket.outcome is not Outcome.PENDING, "AlreadyDecided")
        refuse_if(call.now_s > self._closes(docket), "VerdictsClosed")
        return docket

    def _open_case(self, docket_id: bytes, state: CaseState) -> CaseHeld:
        case = self.cases.get(docket_id)
        refuse_if(case is None or case.state is not state, "NoOpenCase")
        return case

    def _closes(self, docket: DocketHeld) -> int:
        """Until then verdicts count. Nobody is slashed for what was left unjudged that long."""
        terms = self._terms(docket)
        return docket.opened_at + (terms.challenge_s if docket.kind is Kind.APPEAL else terms.verdict_s)

    def _require_drawn(self, call: Call, docket_id: bytes, docket: DocketHeld) -> None:
        """The sender's own number lies below a bound that doubles with every round without an outcome."""
        self._members.require_member(docket.pool_id, call.sender, Role.VALIDATOR)
        refuse_if(self._stakes.staker_of(call.sender) == self._stakes.staker_of(docket.node), "OwnCase")
        latest = self.dockets[docket.about].opened_at if docket.kind is Kind.APPEAL else docket.opened_at
        refuse_if(self._members.standings[docket.pool_id, call.sender].since > latest, "JoinedTooLate")
        rounds = (call.now_s - docket.opened_at) // self._terms(docket).round_s
        width = docket.panel << min(rounds, MAX_DOUBLINGS)
        if width >= docket.validators:
            return
        seed = docket.seed or self._seed(call, docket_id, docket)
        number = int.from_bytes(keccak(eth_abi.encode(["bytes32", "address"], [seed, call.sender])), "big")
        refuse_if(number // width >= (2**256 - 1) // docket.validators, "NotDrawn")

    @staticmethod
    def _seed(call: Call, docket_id: bytes, docket: DocketHeld) -> bytes:
        refuse_if(call.block <= docket.seed_block, "TooEarly")
        return call.seed_of(docket_id, docket.seed_block)

    def _terms(self, docket: DocketHeld) -> Terms:
        return self._pools.pool(docket.pool_id).terms
