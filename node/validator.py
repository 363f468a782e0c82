"""The validator: each submission that the ledger records is fetched by its hash, judged, and answered with a verdict.

A verdict comes from checks that ran to their end and from nothing else: a crash, a missing policy or a lost chain
leads to another try and in the end to silence, which slashes nobody. A file that nobody serves is late. It answers only
where the court has drawn it; see `node.clerk` for what happens around that.
"""

from __future__ import annotations

import hashlib
import json
import logging
import sys
from collections.abc import Mapping
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

import trio

from dht.plan import ContentUnavailable
from ledger.client import Ledger
from ledger.court import Answer
from ledger.errors import Reverted
from ledger.types import Docket, Kind, Outcome, Submission, Terms, Verdict
from node import clerk
from node.chain import on_chain
from node.child import Child, ChildDied, ChildError, ChildTimeout, open_child
from node.config import RunConfig
from node.dhtd_link import NetworkDown
from node.dockets import Dockets, Entry, Finding
from node.handover import relay_urls
from node.keeper import keep_running
from node.membership import raise_if_blacklisted
from node.order_desk import OrderDesk
from node.panel import LATER_S, NEVER, look_again_s
from node.place import Place
from node.policies import Policies
from rl.draw import MAX_SUBMISSIONS
from rl.hardware import thread_environment
from verify.thresholds import Thresholds

log = logging.getLogger(__name__)
OUTCOMES = {"accepted": Outcome.ACCEPTED, "rejected": Outcome.REJECTED, "late": Outcome.LATE}
START_TIMEOUT_S, JUDGE_TIMEOUT_S, FETCH_TIMEOUT_S = 300.0, 1800.0, 60.0
LOOK_S = 0.5
TRIES = 3
BOUNDS = {field.name for field in fields(Thresholds)}


async def run(place: Place, policies: Policies, desk: OrderDesk) -> None:
    """Judge until cancelled. Raises Blacklisted."""
    config, ledger, data_dir, pool_id = place.config, place.ledger, place.data_dir, place.pool_id
    dockets = Dockets(data_dir / "dockets.sqlite", ledger.deployment.salt.hex())
    judge = Judge(place, policies, dockets)

    async def check() -> None:
        async with open_child(
            [sys.executable, "-m", "node.verifier_child"],
            name="verifier",
            log_path=data_dir / "verifier.log",
            env=thread_environment(config.validator.threads) | {"HF_HUB_OFFLINE": "1"},
        ) as verifier:
            await verifier.call(
                "start",
                timeout_s=START_TIMEOUT_S,
                **_verifier_options(config),
                earlier=str((data_dir / "earlier.sqlite").absolute()),
            )
            log.info("verifier ready")
            await judge.run(verifier)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: policies.follow(behind=config.network.keep_versions - 1))
        cursor = ledger.cursor(data_dir / "ledger.sqlite", "validator")
        nursery.start_soon(clerk.take_in, ledger, cursor, dockets, pool_id)
        nursery.start_soon(clerk.see_through, ledger, dockets, place.metrics, pool_id)
        await policies.wait_for(lambda: policies.newest >= 0)
        faults = (ChildDied, ChildError, ChildTimeout, NetworkDown)
        await keep_running(check, desk, faults=faults, told="a check could not be made, trying again")


