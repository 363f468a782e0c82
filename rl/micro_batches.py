"""A batch of groups as micro-batches: rows of tokens, and beside each completion token what the loss needs of it.

Decides only the alignment: the order of tokens is that of the rows (`rl.packing.plan_rows`), not that of the groups,
so everything that belongs to a token is laid out here, once. The same groups give the same micro-batches, so numbers
that one pass keeps by micro-batch (log-probs of the step's start) fit the next pass. Pure numpy; it knows no loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rl.batch import TrainingGroup
from rl.packing import Packed, Row, pack, plan_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroBatch:
    """One row; all arrays but `packed`'s stand alongside `packed.targets`, [targets]."""

    packed: Packed
    advantages: np.ndarray
    """float64: each token carries its completion's."""
    behaviour_logprobs: np.ndarray
    """float64: as the worker reported them."""
    sequences: np.ndarray
    """int64: number of the token's completion among all of the batch, groups first."""
    lengths: np.ndarray
    """int64: tokens of the token's completion, at least 1."""


def _row(groups: Sequence[TrainingGroup], advantages: Sequence[np.ndarray], first: np.ndarray, row: Row) -> MicroBatch:
    members = [(piece.group, number) for piece in row for number in piece.completions]
    lengths = np.asarray([len(groups[group].completions[number]) for group, number in members])
    laid_out = [
        (groups[piece.group].prompt_ids, tuple(groups[piece.group].completions[n] for n in piece.completions))
        for piece in row
    ]
    return MicroBatch(
        packed=pack(laid_out),
        advantages=np.repeat([float(advantages[group][number]) for group, number in members], lengths),
        behaviour_logprobs=np.concatenate(
            [np.asarray(groups[group].behaviour_logprobs[number], dtype=float) for group, number in members]
        ),
        sequences=np.repeat([first[group] + number for group, number in members], lengths),
        lengths=np.repeat(lengths, lengths),
    )


NOTHING = MicroBatch(
    packed=pack([((0,), ((0,),))]),
    advantages=np.zeros(1),
    behaviour_logprobs=np.zeros(1),
    sequences=np.zeros(1, dtype=np.int64),
    lengths=np.ones(1, dtype=np.int64),
)
"""What a rank computes while others have a micro-batch and it has none: one token, to be counted for zero."""


def micro_batches(
    groups: Sequence[TrainingGroup], advantages: Sequence[np.ndarray], max_tokens: int
) -> list[MicroBatch]:
    """Rows of at most `max_tokens` tokens, as `rl.packing.plan_rows` has them.

    Args:
        advantages: one array [completions] for each group.

    Raises ValueError where an array does not fit its group.
    """
    first = np.cumsum([0, *(len(group.completions) for group in groups)])
    plan = plan_rows([(group.prompt_ids, group.completions) for group in groups], max_tokens)
    for group, values in zip(groups, advantages, strict=True):
        if len(values) != len(group.completions):
            raise ValueError(f"{len(values)} advantages for the {len(group.completions)} completions of a group")
        for completion, logprobs in zip(group.completions, group.behaviour_logprobs, strict=True):
            if len(completion) != len(logprobs):
                raise ValueError(f"{len(logprobs)} log-probabilities for {len(completion)} tokens")
    return [_row(groups, advantages, first, row) for row in plan.rows]
