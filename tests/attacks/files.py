"""Files that are not what was agreed or recorded: each is refused before a value of it is believed."""

from __future__ import annotations

import hashlib
import io
import pickle
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rl.rollouts import SCHEMA, Rollout
from tests.attacks.attack import Family, Offer
from tests.attacks.stage import Stage
from tests.verify.conftest import CLAIM, RULES

FILES = Family("Files")


def table(rollouts: Sequence[Rollout], schema: pa.Schema = SCHEMA, **changed: list[Any]) -> pa.Table:
    """The agreed columns, some of them with other values."""
    columns = {f.name: [getattr(r, f.name) for r in rollouts] for f in fields(Rollout)}
    return pa.table(columns | changed, schema=schema)


def encode(data: pa.Table, **options: Any) -> bytes:
    """A Parquet file, uncompressed and plain where the options do not say otherwise."""
    sink = io.BytesIO()
    pq.write_table(data, sink, **{"compression": "NONE", "use_dictionary": False} | options)
    return sink.getvalue()


def with_field(name: str, kind: pa.DataType, *, nullable: bool = False) -> pa.Schema:
    """The agreed schema but for one column."""
    return SCHEMA.set(SCHEMA.get_field_index(name), pa.field(name, kind, nullable=nullable))


def patch_footer(data: bytes, old: bytes, new: bytes) -> bytes:
    """The file with one place of its footer overwritten, wherever it stands. Raises ValueError if it is not there."""
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    if old not in data[start:] or len(old) != len(new):
        raise ValueError("the footer is not as this attack knows it")
    return data[:start] + data[start:].replace(old, new)


# --- size and hash


@FILES.by("saboteur", "size")
def an_empty_file(stage: Stage) -> Offer:
    """Records the hash of nothing, to see whether nothing is judged as something."""
    return Offer(content=b"")


@FILES.by("saboteur", "size")
def a_file_stuffed_beyond_the_limit(stage: Stage) -> Offer:
    """Pads a text until the file is larger than the pool allows, so that validators choke on it."""
    return Offer(content=stage.edit(0, text="x" * 2**19), rules=replace(RULES, max_file_bytes=2**19))


@FILES.by("greedy", "hash")
def a_hash_of_work_not_yet_done(stage: Stage) -> Offer:
    """Records some hash in time to be the first, and makes the file later."""
    return Offer(content=stage.honest, claim=replace(CLAIM, file_hash=hashlib.sha256(b"later").digest()))


@FILES.by("greedy", "hash")
def a_file_changed_after_it_was_recorded(stage: Stage) -> Offer:
    """Serves one validator the recorded file and another one a better one."""
    recorded = hashlib.sha256(encode(table(stage.honest))).digest()
    return Offer(content=stage.edit(0, reward=1.0), claim=replace(CLAIM, file_hash=recorded))


# --- schema

