"""The validator: each submission that the ledger records is fetched by its hash, judged, and answered with a verdict.

A verdict comes from checks that ran to their end and from nothing else: a crash, a missing policy or a lost chain
leads to another try and in the end to silence, which slashes nobody. A file that nobody serves is late.
"""

from __future__ import annotations

import hashlib
import json
import logging
import sys
from collections import Counter
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import trio

from dht.plan import ContentUnavailable
from ledger.client import Ledger
from ledger.errors import Reverted
from ledger.events import SubmissionRecorded
from ledger.types import Outcome, Submission
from node.chain import follow_events, on_chain
from node.child import Child, ChildDied, ChildError, ChildTimeout, open_child
from node.config import RunConfig
from node.dhtd_link import NetworkDown
from node.handover import relay_urls
from node.metrics import MetricsLog
from node.network import Network
from node.policies import Policies
from rl.draw import MAX_SUBMISSIONS
from rl.hardware import thread_environment
from verify.rejection import SENTENCES

log = logging.getLogger(__name__)
OUTCOMES = {"accepted": Outcome.ACCEPTED, "rejected": Outcome.REJECTED, "late": Outcome.LATE}
START_TIMEOUT_S, JUDGE_TIMEOUT_S, FETCH_TIMEOUT_S = 300.0, 1800.0, 60.0
RESTART_FIRST_S, RESTART_LAST_S = 2.0, 60.0
TRIES = 3


async def run(
    config: RunConfig,
    ledger: Ledger,
    network: Network,
    policies: Policies,
    metrics: MetricsLog,
    *,
    address: str,
    data_dir: Path,
) -> None:
    """Judge until cancelled."""
    failures: Counter[bytes] = Counter()
    delay_s, began = RESTART_FIRST_S, trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: policies.follow(behind=config.network.keep_versions - 1))
        await policies.wait_for(lambda: policies.newest >= 0)
        while True:
            try:
                async with open_child(
                    [sys.executable, "-m", "node.verifier_child"],
                    name="verifier",
                    log_path=data_dir / "verifier.log",
                    env=thread_environment(config.validator.threads) | {"HF_HUB_OFFLINE": "1"},
                ) as verifier:
                    await verifier.call("start", timeout_s=START_TIMEOUT_S, **_verifier_options(config))
                    log.info("verifier ready")
                    began = trio.current_time()
                    await _judge_all(config, ledger, network, policies, metrics, verifier, failures, address, data_dir)
            except (ChildDied, ChildError, ChildTimeout, NetworkDown) as fault:
                delay_s = RESTART_FIRST_S if trio.current_time() - began > RESTART_LAST_S else delay_s
                log.error("a check could not be made, trying again in %.0f s: %s", delay_s, fault)
                await trio.sleep(delay_s)
                delay_s = min(2 * delay_s, RESTART_LAST_S)


async def _judge_all(
    config: RunConfig,
    ledger: Ledger,
    network: Network,
    policies: Policies,
    metrics: MetricsLog,
    verifier: Child,
    failures: Counter[bytes],
    address: str,
    data_dir: Path,
) -> None:
    """Every pending submission in the ledger's order. A fault leaves its block uncommitted: it comes again."""
    cursor = ledger.cursor(data_dir / "ledger.sqlite", "validator")
    async for event in follow_events(ledger, cursor):
        if not isinstance(event, SubmissionRecorded) or event.pool_id != config.ledger.pool_id:
            continue
        submission = await on_chain(ledger.submission, event.submission_id)
        if submission.outcome is not Outcome.PENDING or submission.node == address:
            continue
        if failures[submission.submission_id] >= TRIES:
            log.error("no verdict on %s after %d tries", submission.submission_id.hex(), TRIES)
            continue
        claim = await _claim(ledger, submission)
        await policies.wait_for(partial(policies.has, claim["newest_version"]))
        worth = worth_fetching(claim, config.rl.asynchrony)
        path = await _fetch(config, ledger, network, submission) if worth else None
        # Counted before and forgiven after, so that a file which ends this very process is counted as well.
        failures[submission.submission_id] += 1
        verdict = await verifier.call(
            "judge",
            timeout_s=JUDGE_TIMEOUT_S,
            path=path and str(path.absolute()),
            claim=claim,
            folders={str(version): str(folder.absolute()) for version, folder in policies.folders.items()},
        )
        del failures[submission.submission_id]
        await _record(ledger, metrics, submission, verdict)


async def _record(ledger: Ledger, metrics: MetricsLog, submission: Submission, verdict: dict[str, Any]) -> None:
    """Put the verdict on the ledger; the evidence itself is kept in this node's metrics, by its hash."""
    rejection = verdict["rejection"]
    reason = rejection["code"] if rejection else ""
    evidence = json.dumps({"rejection": rejection, "facts": verdict["facts"]}, sort_keys=True)
    evidence_hash = hashlib.sha256(evidence.encode()).digest()
    outcome = OUTCOMES[verdict["outcome"]]
    try:
        await on_chain(ledger.give_verdict, submission.submission_id, outcome, reason, evidence_hash)
    except Reverted as refused:
        if refused.error_name != "AlreadyJudged":
            raise
        log.info("submission %s was judged by another validator first", submission.submission_id.hex())
        return
    words = f": {SENTENCES[reason]} {rejection['detail']}" if rejection else ""
    log.info("%s, step %d of %s%s", verdict["outcome"], submission.step, submission.node, words)
    metrics.write(
        "verdict",
        submission_id=submission.submission_id.hex(),
        node=submission.node,
        step=submission.step,
        outcome=verdict["outcome"],
        reason=reason,
        evidence=evidence,
        evidence_hash=evidence_hash.hex(),
        seconds=round(verdict["seconds"], 3),
    )


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
    }


async def _fetch(config: RunConfig, ledger: Ledger, network: Network, submission: Submission) -> Path | None:
    try:
        return await network.fetch_blob(
            submission.file_hash,
            max_bytes=config.relay.max_submission_bytes,
            timeout_s=FETCH_TIMEOUT_S,
            urls=await relay_urls(ledger, network, config.ledger.pool_id),
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
            "system_prompt": config.task.system_prompt or None,
            "max_policy_lag": config.rl.asynchrony,
            "max_file_bytes": config.relay.max_submission_bytes,
            "eos_probability": config.validator.eos_probability,
        },
        "thresholds": {
            "block_exponents": config.validator.block_exponents,
            "block_mantissa_mean": config.validator.block_mantissa_mean,
            "block_mantissa_median": config.validator.block_mantissa_median,
            "exponent_mean": config.validator.exponent_mean,
            "mantissa_mean": config.validator.mantissa_mean,
        },
    }
