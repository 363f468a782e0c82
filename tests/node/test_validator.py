"""What the ledger said when a submission was recorded decides whether it was late, not what it says now."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from ledger.types import Checkpoint, Outcome, Submission
from node import claims, validator
from node.config import RunConfig
from rl.seeded import Sampling
from verify.rules import Claim, Rules
from verify.thresholds import Thresholds

WORKER = "0x" + "11" * 20


@dataclass
class FakeLedger:
    """Checkpoint v was announced in `blocks[v]`."""

    blocks: list[int]

    def checkpoint(self, pool_id: int, version: int) -> Checkpoint:
        assert pool_id == 3
        return Checkpoint(version=version, manifest_hash=b"m" * 32, block=self.blocks[version], epoch=1)

    def latest_checkpoint(self, pool_id: int) -> Checkpoint:
        return self.checkpoint(pool_id, len(self.blocks) - 1)

    def block_hash(self, number: int) -> bytes:
        return number.to_bytes(32, "big")

    def run_id(self, pool_id: int) -> bytes:
        return bytes([pool_id]) * 32


def submission(block: int, step: int = 2) -> Submission:
    return Submission(
        submission_id=b"s" * 32, pool_id=3, step=step, counter=1, node=WORKER, file_hash=b"f" * 32, block=block,
        time_unix_s=0, outcome=Outcome.PENDING,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("block", "version"),
    [(5, 0), (10, 0), (19, 0), (20, 1), (21, 1), (29, 1), (30, 2), (40, 3), (99, 3)],
)
async def test_a_claim_is_as_of_the_submissions_block(block: int, version: int) -> None:
    ledger = FakeLedger([10, 20, 30, 40])
    fields = await claims.claim_of(ledger, submission(block))  # type: ignore[arg-type]
    assert Claim(**fields) == Claim(
        run_id=b"\3" * 32, worker=WORKER, step=2, counter=1, file_hash=b"f" * 32, open_step=version,
        newest_version=version, audit_seed=block.to_bytes(32, "big"), position=block,
    )  # fmt: skip


async def test_work_recorded_after_its_step_was_trained_is_late() -> None:
    """Policy 3, announced in block 40, was trained on step 2."""
    ledger = FakeLedger([10, 20, 30, 40])
    recorded = [Claim(**await claims.claim_of(ledger, submission(block))) for block in (39, 40)]  # type: ignore[arg-type]
    assert [claim.step < claim.open_step for claim in recorded] == [False, True]


def test_the_pools_demands_are_the_rules_own_fields() -> None:
    options = validator.verifier_options(RunConfig.model_validate({}))
    rules = Rules(**options["rules"], thresholds=Thresholds(**options["thresholds"]))
    assert rules.thresholds == Thresholds(), "the config's defaults are the measured ones"
    assert rules.system_prompt is None
    assert rules.seeded
    assert rules.sampling == Sampling()


def test_a_pools_own_bounds_replace_the_measured_ones_and_no_others() -> None:
    config = RunConfig.model_validate({"validator": {"exponent_mean": 5.0, "margin_most": 1.5}})
    assert validator.verifier_options(config)["thresholds"] == {"exponent_mean": 5.0, "margin_most": 1.5}


@pytest.mark.parametrize(
    ("step", "counter", "worth"),
    [(3, 0, True), (5, 63, True), (2, 0, False), (6, 0, False), (3, 64, False), (2**63, 2**31, False)],
)
def test_attack_entries_that_cannot_be_accepted_cost_no_fetch(step: int, counter: int, worth: bool) -> None:
    claim = {"step": step, "counter": counter, "open_step": 3, "newest_version": 3}
    assert claims.worth_fetching(claim, 2) is worth
