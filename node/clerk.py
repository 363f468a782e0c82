"""A validator's dealings with the court, beside the checks themselves: what is new, what to reveal, what is due.

It learns of submissions and appeals from the ledger's events, reveals what it has committed to as soon as a quorum has,
hands the evidence to a relay after that, and has matured cases executed, whoever is faster. It judges nothing.
"""

from __future__ import annotations

import json
import logging

import trio

from ledger.client import Ledger
from ledger.court import Answer
from ledger.cursor import EventCursor
from ledger.errors import Reverted
from ledger.events import (
    CaseClosed,
    CaseOpened,
    DocketOpened,
    Event,
    OutcomeReached,
    PoolEvent,
    SubmissionRecorded,
    VerdictRevealed,
)
from ledger.types import CaseState, Kind, Submission, Verdict
from node.chain import POLL_S, follow_events, on_chain
from node.dockets import Dockets, Entry, Finding
from node.handover import hand_over_evidence
from node.metrics import MetricsLog
from node.panel import closes_s
from node.place import Place
from node.show import tokens
from verify.rejection import SENTENCES

log = logging.getLogger(__name__)
REFUSED_FOR_GOOD = {"NoCommitment", "WrongReveal", "NotAVerdict", "UnknownDocket"}
"""What the court would say of a reveal however often it is sent."""


async def take_in(ledger: Ledger, cursor: EventCursor, dockets: Dockets, pool_id: int) -> None:
    """Every submission, appeal and case of the pool into `dockets`, for ever."""
    async for event in follow_events(ledger, cursor):
        if isinstance(event, VerdictRevealed) or (isinstance(event, PoolEvent) and event.pool_id == pool_id):
            take(event, dockets)  # a docket of another pool is in no row, so verdicts on it change nothing


def take(event: Event, dockets: Dockets) -> None:
    """One event; the same one again changes nothing."""
    match event:
        case SubmissionRecorded():
            dockets.add(event.submission_id, Kind.SUBMISSION, event.block)
        case DocketOpened(kind=Kind.APPEAL):
            log.info("%s appeals", event.node)
            dockets.add(event.docket_id, Kind.APPEAL, event.block)
        case DocketOpened(kind=Kind.ACCUSATION):
            shown = event.evidence_hash.hex()
            log.warning("%s is accused: %s, evidence %s; no check can judge that", event.node, event.reason, shown)
        case VerdictRevealed():
            said = Verdict(outcome=event.outcome, units=event.units)
            dockets.hear(event.docket_id, event.validator, said)
        case OutcomeReached():
            dockets.drop_waiting(event.docket_id)
        case CaseOpened():
            dockets.open_case(event.docket_id, event.until_unix_s)
        case CaseClosed():
            dockets.close_case(event.docket_id)


async def see_through(ledger: Ledger, dockets: Dockets, metrics: MetricsLog, pool_id: int) -> None:
    """Reveal and execute what is due, for ever."""
    terms = await on_chain(ledger.terms, pool_id)
    while True:
        committed = dockets.committed()
        now_s = await on_chain(ledger.chain_time_s)
        for entry in committed:
            docket = await on_chain(ledger.docket, entry.docket_id)
            if docket.commits >= docket.quorum:
                await reveal(ledger, dockets, metrics, entry)
            elif now_s > closes_s(docket, terms):
                log.warning("too few validators judged %s in time", entry.docket_id.hex())
                dockets.done(entry.docket_id)
        for docket_id in dockets.ripe_cases(now_s):
            await _execute(ledger, dockets, docket_id, now_s)
        await trio.sleep(POLL_S)


async def reveal(ledger: Ledger, dockets: Dockets, metrics: MetricsLog, entry: Entry) -> None:
    """Reveal the verdict that was committed to. What may pass another time is left to the next look."""
    answer = Answer(docket_id=entry.docket_id, verdict=entry.finding.verdict)
    try:
        await on_chain(ledger.reveal, answer)
    except Reverted as refused:
        if refused.error_name in REFUSED_FOR_GOOD:
            log.error("the verdict on %s was not taken: %s", entry.docket_id.hex(), refused)
            dockets.done(entry.docket_id)
            return
        if refused.error_name != "AlreadyRevealed":
            # Another's reveal came first and left ours to decide, which costs more gas than it was given.
            log.info("the verdict on %s is revealed again in a moment: %s", entry.docket_id.hex(), refused)
            return
    else:
        subject = await on_chain(_subject_of, ledger, entry)
        report(metrics, subject, entry.finding)
    dockets.revealed(entry.docket_id)


async def hand_in_evidence(place: Place, dockets: Dockets) -> None:
    """Give relays what the revealed verdicts rest on, for ever. Raises Blacklisted."""
    while True:
        for docket_id, evidence in dockets.unsent():
            await hand_over_evidence(
                place.ledger,
                place.peer,
                place.network,
                evidence.encode(),
                pool_id=place.pool_id,
                address=place.address,
                timeout_s=place.config.network.request_timeout_s,
            )
            dockets.sent(docket_id)
        await trio.sleep(POLL_S)


def report(metrics: MetricsLog, submission: Submission | None, finding: Finding) -> None:
    """What this validator told the ledger; the evidence itself is kept in this node's metrics, by its hash."""
    verdict = finding.verdict
    if submission is None:
        return
    outcome = verdict.outcome.name.lower()
    rejection = json.loads(finding.evidence)["rejection"]
    words = f": {SENTENCES[verdict.reason]} {rejection['detail']}" if rejection else ""
    log.info("%s, step %d of %s%s", outcome, submission.step, submission.node, words)
    metrics.write(
        "verdict",
        submission_id=submission.submission_id.hex(),
        node=submission.node,
        step=submission.step,
        outcome=outcome,
        reason=verdict.reason,
        evidence=finding.evidence,
        evidence_hash=verdict.evidence_hash.hex(),
        seconds=round(finding.seconds, 3),
    )


def _subject_of(ledger: Ledger, entry: Entry) -> Submission | None:
    docket = ledger.docket(entry.docket_id)
    return ledger.submission(docket.about if docket.kind is Kind.APPEAL else docket.docket_id)


async def _execute(ledger: Ledger, dockets: Dockets, docket_id: bytes, now_s: float) -> None:
    case = await on_chain(ledger.case, docket_id)
    if case is None or case.state not in (CaseState.OPEN, CaseState.APPEALED):
        dockets.close_case(docket_id)
        return
    if now_s <= case.until_unix_s:  # an appeal has moved it
        dockets.open_case(docket_id, case.until_unix_s)
        return
    try:
        await on_chain(ledger.execute, docket_id)
        log.info("%s tokens burnt", tokens(case.amount_wei))
    except Reverted as refused:
        log.info("case %s was not executed here: %s", docket_id.hex(), refused)
