"""What the ledger says of a submission, as of the block that recorded it.

Decides what a claim's fields follow from: the chain alone, so that every validator, and whoever asks later, gets the
same. It judges nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ledger.client import Ledger
from ledger.types import Submission
from node.chain import on_chain
from rl.draw import MAX_SUBMISSIONS


def worth_fetching(claim: Mapping[str, Any], asynchrony: int) -> bool:
    """Whether the ledger's entry can be accepted at all; if not, the file is not fetched and the verdict is late."""
    in_reach = claim["open_step"] <= claim["step"] <= claim["newest_version"] + asynchrony
    return in_reach and claim["counter"] < MAX_SUBMISSIONS


async def claim_of(ledger: Ledger, submission: Submission) -> dict[str, Any]:
    """The fields of `verify.rules.Claim`."""
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
