"""What a cheat does to finished completions: pure functions of rollouts, each with the right proofs made afterwards.

Texts and rewards are left as they are; no check that is studied here reads them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from rl.rollouts import Rollout

STOP_AFTER = 24
"""Tokens after which an early stop puts its EOS."""


def early_stop(rollout: Rollout, eos_token_id: int) -> Rollout:
    """Ended by an EOS after `STOP_AFTER` tokens, or half-way where it is shorter."""
    kept = min(STOP_AFTER, len(rollout.completion_ids) // 2)
    return replace(rollout, completion_ids=(*rollout.completion_ids[:kept], eos_token_id), finish_reason="eos")


def edited_token(rollout: Rollout, eos_token_id: int) -> Rollout:
    """With another of its own tokens in one place, as one number of a calculation stands for another."""
    ids = list(rollout.completion_ids)
    drawn = random.Random(f"{rollout.counter} {rollout.group} {rollout.sample}")
    places = [place for place, token in enumerate(ids) if token != eos_token_id]
    place = drawn.choice(places or [0])
    others = sorted({token for token in ids if token not in (eos_token_id, ids[place])}) or [ids[place] ^ 1]
    ids[place] = drawn.choice(others)
    return replace(rollout, completion_ids=tuple(ids))


ALTERATIONS: Mapping[str, Callable[[Rollout, int], Rollout]] = {
    "early stop": early_stop,
    "edited token": edited_token,
    "replay": lambda rollout, eos_token_id: rollout,
}


def altered(rollouts: Sequence[Rollout], alteration: str, *, eos_token_id: int) -> list[Rollout]:
    """Every rollout, altered."""
    return [ALTERATIONS[alteration](rollout, eos_token_id) for rollout in rollouts]