class Judge:
    """Answers the dockets that wait, one after the other, in the ledger's order."""

    def __init__(self, place: Place, policies: Policies, dockets: Dockets) -> None:
        self._place, self._policies, self._dockets = place, policies, dockets
        self._ledger, self._pool_id = place.ledger, place.pool_id

    async def run(self, verifier: Child) -> None:
        """For ever. A fault leaves its docket waiting: it comes again."""
        while True:
            entry = self._dockets.waiting(await on_chain(self._ledger.chain_time_s))
            if entry is None:
                await trio.sleep(LOOK_S)
            else:
                await self._attend(verifier, entry)

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
            finding = entry.finding or await self._judge(verifier, entry, submission)
            if finding is None:
                return
            answer = Answer(docket_id=docket_id, verdict=finding.verdict, file=file)
            if (docket or terms).quorum > 1:
                await on_chain(ledger.commit, answer)
                self._dockets.commit(docket_id)
            else:
                await on_chain(ledger.reveal, answer)
                self._dockets.done(docket_id)
                clerk.report(self._place.metrics, submission, finding)
        except Reverted as refused:
            await self._refused(entry, refused, opened_s, terms)

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
        claim = await _claim(self._ledger, submission)
        await self._policies.wait_for(partial(self._policies.has, claim["newest_version"]))
        worth = worth_fetching(claim, self._place.config.rl.asynchrony)
        path = await _fetch(self._place, submission) if worth else None
        self._dockets.begin_try(entry.docket_id)
        said = await verifier.call(
            "judge",
            timeout_s=JUDGE_TIMEOUT_S,
            path=path and str(path.absolute()),
            claim=claim,
            folders={str(version): str(folder.absolute()) for version, folder in self._policies.folders.items()},
        )
        finding = finding_of(said)
        self._dockets.found(entry.docket_id, finding)
        return finding


def finding_of(said: Mapping[str, Any]) -> Finding:
    """The verifier's answer as a verdict: units are the completion tokens of an accepted submission."""
    rejection, outcome = said["rejection"], OUTCOMES[said["outcome"]]
    evidence = json.dumps({"rejection": rejection, "facts": said["facts"]}, sort_keys=True)
    verdict = Verdict(
        outcome=outcome,
        units=int(said["facts"]["tokens"]) if outcome is Outcome.ACCEPTED else 0,
        reason=rejection["code"] if rejection else "",
        evidence_hash=hashlib.sha256(evidence.encode()).digest(),
    )
    return Finding(verdict=verdict, evidence=evidence, seconds=said["seconds"])


def worth_fetching(claim: Mapping[str, Any], asynchrony: int) -> bool:
    """Whether the ledger's entry can be accepted at all; if not, the file is not fetched and the verdict is late."""
    in_reach = claim["open_step"] <= claim["step"] <= claim["newest_version"] + asynchrony
    return in_reach and claim["counter"] < MAX_SUBMISSIONS


async def _claim(ledger: Ledger, submission: Submission) -> dict[str, Any]:
    """What the ledger says of a submission, as of its block (fields of `verify.rules.Claim`)."""
    checkpoint = await on_chain(ledger.latest_checkpoint, submission.pool_id)
    while checkpoint.block > submission.block and checkpoint.version > 0:
        checkpoint = await on_chain(ledger.checkpoint, submission.pool_id, checkpoint.version - 1)
    return {
        "run_id": ledger.run_id(submission.pool_id),
        "worker": submission.node,
        "step": submission.step,
        "counter": submission.counter,
        "file_hash": submission.file_hash,
        # Policy v is trained on steps 0 to v - 1: when it was announced, those were closed.
        "open_step": checkpoint.version,
        "newest_version": checkpoint.version,
        # Nobody knew this block's hash when the submission was sent.
        "audit_seed": await on_chain(ledger.block_hash, submission.block),
        "position": submission.block,
    }


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


def _verifier_options(config: RunConfig) -> dict[str, Any]:
    """What the pool demands (fields of `verify.rules.Rules` and `verify.thresholds.Thresholds`)."""
    return {
        "task": config.task.name,
        "compute_type": config.model.compute_type,
        "rules": {
            "groups": config.rl.groups_per_submission,
            "samples": config.rl.group_size,
            "max_new_tokens": config.task.max_new_tokens,
            "temperature": config.rl.temperature,
            "top_k": config.rl.top_k,
            "top_p": config.rl.top_p,
            "seeded": config.rl.seeded,
            "system_prompt": config.task.system_prompt or None,
            "max_policy_lag": config.rl.asynchrony,
            "max_file_bytes": config.relay.max_submission_bytes,
            "eos_probability": config.validator.eos_probability,
            "count_endings": config.validator.count_endings,
            "audit_share": config.validator.audit_share,
        },
        "thresholds": {name: value for name, value in config.validator.model_dump(include=BOUNDS).items() if value},
    }
