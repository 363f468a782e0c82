"""A submission's rollouts and the one Parquet layout in which they travel.

One row is one completion. Names, types, order and encodings of the columns are exact: a file with anything
else is invalid. What a file claims is bounded from its footer and page headers before a single value is decoded;
compression and dictionaries, by which a small file can unfold into a huge one, are refused. Whether the values are
honest is not decided here (see `verify`).
"""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.parquet as pq

from rl.parquet_pages import PageInvalid, check_pages


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """One completion of one problem, as its worker reports it. Field order is column order."""

    step: int
    """The step that the rollout is for."""
    policy_version: int
    """The weights that generated it."""
    counter: int
    """Number of the worker's submission within the step, from 0."""
    group: int
    """Index of the problem within the submission, in dictated order, from 0."""
    sample: int
    """Index of the completion within its group, from 0."""
    problem_id: str
    prompt_ids: tuple[int, ...]
    completion_ids: tuple[int, ...]
    """Generated tokens, the closing EOS included."""
    text: str
    """`completion_ids` decoded without special tokens."""
    logprobs: tuple[float, ...]
    """Natural log of each generated token's probability under the generating policy at its temperature."""
    finish_reason: Literal["eos", "length"]
    reward: float
    proofs: tuple[bytes, ...]
    """One activation fingerprint for each 32 generated tokens, the last span possibly shorter."""


_LIST = "element"
SCHEMA = pa.schema(
    [
        pa.field("step", pa.int64(), nullable=False),
        pa.field("policy_version", pa.int64(), nullable=False),
        pa.field("counter", pa.int64(), nullable=False),
        pa.field("group", pa.int32(), nullable=False),
        pa.field("sample", pa.int32(), nullable=False),
        pa.field("problem_id", pa.string(), nullable=False),
        pa.field("prompt_ids", pa.list_(pa.field(_LIST, pa.int32(), nullable=False)), nullable=False),
        pa.field("completion_ids", pa.list_(pa.field(_LIST, pa.int32(), nullable=False)), nullable=False),
        pa.field("text", pa.string(), nullable=False),
        pa.field("logprobs", pa.list_(pa.field(_LIST, pa.float32(), nullable=False)), nullable=False),
        pa.field("finish_reason", pa.string(), nullable=False),
        pa.field("reward", pa.float32(), nullable=False),
        pa.field("proofs", pa.list_(pa.field(_LIST, pa.binary(), nullable=False)), nullable=False),
    ]
)
MAX_FILE_BYTES = 32 * 2**20
"""Largest submission that anybody reads or stores."""
MAX_VALUES = 2**22
"""Largest number of values in one column, lists flattened."""


class RolloutFileInvalid(Exception):
    """A rollout file is not exactly what `SCHEMA` says; the message says where."""


def write_rollouts(path: Path, rollouts: tuple[Rollout, ...]) -> None:
    """Write one file: complete under its name, or not there at all."""
    columns = {f.name: [getattr(r, f.name) for r in rollouts] for f in fields(Rollout)}
    partial = path.with_name(path.name + ".part")
    with partial.open("wb") as sink:
        pq.write_table(pa.table(columns, schema=SCHEMA), sink, compression="NONE", use_dictionary=False)
        sink.flush()
        os.fsync(sink.fileno())
    partial.replace(path)


def read_rollouts(
    path: Path, *, max_rows: int, max_bytes: int = MAX_FILE_BYTES, max_values: int = MAX_VALUES
) -> tuple[Rollout, ...]:
    """Read a file that anybody may have written.

    Raises:
        RolloutFileInvalid: too large, not Parquet, or other columns, types, encodings or sizes than allowed.
    """
    size_bytes = path.stat().st_size
    if size_bytes > max_bytes:
        raise RolloutFileInvalid(f"{size_bytes} bytes, more than {max_bytes}")
    data = path.read_bytes()
    try:
        with pq.ParquetFile(pa.BufferReader(data)) as source:
            _check_layout(source, data, max_rows, max_values)
            table = source.read(use_threads=False)
        table.validate(full=True)
        if table.num_rows > max_rows:
            raise RolloutFileInvalid(f"{table.num_rows} rows, more than {max_rows}")
        return tuple(_rollout(row) for row in table.to_pylist())
    except (pa.ArrowException, OSError, UnicodeDecodeError, PageInvalid) as fault:
        raise RolloutFileInvalid(f"not a readable Parquet file: {str(fault)[:200]}") from fault


def _check_layout(source: pq.ParquetFile, data: bytes, max_rows: int, max_values: int) -> None:
    metadata = source.metadata
    if not source.schema_arrow.equals(SCHEMA):
        raise RolloutFileInvalid("columns, types or their order differ from the schema")
    if metadata.num_rows > max_rows:
        raise RolloutFileInvalid(f"{metadata.num_rows} rows, more than {max_rows}")
    if metadata.num_row_groups > 1:
        raise RolloutFileInvalid(f"{metadata.num_row_groups} row groups, not 1")
    for group in range(metadata.num_row_groups):
        columns = [metadata.row_group(group).column(index) for index in range(metadata.num_columns)]
        if sum(column.total_compressed_size for column in columns) > len(data):
            raise RolloutFileInvalid("columns overlap: together they are larger than the file")
        for index in range(metadata.num_columns):
            column = metadata.row_group(group).column(index)
            if column.compression != "UNCOMPRESSED" or not set(column.encodings) <= {"PLAIN", "RLE"}:
                raise RolloutFileInvalid(f"column {column.path_in_schema} is compressed or dictionary-encoded")
            if not 0 <= column.num_values <= max_values or not 0 <= column.total_compressed_size <= len(data):
                raise RolloutFileInvalid(f"column {column.path_in_schema} claims an impossible size")
            check_pages(
                data,
                start=column.data_page_offset,
                size_bytes=column.total_compressed_size,
                num_values=column.num_values,
            )


def _rollout(row: dict[str, object]) -> Rollout:
    for name in ("prompt_ids", "completion_ids", "logprobs", "proofs"):
        row[name] = tuple(row[name])
    return Rollout(**row)
