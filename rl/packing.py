"""Lays groups of completions out in one row of tokens, so that each prompt is computed once, not once a completion.

Row of a group: the prompt, then its completions one after another; every completion's positions continue from
the prompt's end, and attention is blocked so that a token sees its group's prompt and its own completion only.
A completion's last token only needs predicting, so it is left out. The mathematics is that of separate sequences;
for 44 prompt and 8 x 14 completion tokens it takes a third of the tokens. Pure numpy: no model is run here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

Group = tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]
"""Prompt token ids, and the token ids of each completion."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """One row of `tokens` tokens holding `targets` completion tokens."""

    ids: np.ndarray
    """int64 [tokens]."""
    positions: np.ndarray
    """int64 [tokens], from 0 in each sequence."""
    allowed: np.ndarray
    """bool [tokens, tokens]: may the row's token attend to the column's."""
    source_rows: np.ndarray
    """int64 [targets]: the row whose output is the distribution that each completion token was sampled from."""
    targets: np.ndarray
    """int64 [targets]: the completion tokens, in the order of the groups and their completions."""


def pack(groups: Sequence[Group]) -> Packed:
    """Pack groups into one row. Prompts and completions must not be empty."""
    ids: list[int] = []
    positions: list[int] = []
    prompt_of: list[int] = []
    segment_of: list[int] = []
    source_rows: list[int] = []
    targets: list[int] = []
    segment = 0
    for prompt, completions in groups:
        if not prompt or not all(completions):
            raise ValueError("an empty prompt or completion cannot be packed")
        prompt_segment = segment
        last_of_prompt = len(ids) + len(prompt) - 1
        for start, tokens in ((0, prompt), *((len(prompt), tokens) for tokens in completions)):
            fed = tokens
            if segment != prompt_segment:
                fed, first = tokens[:-1], len(ids)
                source_rows += [last_of_prompt, *range(first, first + len(fed))]
                targets += tokens
            ids += fed
            positions += range(start, start + len(fed))
            prompt_of += [prompt_segment] * len(fed)
            segment_of += [segment] * len(fed)
            segment += 1
    segments, prompts = np.asarray(segment_of), np.asarray(prompt_of)
    visible = (segments[:, None] == segments) | (prompts[:, None] == segments)
    return Packed(
        ids=np.asarray(ids, dtype=np.int64),
        positions=np.asarray(positions, dtype=np.int64),
        allowed=visible & np.tri(len(ids), dtype=bool),
        source_rows=np.asarray(source_rows, dtype=np.int64),
        targets=np.asarray(targets, dtype=np.int64),
    )


def packed_length(prompt: tuple[int, ...], completions: Sequence[tuple[int, ...]]) -> int:
    """Tokens that a group takes in a row."""
    return len(prompt) + sum(len(completion) - 1 for completion in completions)


def split_by_tokens(groups: Sequence[Group], max_tokens: int) -> list[list[int]]:
    """Indices of consecutive groups whose packed rows have at most `max_tokens` tokens; a larger group stands alone."""
    batches: list[list[int]] = []
    room = 0
    for index, (prompt, completions) in enumerate(groups):
        size = packed_length(prompt, completions)
        if not batches or size > room:
            batches.append([])
            room = max_tokens
        batches[-1].append(index)
        room -= size
    return batches
