"""What a validator checks, when, and how it answers: one docket after the other, in the ledger's order.

A verdict comes from checks that ran to their end and from nothing else: a crash, a missing policy or a lost chain
leads to another try and in the end to silence, which slashes nobody. A file that nobody serves is late. It answers only
where the court has drawn it, and checks only where it is called (`node.panel`); what it has found is on disk before
anybody is told, so that whoever is killed at any point goes on where they were. While the verifier computes, the next
files are fetched.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import trio

from dht.plan import ContentUnavailable
from ledger.court import Answer
from ledger.errors import Reverted
from ledger.types import Docket, Kind, Outcome, Role, Submission, Terms, Verdict
from node import clerk
from node.chain import on_chain
from node.child import Child, ChildError
from node.claims import claim_of, worth_fetching
from node.dhtd_link import NetworkDown
from node.dockets import Dockets, Entry, Finding
from node.evidence import Evidence, claim_fields, encode
from node.handover import relay_urls
from node.membership import raise_if_blacklisted
from node.panel import LATER_S, NEVER, called, look_again_s, next_round_s, rounds_of
from node.place import Place
from node.policies import Policies
from node.spans import Activity, Waits, span

log = logging.getLogger(__name__)
OUTCOMES = {"accepted": Outcome.ACCEPTED, "rejected": Outcome.REJECTED, "late": Outcome.LATE}
JUDGE_TIMEOUT_S, FETCH_TIMEOUT_S = 1800.0, 60.0
LOOK_S = 0.5
TRIES = 3
AHEAD = 2
"""Files that are fetched beside the one under check: a fetch takes less time than a prefill, one might do."""
MEMBERS_S = 60.0
"""For how long a list of the pool's validators is good enough to tell whose turn it is."""


