"""What a validator's prefill measured of each completion, kept so that bounds can be set and studied without a model.

A record is a Parquet file of rollouts, and beside it numbers by token and by proof block in numpy's format without
pickles. Hidden states are not kept: of them only the proofs' errors are looked at. It decides nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path

import numpy as np

from rl.rollouts import MAX_FILE_BYTES, Rollout, read_rollouts
from verify.policy import Prefilled, Spread
from verify.proofs import BlockErrors

MAX_ROWS = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """One completion as it was measured."""

    rollout: Rollout
    errors: tuple[BlockErrors, ...]
    prefilled: Prefilled
    """Without states."""
    noise: tuple[BlockErrors, ...] = ()
    """Of a pass in float32: how far one in bfloat16 is from it."""
    coarse_logprobs: np.ndarray | None = None
    """Of a pass in float32: float32 [tokens], log-probabilities by one in bfloat16."""
    exact: Completion | None = None
    """The pass in float32, of a pass in bfloat16 beside which there is one."""


def write_record(
    path: Path,
    errors: Sequence[Sequence[BlockErrors]],
    prefilled: Sequence[Prefilled],
    noise: Sequence[Sequence[BlockErrors]] = (),
    coarse: Sequence[Prefilled] = (),
) -> None:
    """Numbers of the completions of one file, whole or not at all. `noise` and `coarse` go with a pass in float32."""
    arrays = {
        "blocks": np.array([len(one) for one in errors]),
        "errors": np.array([astuple(block) for one in errors for block in one], dtype=np.float64),
        "tokens": np.array([len(p.logprobs) for p in prefilled]),
        "logprobs": np.concatenate([p.logprobs for p in prefilled]),
        "eos_probs": np.concatenate([p.eos_probs for p in prefilled]),
    }
    if noise:
        arrays["noise"] = np.array([astuple(block) for one in noise for block in one], dtype=np.float64)
        arrays["coarse_logprobs"] = np.concatenate([p.logprobs for p in coarse])
    margins = [p.margins for p in prefilled if p.margins is not None]
    spreads = [p.spread for p in prefilled if p.spread is not None]
    if margins:
        arrays["margins"] = np.concatenate(margins)
    if spreads:
        arrays |= {f.name: np.concatenate([getattr(s, f.name) for s in spreads]) for f in fields(Spread)}
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".part")
    with partial.open("wb") as sink:
        np.savez(sink, **arrays)
    partial.replace(path)


def read_record(rollouts: Path, record: Path) -> list[Completion]:
    """The completions of a file with what was measured of each."""
    rows = read_rollouts(rollouts, max_rows=MAX_ROWS, max_bytes=MAX_FILE_BYTES)
    with np.load(record, allow_pickle=False) as arrays:
        data = dict(arrays)
    per_token = {name: np.split(data[name], np.cumsum(data["tokens"])[:-1]) for name in data if name in _PER_TOKEN}
    blocks = [_errors(row) for row in data["errors"]]
    noise = [_errors(row) for row in data.get("noise", ())]
    ends = np.cumsum(data["blocks"]).tolist()
    found = []
    for number, (rollout, start, end) in enumerate(zip(rows, [0, *ends[:-1]], ends, strict=True)):
        own = {name: parts[number] for name, parts in per_token.items()}
        spread = Spread(**{f.name: own[f.name] for f in fields(Spread)}) if "entropies" in own else None
        prefilled = Prefilled(
            states=np.zeros((len(own["logprobs"]), 0), dtype=np.uint16),
            logprobs=own["logprobs"],
            eos_probs=own["eos_probs"],
            margins=own.get("margins"),
            spread=spread,
        )
        own_noise = tuple(noise[start:end])
        found.append(
            Completion(
                rollout=rollout,
                errors=tuple(blocks[start:end]),
                prefilled=prefilled,
                noise=own_noise,
                coarse_logprobs=own.get("coarse_logprobs"),
            )
        )
    return found


_PER_TOKEN = {"logprobs", "eos_probs", "margins", "coarse_logprobs", *(f.name for f in fields(Spread))}


def _errors(row: np.ndarray) -> BlockErrors:
    whole = {"exponent_mismatches", "values", "numel"}
    return BlockErrors(
        **{f.name: int(x) if f.name in whole else float(x) for f, x in zip(fields(BlockErrors), row, strict=True)}
    )
