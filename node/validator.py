"""The validator: each submission that the ledger records is fetched by its hash, judged, and answered with a verdict.

It puts the parts together: the clerk, who deals with the court (`node.clerk`), the judge, who decides what is checked
and answered when (`node.judge`), the verifier, a process that checks, and whoever hands the evidence over.
"""

from __future__ import annotations

import logging
import sys
from dataclasses import fields
from typing import Any

import trio

from node import clerk
from node.child import ChildDied, ChildError, ChildTimeout, open_child
from node.config import RunConfig
from node.dhtd_link import NetworkDown
from node.dockets import Dockets
from node.judge import Judge
from node.keeper import keep_running
from node.order_desk import OrderDesk
from node.place import Place
from node.policies import Policies
from rl.hardware import thread_environment
from verify.thresholds import Thresholds

log = logging.getLogger(__name__)
START_TIMEOUT_S = 300.0
BOUNDS = {field.name for field in fields(Thresholds)}


async def run(place: Place, policies: Policies, desk: OrderDesk) -> None:
    """Judge until cancelled. Raises Blacklisted."""
    config, ledger, data_dir, pool_id = place.config, place.ledger, place.data_dir, place.pool_id
    dockets = Dockets(data_dir / "dockets.sqlite", ledger.deployment.salt.hex())
    judge = Judge(place, policies, dockets)

    async def check() -> None:
        async with open_child(
            [sys.executable, "-m", config.validator.verifier, *config.validator.verifier_arguments],
            name="verifier",
            log_path=data_dir / "verifier.log",
            env=thread_environment(config.validator.threads) | {"HF_HUB_OFFLINE": "1"},
        ) as verifier:
            await verifier.call(
                "start",
                timeout_s=START_TIMEOUT_S,
                **verifier_options(config),
                earlier=str((data_dir / "earlier.sqlite").absolute()),
            )
            log.info("verifier ready")
            await judge.run(verifier)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: policies.follow(behind=config.network.keep_versions - 1))
        cursor = ledger.cursor(data_dir / "ledger.sqlite", "validator")
        nursery.start_soon(clerk.take_in, ledger, cursor, dockets, pool_id)
        nursery.start_soon(clerk.see_through, ledger, dockets, place.metrics, pool_id)
        nursery.start_soon(clerk.hand_in_evidence, place, dockets)
        await policies.wait_for(lambda: policies.newest >= 0)
        nursery.start_soon(judge.fetch_ahead)
        faults = (ChildDied, ChildError, ChildTimeout, NetworkDown)
        await keep_running(check, desk, faults=faults, told="a check could not be made, trying again")


def verifier_options(config: RunConfig) -> dict[str, Any]:
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
            "length_targets": config.task.length_targets,
            "length_alpha": config.task.length_alpha,
            "max_policy_lag": config.rl.asynchrony,
            "max_file_bytes": config.relay.max_submission_bytes,
            "eos_probability": config.validator.eos_probability,
            "count_endings": config.validator.count_endings,
            "audit_share": config.validator.audit_share,
        },
        "thresholds": {name: value for name, value in config.validator.model_dump(include=BOUNDS).items() if value},
    }