class Judge:
    """Answers the dockets that wait."""

    def __init__(self, place: Place, policies: Policies, dockets: Dockets) -> None:
        self._place, self._policies, self._dockets = place, policies, dockets
        self._ledger, self._pool_id = place.ledger, place.pool_id
        self._validators: dict[str, int] = {}
        self._listed_s = -MEMBERS_S

    async def run(self, verifier: Child) -> None:
        """For ever. A fault leaves its docket waiting: it comes again."""
        with (waits := Waits(self._place.metrics)).kept():
            while True:
                entry = self._dockets.waiting(await on_chain(self._ledger.chain_time_s))
                if entry is None:
                    waits.on(Activity.IDLE)
                    await trio.sleep(LOOK_S)
                else:
                    waits.over()
                    await self._attend(verifier, entry)

    async def fetch_ahead(self) -> None:
        """For ever: the files of the next dockets are on this machine when their turn comes."""
        fetched: set[bytes] = set()
        while True:
            upcoming = self._dockets.next_up(await on_chain(self._ledger.chain_time_s), 1 + AHEAD)[1:]
            fetched &= {entry.docket_id for entry in upcoming}
            for entry in upcoming:
                if entry.docket_id not in fetched and entry.kind is Kind.SUBMISSION and entry.finding is None:
                    await self._fetch_early(entry)
                    fetched.add(entry.docket_id)
            await trio.sleep(LOOK_S)

    async def _fetch_early(self, entry: Entry) -> None:
        """A fault here is none: the file is asked for again when it is needed."""
        submission = await self._subject(entry, None)
        if submission is None:
            return
        claim = await claim_of(self._ledger, submission)
        try:
            if worth_fetching(claim, self._place.config.rl.asynchrony):
                await _fetch(self._place, submission)
        except (NetworkDown, ChildError) as fault:
            log.info("submission %s is not fetched early: %s", entry.docket_id.hex(), fault)

    async def _attend(self, verifier: Child, entry: Entry) -> None:
        ledger, docket_id = self._ledger, entry.docket_id
        docket = await on_chain(ledger.docket, docket_id)
        submission = await self._subject(entry, docket)
        if submission is None or (docket and docket.outcome is not Outcome.PENDING):
            self._dockets.done(docket_id)
            return
        terms = await on_chain(ledger.terms, self._pool_id)
        file = None if docket else await on_chain(ledger.file, submission)
        opened_s = docket.opened_unix_s if docket else submission.time_unix_s
        try:
            await on_chain(partial(ledger.require_drawn, docket_id, self._place.address, file=file))
            finding = entry.finding
            if finding is None:
                again_s = await self._stand_by_until(docket_id, submission, docket, terms, opened_s)
                if again_s is not None:
                    self._dockets.look_again(docket_id, again_s)
                    return
                finding = await self._judge(verifier, entry, submission)
            if finding is None:
                return
            answer = Answer(docket_id=docket_id, verdict=finding.verdict, file=file)
            if (docket or terms).quorum > 1:
                await on_chain(ledger.commit, answer)
                self._dockets.commit(docket_id)
            else:
                await on_chain(ledger.reveal, answer)
                self._dockets.revealed(docket_id)
                clerk.report(self._place.metrics, submission, finding)
        except Reverted as refused:
            await self._refused(entry, refused, opened_s, terms)

    async def _stand_by_until(
        self, docket_id: bytes, submission: Submission, docket: Docket | None, terms: Terms, opened_s: float
    ) -> float | None:
        """When to look again, where others are called before this validator; None where it is its turn."""
        own, now_s = self._place.address, await on_chain(self._ledger.chain_time_s)
        await self._list_validators(own)
        # Who joined after the work may not judge it.
        able = [address for address, since_s in self._validators.items() if since_s <= submission.time_unix_s]
        block = docket.seed_block if docket else submission.block
        order = await on_chain(partial(self._ledger.draw_order, docket_id, {*able, own}, block=block))
        quorum, rounds = (docket or terms).quorum, rounds_of(opened_s, terms, now_s)
        count = called(quorum, rounds=rounds, shown=self._dockets.shown(docket_id))
        return None if order.index(own) < count else next_round_s(opened_s, terms, now_s)

    async def _list_validators(self, own: str) -> None:
        if own in self._validators and trio.current_time() < self._listed_s + MEMBERS_S:
            return
        members = await on_chain(self._ledger.members, self._pool_id)
        self._validators = {m.address: m.since_unix_s for m in members if m.active and m.role is Role.VALIDATOR}
        self._listed_s = trio.current_time()

    async def _subject(self, entry: Entry, docket: Docket | None) -> Submission | None:
        """The submission to judge; an appeal is about an earlier one."""
        if entry.kind is Kind.SUBMISSION:
            return await on_chain(partial(self._ledger.submission, entry.docket_id, block=entry.block))
        found = docket and await on_chain(self._ledger.submission, docket.about)
        if not found:
            log.warning("appeal %s is about no submission: no check can judge it", entry.docket_id.hex())
        return found

    async def _refused(self, entry: Entry, refused: Reverted, opened_s: float, terms: Terms) -> None:
        """Why the court takes no verdict of this validator now decides when to ask again."""
        if refused.error_name == "AlreadyCommitted":  # by this node, before it was stopped
            self._dockets.commit(entry.docket_id)
            return
        if refused.error_name == "NotActiveMember":
            raise_if_blacklisted(await on_chain(self._ledger.member, self._pool_id, self._place.address), self._pool_id)
        now_s = await on_chain(self._ledger.chain_time_s)
        again_s = look_again_s(refused.error_name, opened_s=opened_s, terms=terms, now_s=now_s)
        if again_s is None:
            log.error("the court refused a verdict on %s: %s", entry.docket_id.hex(), refused)
            again_s = now_s + LATER_S
        if again_s == NEVER:
            log.info("submission %s is not this validator's to judge: %s", entry.docket_id.hex(), refused)
            self._dockets.done(entry.docket_id)
        else:
            self._dockets.look_again(entry.docket_id, again_s)

    async def _judge(self, verifier: Child, entry: Entry, submission: Submission) -> Finding | None:
        """What the checks say, kept on disk before anybody is told; None where they have failed too often."""
        if entry.tries >= TRIES:
            log.error("no verdict on %s after %d tries", submission.submission_id.hex(), TRIES)
            self._dockets.done(entry.docket_id)
            return None
        claim, metrics = await claim_of(self._ledger, submission), self._place.metrics
        if not self._policies.has(claim["newest_version"]):
            with span(metrics, Activity.WAITING_FOR_POLICY, submission.step):
                await self._policies.wait_for(partial(self._policies.has, claim["newest_version"]))
        path = None
        if worth_fetching(claim, self._place.config.rl.asynchrony):
            with span(metrics, Activity.FETCHING, submission.step):
                path = await _fetch(self._place, submission)
        self._dockets.begin_try(entry.docket_id)
        with span(metrics, Activity.CHECKING, submission.step):
            said = await verifier.call(
                "judge",
                timeout_s=JUDGE_TIMEOUT_S,
                path=path and str(path.absolute()),
                claim=claim,
                folders={str(version): str(folder.absolute()) for version, folder in self._policies.folders.items()},
            )
        finding = finding_of(said, submission, claim)
        self._dockets.found(entry.docket_id, finding)
        return finding


def finding_of(said: Mapping[str, Any], submission: Submission, claim: Mapping[str, Any]) -> Finding:
    """The verifier's answer as a verdict: units are the completion tokens of an accepted submission."""
    rejection, outcome = said["rejection"], OUTCOMES[said["outcome"]]
    evidence = encode(
        Evidence(
            submission_id=submission.submission_id,
            block=submission.block,
            claim=claim_fields(claim),
            outcome=said["outcome"],
            code=rejection["code"] if rejection else "",
            detail=rejection["detail"] if rejection else "",
            facts=said["facts"],
            checks=tuple((name, code) for name, code in said["checks"]),
        )
    )
    verdict = Verdict(
        outcome=outcome,
        units=int(said["facts"]["tokens"]) if outcome is Outcome.ACCEPTED else 0,
        reason=rejection["code"] if rejection else "",
        evidence_hash=hashlib.sha256(evidence).digest(),
    )
    return Finding(verdict=verdict, evidence=evidence.decode(), seconds=said["seconds"])


async def _fetch(place: Place, submission: Submission) -> Path | None:
    try:
        return await place.network.content.fetch_blob(
            submission.file_hash,
            max_bytes=place.config.relay.max_submission_bytes,
            timeout_s=FETCH_TIMEOUT_S,
            urls=await relay_urls(place.ledger, place.network, place.pool_id),
        )
    except ContentUnavailable as fault:
        log.warning("nobody serves submission %s: %s", submission.submission_id.hex(), fault)
        return None