_LAYOUTS: tuple[tuple[str, str, Callable[[Sequence[Rollout]], bytes]], ...] = (
    ("a file that is no Parquet", "Hands in comma-separated text.", lambda rows: b"step\n5\n"),
    ("a footer cut off", "Hands in a file whose end is missing.", lambda rows: encode(table(rows))[:-9]),
    (
        "a footer of 4 GiB",
        "Claims a footer of 4 GiB, so that its length is allocated.",
        lambda rows: encode(table(rows))[:-8] + b"\xff\xff\xff\xffPAR1",
    ),
    (
        "a column more",
        "Smuggles a column along that a careless trainer might read.",
        lambda rows: encode(table(rows).append_column("advantage", pa.array([9.0] * len(rows)))),
    ),
    (
        "a column missing",
        "Leaves the proofs out altogether.",
        lambda rows: encode(table(rows).drop_columns(["proofs"])),
    ),
    (
        "twin columns swapped",
        "Exchanges two columns of one type, so that step and version trade places.",
        lambda rows: encode(table(rows).select(["policy_version", "step", *SCHEMA.names[2:]])),
    ),
    (
        "another number type",
        "Reports rewards in double precision, where other values exist.",
        lambda rows: encode(table(rows, with_field("reward", pa.float64()))),
    ),
    (
        "a missing reward",
        "Leaves rewards null, hoping that null passes every comparison.",
        lambda rows: encode(table(rows, with_field("reward", pa.float32(), nullable=True), reward=[None] * len(rows))),
    ),
    (
        "null proofs",
        "Puts nulls where proofs belong, which the reference code lets pass.",
        lambda rows: encode(
            table(
                rows,
                with_field("proofs", pa.list_(pa.field("element", pa.binary()))),
                proofs=[[None] * len(r.proofs) for r in rows],
            )
        ),
    ),
    (
        "a null instead of a list",
        "Puts a null where a list of log-probabilities belongs.",
        lambda rows: encode(
            table(
                rows, with_field("logprobs", SCHEMA.field("logprobs").type, nullable=True), logprobs=[None] * len(rows)
            )
        ),
    ),
    (
        "a zip bomb",
        "Compresses a megabyte of one letter into a small file.",
        lambda rows: encode(table([replace(rows[0], text="x" * 2**20), *rows[1:]]), compression="ZSTD"),
    ),
    (
        "a dictionary that unfolds",
        "Repeats one long proof through a dictionary.",
        lambda rows: encode(
            table(rows, proofs=[[b"z" * 1000] * 100] * len(rows)), use_dictionary=["proofs.list.element"]
        ),
    ),
    (
        "a footer that hides a dictionary",
        "Does the same and says in the footer that there is none.",
        lambda rows: patch_footer(
            encode(
                table(rows, proofs=[[b"z" * 1000] * 100] * len(rows)),
                use_dictionary=["proofs.list.element"],
                write_statistics=False,
            ),
            b"\x35\x00\x06\x10",
            b"\x35\x00\x06\x06",
        ),
    ),
    (
        "rows that are only claimed",
        "Says in the footer that there are fewer rows than there are.",
        lambda rows: patch_footer(encode(table(rows)), bytes([0x16, 2 * len(rows)]), bytes([0x16, 2])),
    ),
    (
        "a billion rows",
        "Claims a billion rows in the footer, so that somebody makes room for them.",
        lambda rows: claiming_rows(encode(table(rows)), len(rows), 10**9),
    ),
    (
        "one column under two names",
        "Points a second column at the bytes of the first, so that a file of 32 MB unfolds into thirteen times as "
        "much.",
        lambda rows: sharing_a_column(
            encode(table(rows, completion_ids=[r.prompt_ids for r in rows]), write_statistics=False)
        ),
    ),
    ("several row groups", "Cuts the file into row groups.", lambda rows: encode(table(rows), row_group_size=4)),
    (
        "a text that is no UTF-8",
        "Puts bytes into a text that no text holds.",
        lambda rows: encode(table([replace(rows[0], text="QQQQQQQQ"), *rows[1:]])).replace(
            b"QQQQQQQQ", b"QQQ\xff\xfeQQQ"
        ),
    ),
    (
        "a pickle",
        "Sends a Python object, in case somebody loads it.",
        lambda rows: pickle.dumps([r.text for r in rows]),
    ),
    ("one row too many", "Adds a nineteenth completion.", lambda rows: encode(table([*rows, rows[0]]))),
)


def sharing_a_column(data: bytes) -> bytes:
    """A file of equal prompts and completions, without the bytes of the latter: both columns point at the former."""
    row_group = pq.ParquetFile(pa.BufferReader(data)).metadata.row_group(0)
    columns = [row_group.column(index) for index in range(row_group.num_columns)]
    kept, gone = (
        next(c for c in columns if c.path_in_schema.startswith(name)) for name in ("prompt_ids", "completion_ids")
    )
    for column in columns:
        old = column.data_page_offset
        if old >= gone.data_page_offset:
            moved = kept.data_page_offset if column is gone else old - gone.total_compressed_size
            data = patch_footer(data, b"\x26" + _zigzag(old) + b"\x49", b"\x26" + _zigzag(moved, like=old) + b"\x49")
    end = gone.data_page_offset + gone.total_compressed_size
    return data[: gone.data_page_offset] + data[end:]


def _zigzag(number: int, like: int = 0) -> bytes:
    """A Thrift integer, with as many bytes as `like` has if that is more."""
    length = (max(2 * number, 2 * like, 1).bit_length() + 6) // 7
    groups = [2 * number >> 7 * place & 127 for place in range(length)]
    return bytes([group | 128 for group in groups[:-1]] + groups[-1:])


def claiming_rows(data: bytes, rows: int, claimed: int) -> bytes:
    """The file with another number of rows in its footer, whose length changes with it."""
    length = int.from_bytes(data[-8:-4], "little")
    body, footer = data[: -8 - length], data[-8 - length : -8]
    zigzag, varint = 2 * claimed, bytearray()
    while zigzag > 127:
        varint.append(zigzag & 127 | 128)
        zigzag >>= 7
    varint.append(zigzag)
    changed = footer.replace(bytes([0x16, 2 * rows]), b"\x16" + bytes(varint))
    return body + changed + len(changed).to_bytes(4, "little") + b"PAR1"


for _name, _story, _encoded in _LAYOUTS:
    FILES.add(_name, "saboteur", "schema", _story, lambda stage, encoded=_encoded: Offer(content=encoded(stage.honest)))
