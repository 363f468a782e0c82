"""Work that comes at the wrong time or not at all, and cheats that hope not to be looked at."""

from __future__ import annotations

import hashlib
from dataclasses import replace

from tests.attacks.attack import Family, Offer
from tests.attacks.files import encode, table
from tests.attacks.stage import Stage
from tests.verify.conftest import CLAIM, RULES
from verify.audit import audited_groups

TIMING = Family("Time, and the audit")


@TIMING.by("lazy", "late")
def work_after_the_step_has_closed(stage: Stage) -> Offer:
    """Takes its time, and hands in for a step whose batch is full."""
    return Offer(content=stage.honest, claim=replace(CLAIM, open_step=6))


@TIMING.by("lazy", "stale")
def work_of_an_old_policy(stage: Stage) -> Offer:
    """Spares itself the download and goes on with a policy that is three versions old, and says so."""
    return Offer(content=stage.world.generate(version=2))


@TIMING.by("greedy", "stale")
def work_for_a_step_to_come(stage: Stage) -> Offer:
    """Works ahead with today's policy for a step of next week, to be the first."""
    claim = replace(CLAIM, step=50)
    return Offer(content=stage.world.generate(claim=claim), claim=claim)


@TIMING.by("saboteur", "unavailable")
def a_file_that_nobody_serves(stage: Stage) -> Offer:
    """Records a hash and keeps the file, so that validators look for it."""
    return Offer(content=None)


def seed_that_shows(group: int, file_hash: bytes, *, share: float) -> bytes:
    """An audit seed by which that group is looked at."""
    return next(
        seed
        for seed in (number.to_bytes(32, "big") for number in range(1, 1000))
        if group in audited_groups(seed, file_hash, RULES.groups, share)
    )


@TIMING.by("lazy", "proof-mismatch")
def one_group_faked_where_a_third_is_audited(stage: Stage) -> Offer:
    """Fakes one group of three in a pool that looks at one, and is unlucky."""
    rows = [c if c.group == 2 else r for r, c in zip(stage.honest, stage.in_int4, strict=True)]
    file = encode(table(rows))
    seed = seed_that_shows(2, hashlib.sha256(file).digest(), share=1 / 3)
    return Offer(content=file, rules=replace(RULES, audit_share=1 / 3), claim=replace(CLAIM, audit_seed=seed))
