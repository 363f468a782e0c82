"""Attention over a packed row at the cost of its sequences, not of the row's square.

On CPUs a row is cut into tiles: some tokens, and what they may see, which is their group's prompt and themselves.
Each is one call of scaled dot product attention with a small mask. Forward and backward in float32, one thread, 9
heads of 64, CPU time with the row's own mask and by tiles: a group of 44 prompt and 8 x 14 completion tokens, 2.5 and
2.9 ms; 7 of them, 108 and 22; one of 100 and 8 x 200, 273 and 57; of 100 and 16 x 400, 4,051 and 337.

On GPUs it is flex attention with a block mask, which transformers compiles into one kernel that skips what is hidden;
torch has no backward pass of it on CPUs. It decides nothing about what sees what (`rl.packing` does). It refuses
batches: a packed row stands alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.nn.attention.flex_attention import BlockMask, create_block_mask
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface

from rl.packing import Packed

TILED = "packed_tiles"
"""Name under which transformers knows `tiled_attention`."""
TILE_TOKENS = 128
"""Completions are put in one tile until it has so many: smaller ones cost calls, larger ones hidden products.
Measured on the rows above: 64 to 256 within noise of each other, 512 up to twice as slow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """`tokens` neighbours in a row. They see the first `prompt` tokens of their group, and themselves, by `mask`."""

    tokens: int
    prompt: int
    """0 where the prompt is among the tokens themselves: in the first tile of a group."""
    mask: torch.Tensor
    """bool [tokens, prompt + tokens]."""


def implementation_for(device: torch.device) -> str:
    """What to load a model with (`attn_implementation`), so that `attention_for` suits it."""
    return "flex_attention" if device.type == "cuda" else TILED


def attention_for(packed: Packed, device: torch.device) -> dict[str, Any]:
    """The arguments of a model's forward pass that say what sees what in this row; see `implementation_for`."""
    if device.type == "cuda":
        return {"attention_mask": block_mask(packed, device)}
    return {"attention_mask": None, "tiles": tiles(packed)}


def tiles(packed: Packed) -> tuple[Tile, ...]:
    """The row cut into tiles, in order; a group's prompt and each completion lie in one tile as a whole."""
    prompts, segments = packed.prompts, packed.segments
    starts = np.flatnonzero(np.diff(segments, prepend=-1))
    ends = np.append(starts[1:], len(segments))
    cuts: list[tuple[int, int, int, int]] = []  # start, end, and where the group's prompt starts and ends
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        if prompts[start] == segments[start]:
            cuts.append((start, end, start, end))
        elif cuts[-1][1] - cuts[-1][0] >= TILE_TOKENS:
            cuts.append((start, end, *cuts[-1][2:]))
        else:
            cuts[-1] = (cuts[-1][0], end, *cuts[-1][2:])
    made = []
    for start, end, prompt_start, prompt_end in cuts:
        seen = prompt_end - prompt_start if start > prompt_start else 0
        own, group = segments[start:end], prompts[start]
        mask = np.ones((end - start, seen + end - start), dtype=bool)
        mask[:, seen:] = ((own[:, None] == own) | (own == group)) & np.tri(end - start, dtype=bool)
        made.append(Tile(tokens=end - start, prompt=seen, mask=torch.from_numpy(mask)))
    return tuple(made)


def tiled_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    tiles: Sequence[Tile] | None = None,
    **_: object,
) -> tuple[torch.Tensor, None]:
    """An attention function of transformers: query [1, heads, tokens, size], key and value with heads or a divisor.

    Without `tiles` the row is one sequence. Returns [1, tokens, heads, size]. Raises ValueError for a batch.
    """
    if len(query) != 1:
        raise ValueError(f"{TILED} computes one packed row at a time, not a batch of {len(query)}")
    repeats = query.shape[1] // key.shape[1]
    if repeats > 1:
        key, value = key.repeat_interleave(repeats, dim=1), value.repeat_interleave(repeats, dim=1)
    if tiles is None:
        out = scaled_dot_product_attention(query, key, value, dropout_p=dropout, is_causal=True, scale=scaling)
        return out.transpose(1, 2).contiguous(), None
    sizes = [tile.tokens for tile in tiles]
    outs: list[torch.Tensor] = []
    prompt_keys, prompt_values = key, value
    # `split` has one backward pass for all parts; that of a slice would write zeros for the whole row each time.
    parts = zip(tiles, query.split(sizes, dim=2), key.split(sizes, dim=2), value.split(sizes, dim=2), strict=True)
    for tile, queries, keys, values in parts:
        if tile.prompt:
            keys = torch.cat([prompt_keys[:, :, : tile.prompt], keys], dim=2)
            values = torch.cat([prompt_values[:, :, : tile.prompt], values], dim=2)
        else:
            prompt_keys, prompt_values = keys, values
        outs.append(
            scaled_dot_product_attention(queries, keys, values, attn_mask=tile.mask, dropout_p=dropout, scale=scaling)
        )
    return torch.cat(outs, dim=2).transpose(1, 2).contiguous(), None


def block_mask(packed: Packed, device: torch.device) -> BlockMask:
    """The same for flex attention: which blocks of the row have anything to see.

    While it is made the row's mask exists once, as bytes: 64 MiB for 8,192 tokens.
    """
    segments, prompts = (torch.from_numpy(array).to(device) for array in (packed.segments, packed.prompts))

    def sees(_batch: torch.Tensor, _head: torch.Tensor, row: torch.Tensor, column: torch.Tensor) -> torch.Tensor:
        same = (segments[row] == segments[column]) | (prompts[row] == segments[column])
        return same & (row >= column)

    return create_block_mask(sees, None, None, len(packed.ids), len(packed.ids), device=device)


AttentionInterface.register(TILED, tiled_attention)
