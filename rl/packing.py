"""Lays groups of completions out in rows of tokens, so that each prompt is computed once, not once a completion.

Row of a group: the prompt, then its completions one after another; every completion's positions continue from
the prompt's end, and attention is blocked so that a token sees its group's prompt and its own completion only.
A completion's last token only needs predicting, so it is left out. The mathematics is that of separate sequences;
for 44 prompt and 8 x 14 completion tokens it takes a third of the tokens.

Which groups share a row is decided by first fit, the longest first; a group that is longer than a row goes in pieces,
each with the prompt. Nothing is cut or left out: a completion that no row holds has one of its own, and is counted.
Pure numpy: no model is run here.
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
    segments: np.ndarray
    """int64 [tokens]: number of the prompt or completion that the token belongs to, rising from 0."""
    prompts: np.ndarray
    """int64 [tokens]: segment of the token's prompt; a prompt's own tokens name themselves."""
    source_rows: np.ndarray
    """int64 [targets]: the row whose output is the distribution that each completion token was sampled from."""
    targets: np.ndarray
    """int64 [targets]: the completion tokens, in the order of the groups and their completions."""

    @property
    def allowed(self) -> np.ndarray:
        """bool [tokens, tokens]: may the row's token attend to the column's. `rl.attention` does without it."""
        visible = (self.segments[:, None] == self.segments) | (self.prompts[:, None] == self.segments)
        return visible & np.tri(len(self.ids), dtype=bool)


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
    return Packed(
        ids=np.asarray(ids, dtype=np.int64),
        positions=np.asarray(positions, dtype=np.int64),
        segments=np.asarray(segment_of, dtype=np.int64),
        prompts=np.asarray(prompt_of, dtype=np.int64),
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Completions of one group that stand in one row, after its prompt."""

    group: int
    completions: tuple[int, ...]
    """Their indices in the group, rising."""
    tokens: int
    """As `packed_length`."""


Row = tuple[Piece, ...]
"""What stands in one row, groups in rising order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Every completion of some groups in exactly one row."""

    rows: tuple[Row, ...]
    max_tokens: int
    overlong: int
    """Completions that exceed `max_tokens` with their prompt alone: each is trained whole, in a row of its own."""

    @property
    def tokens(self) -> int:
        """Tokens of all rows together, prompts that are repeated among them."""
        return sum(piece.tokens for row in self.rows for piece in row)

    @property
    def room(self) -> int:
        """Tokens that the rows could hold; one that is longer than `max_tokens` holds no more than it does."""
        return sum(max(self.max_tokens, sum(piece.tokens for piece in row)) for row in self.rows)


def plan_rows(groups: Sequence[Group], max_tokens: int) -> Plan:
    """Rows of at most `max_tokens` tokens each, filled first-fit-decreasing; of equal lengths the earlier comes first.

    A group that is longer than a row is broken between completions, by the same rule, and its prompt repeated; one
    without completions is in no row. The same groups give the same plan.
    """
    pieces: list[Piece] = []
    overlong = 0
    for index, (prompt, completions) in enumerate(groups):
        sizes = [len(completion) - 1 for completion in completions]
        overlong += sum(len(prompt) + size > max_tokens for size in sizes)
        whole = len(prompt) + sum(sizes) <= max_tokens
        for members in [range(len(sizes))] if whole and sizes else _first_fit(sizes, max_tokens - len(prompt)):
            tokens = len(prompt) + sum(sizes[number] for number in members)
            pieces.append(Piece(group=index, completions=tuple(members), tokens=tokens))
    rows = _first_fit([piece.tokens for piece in pieces], max_tokens)
    return Plan(
        rows=tuple(tuple(pieces[number] for number in row) for row in rows), max_tokens=max_tokens, overlong=overlong
    )


def _first_fit(sizes: Sequence[int], room: int) -> list[list[int]]:
    """Indices by bin of `room`, the largest first, each bin's in rising order; what exceeds `room` is alone in its."""
    bins: list[list[int]] = []
    left: list[int] = []
    for index in sorted(range(len(sizes)), key=lambda index: (-sizes[index], index)):
        size = sizes[index]
        at = next((number for number, free in enumerate(left) if size <= free), len(bins))
        if at == len(bins):
            bins.append([])
            left.append(room if size <= room else size - 1)  # nothing joins what is too long
        bins[at].append(index)
        left[at] -= size
    return [sorted(members) for members in bins]
