"""Decides by which deltas a policy is reached: a chain, one that skips versions, or all of the policy. Pure.

Cost is bytes, plus for every step what a round of asking and applying costs in bytes that could have arrived meanwhile.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

MAX_STEPS: Final = 8
"""A longer chain is not taken: a joiner needs one whole policy, or a bounded number of deltas."""
STEP_BYTES: Final = 1 << 20
"""What a step costs beyond its bytes: one to two round trips and the reading of the base, 0.05 to 0.2 s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A delta: policy `base` becomes policy `result` by `size_bytes` named `content` (a manifest's id)."""

    base: int
    result: int
    size_bytes: int
    content: bytes


def cheapest(have: Collection[int], want: int, links: Iterable[Link], *, whole_bytes: int) -> tuple[Link, ...] | None:
    """Deltas to apply in order to reach policy `want` from one of `have`; None where all of it is cheaper.

    `whole_bytes`: of policy `want`.
    """
    forward = [link for link in links if link.base < link.result <= want]
    best: dict[int, tuple[int, tuple[Link, ...]]] = {version: (0, ()) for version in have if version <= want}
    for _ in range(MAX_STEPS):  # after n rounds: the cheapest ways of at most n steps
        further = dict(best)
        for link in forward:
            if link.base in best:
                cost, way = best[link.base]
                cost += link.size_bytes + STEP_BYTES
                if link.result not in further or cost < further[link.result][0]:
                    further[link.result] = cost, (*way, link)
        best = further
    cost, way = best.get(want, (whole_bytes + STEP_BYTES, ()))
    return way if cost < whole_bytes + STEP_BYTES else None
