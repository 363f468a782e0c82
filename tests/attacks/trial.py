"""An attack before the real checks: what they say, and what they would say if any single one of them were off.

It decides which check carries an attack (the one that ends it), who else would have found it, and whether the carrier
stands alone.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rl.rollouts import write_rollouts
from tests.attacks.attack import Attack, Offer
from tests.attacks.stage import Stage
from tests.verify.conftest import short
from verify.rules import Claim
from verify.verdict import CHECKS, examine, judge


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """All that the checks say of one attack."""

    attack: Attack
    outcome: str
    """As of `tests.verify.conftest.short`."""
    without: dict[str, str]
    """Check that is off: outcome."""
    made: tuple[str, ...]
    """Checks that could be made at all."""
    found: tuple[str, ...]
    """Those of them that find something, in order."""

    @property
    def carrier(self) -> str:
        """The check without which the outcome is another. Raises ValueError where that is not exactly one."""
        (name,) = (name for name, outcome in self.without.items() if outcome != self.outcome)
        return name

    @property
    def bars_others(self) -> bool:
        """Whether checks were not made because they take for granted what failed."""
        return len(self.made) < len(CHECKS)


def put(offer: Offer, folder: Path) -> tuple[Path | None, Claim]:
    """The offer's file, written, and the ledger's entry about it. The next one overwrites it."""
    path = folder / "submission.parquet"
    match offer.content:
        case None:
            return None, offer.claim
        case bytes(data):
            path.write_bytes(data)
        case rollouts:
            write_rollouts(path, tuple(rollouts))
    recorded = offer.claim.file_hash or hashlib.sha256(path.read_bytes()).digest()
    return path, replace(offer.claim, file_hash=recorded)


def terms(stage: Stage, offer: Offer, claim: Claim) -> dict[str, Any]:
    """What `verify.verdict.judge` and `examine` are told beside the file."""
    return {
        "claim": claim,
        "rules": offer.rules,
        "task": stage.world.task,
        "load_policy": lambda version: stage.policy,
        "earlier": offer.earlier,
    }


def outcome_of(stage: Stage, offer: Offer) -> str:
    """The verdict in short. Raises CheckFailed where a check breaks, which is a fault of the check."""
    path, claim = put(offer, stage.world.scratch)
    return short(judge(path, **terms(stage, offer, claim)))


def try_out(stage: Stage, attack: Attack) -> Trial:
    """Judge the attack with all checks, then once for each check without it."""
    offer = attack.make(stage)
    path, claim = put(offer, stage.world.scratch)
    told = terms(stage, offer, claim)
    findings = examine(path, **told)
    return Trial(
        attack=attack,
        outcome=short(judge(path, **told)),
        without={check.name: short(judge(path, **told, without=frozenset({check.name}))) for check in CHECKS},
        made=tuple(name for name, _ in findings),
        found=tuple(name for name, finding in findings if finding is not None),
    )
