"""Others' completions, or one's own of long ago, handed in as new: whole, in part, and with tokens changed.

The copier proves what it copied by a prefill of its own, so that proofs and log-probabilities are the policy's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rl.rollouts import Rollout
from tests.attacks.attack import Family, Offer
from tests.attacks.stage import Stage
from tests.verify.conftest import CLAIM, UNSEEDED
from verify.earlier import EarlierWork

COPIES = Family("Copies")
POSITION = 10
"""The copier's, in the ledger's order."""
VICTIMS = 3


def recorded(rollouts: Sequence[Rollout], position: int = VICTIMS) -> EarlierWork:
    """An index of accepted work that holds these rollouts, as of an entry at that position."""
    index = EarlierWork(None)
    index.add(CLAIM.run_id, position, bytes(32), rollouts)
    return index


def _copied(stage: Stage, rows: Sequence[Rollout], *, seeded: bool = False) -> Offer:
    offer = Offer(
        content=stage.world.prove(rows),
        claim=replace(CLAIM, position=POSITION),
        earlier=recorded(stage.others),
    )
    return offer if seeded else replace(offer, rules=UNSEEDED)


@COPIES.by("copier", "copy")
def completions_of_another_worker(stage: Stage) -> Offer:
    """Takes another worker's completions of the same problems as its own, proven anew."""
    return _copied(stage, stage.others)


@COPIES.by("copier", "copy")
def completions_of_another_worker_in_a_seeded_pool(stage: Stage) -> Offer:
    """Does the same where each token is forced."""
    return _copied(stage, stage.others, seeded=True)


@COPIES.by("copier", "copy")
def with_two_tokens_changed(stage: Stage) -> Offer:
    """Changes two tokens of each completion that it took, so that no hash tells."""
    rows = []
    for rollout in stage.others:
        ids = list(rollout.completion_ids)
        for place in (len(ids) // 3, 2 * len(ids) // 3):
            ids[place] = 3 + (ids[place] + 11) % 95
        rows.append(stage.with_tokens(rollout, ids))
    return _copied(stage, rows)


@COPIES.by("copier", "copy")
def in_another_order(stage: Stage) -> Offer:
    """Takes another's completions and deals them out anew within each group."""
    rows = stage.others
    samples = UNSEEDED.samples
    return _copied(
        stage, [replace(rows[n - r.sample + (r.sample + 1) % samples], sample=r.sample) for n, r in enumerate(rows)]
    )


@COPIES.by("copier", "copy")
def one_completion_among_its_own(stage: Stage) -> Offer:
    """Takes a single good completion, and computes the others."""
    row = next(n for n, r in enumerate(stage.others) if len(r.completion_ids) == 40)
    return _copied(stage, [*stage.unseeded[:row], stage.others[row], *stage.unseeded[row + 1 :]])


@COPIES.by("copier", "copy")
def beginnings_only(stage: Stage) -> Offer:
    """Takes the first 12 tokens of each completion and goes on in its own way."""
    taken = [r.completion_ids[:12] for r in stage.others]
    rows = []
    for rollout, begin in zip(stage.unseeded, taken, strict=True):
        rest = rollout.completion_ids[12:]
        whole = begin if 0 in begin or not rest else (*begin, *rest)
        rows.append(stage.with_tokens(rollout, whole) if len(whole) == 40 or whole[-1] == 0 else rollout)
    return _copied(stage, rows)


@COPIES.by("copier", "copy")
def middles_only(stage: Stage) -> Offer:
    """Hides 16 copied tokens in the middle of completions of its own."""
    rows = []
    for own, other in zip(stage.unseeded, stage.others, strict=True):
        part = other.completion_ids[10:26]
        fits = len(own.completion_ids) > 30 and len(part) == 16 and 0 not in part
        ids = (*own.completion_ids[:10], *part, *own.completion_ids[26:]) if fits else own.completion_ids
        rows.append(stage.with_tokens(own, ids))
    return _copied(stage, rows)


@COPIES.by("copier", "copy")
def its_own_completions_of_a_step_before(stage: Stage) -> Offer:
    """Drew a problem again, and hands in what it was paid for last time."""
    before = recorded(stage.others, POSITION - 1)
    return replace(_copied(stage, stage.others), earlier=before)
