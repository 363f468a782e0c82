"""Which groups of a submission are run through the policy, and how surely that catches a cheat.

A pool may look at a share of the groups. Which ones follows from a block that nobody knew when the submission was
made, so no group is safer to fake than another. It decides by hash alone, and refuses to look at none.
"""

from __future__ import annotations

from math import ceil, comb

from eth_utils import keccak


def audited_groups(seed: bytes, file_hash: bytes, groups: int, share: float) -> tuple[int, ...]:
    """The groups to check, ascending; all of them where there is no seed.

    Args:
        seed: hash of the block that recorded the submission, which nobody knew when it was made.
        file_hash: of the submission, so that two submissions of one block are audited apart.
    """
    if not seed:
        return tuple(range(groups))
    start = b"intellect-node/audit/1" + seed + file_hash
    order = sorted(range(groups), key=lambda group: keccak(start + group.to_bytes(4, "big")))
    return tuple(sorted(order[: audited_count(share, groups)]))


def audited_count(share: float, groups: int) -> int:
    """How many of `groups` a share means: rounded up, at least one."""
    return max(1, ceil(round(share * groups, 9)))


def audit_catch(share: float, groups: int, cheated: int, submissions: int = 1) -> float:
    """Probability that the audits meet one of `cheated` faked groups (hypergeometric, exact).

    Args:
        submissions: how many submissions with so many faked groups each are audited, independently.
    """
    if not 0 <= cheated <= groups:
        raise ValueError(f"{cheated} of {groups} groups cannot be faked")
    seen = audited_count(share, groups)
    return 1.0 - (comb(groups - cheated, seen) / comb(groups, seen)) ** submissions


def share_needed(groups: int, cheated: int, submissions: int = 1, sure: float = 0.99) -> float:
    """The least share that catches such a cheat with probability `sure`. Raises ValueError if nobody cheats."""
    for seen in range(1, groups + 1):
        if audit_catch(seen / groups, groups, cheated, submissions) >= sure:
            return seen / groups
    raise ValueError("no audit meets a faked group where there is none")
