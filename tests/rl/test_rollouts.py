"""The rollout file: what is written is read, and whatever else somebody sends is refused as one typed error."""

from __future__ import annotations

import io
import math
import random
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rl.rollouts import SCHEMA, Rollout, RolloutFileInvalid, read_rollouts, write_rollouts

ROWS = 6
SEED = 20240607
FIRST = Rollout(
    step=2**40, policy_version=3, counter=0, group=0, sample=0, problem_id="arithmetic/1+1", prompt_ids=(1, 2, 3),
    completion_ids=(4, 5, 0), text="zwei – 2", logprobs=(-0.5, -1.25, 0.0), finish_reason="eos", reward=1.0,
    proofs=(b"\0\xff" * 129, b""),
)  # fmt: skip
ROLLOUTS = (
    *(
        replace(FIRST, sample=n, completion_ids=(4,) * n, logprobs=(-0.5,) * n, text="x" * n, proofs=(b"p" * n,) * n)
        for n in range(ROWS - 1)
    ),
    FIRST,
)
Columns = dict[str, list[Any]]


def columns() -> Columns:
    return {f.name: [getattr(r, f.name) for r in ROLLOUTS] for f in fields(Rollout)}


def table(changed: Columns | None = None, schema: pa.Schema = SCHEMA) -> pa.Table:
    return pa.table(columns() | (changed or {}), schema=schema)


def encode(data: pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(data, sink, **{"compression": "NONE", "use_dictionary": False} | options)
    return sink.getvalue()


def read(path: Path, data: bytes, **limits: int) -> tuple[Rollout, ...]:
    path.write_bytes(data)
    return read_rollouts(path, **{"max_rows": ROWS} | limits)


def edit(name: str, kind: pa.DataType, *, nullable: bool = False) -> pa.Schema:
    return SCHEMA.set(SCHEMA.get_field_index(name), pa.field(name, kind, nullable=nullable))


def test_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    write_rollouts(path, ROLLOUTS)
    assert read_rollouts(path, max_rows=ROWS) == ROLLOUTS
    assert read(path, encode(table())) == ROLLOUTS


def test_a_long_submission_of_many_pages_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    long = replace(FIRST, completion_ids=tuple(range(30_000)), logprobs=(-0.5,) * 30_000, proofs=(b"q" * 258,) * 2000)
    write_rollouts(path, (long,) * 24)
    assert read_rollouts(path, max_rows=24) == (long,) * 24


def test_an_empty_submission_is_a_file_of_no_rows(tmp_path: Path) -> None:
    write_rollouts(tmp_path / "a.parquet", ())
    assert read_rollouts(tmp_path / "a.parquet", max_rows=ROWS) == ()


def test_a_file_is_there_complete_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    write_rollouts(path, ROLLOUTS)
    before = path.read_bytes()
    with pytest.raises((pa.ArrowException, TypeError)):
        write_rollouts(path, (FIRST, replace(FIRST, reward="much")))  # type: ignore[arg-type]
    assert path.read_bytes() == before
    write_rollouts(path, ROLLOUTS[:1])
    assert [file.name for file in tmp_path.iterdir() if file.suffix != ".part"] == ["a.parquet"]
    assert read_rollouts(path, max_rows=1) == ROLLOUTS[:1]


def test_not_a_number_is_a_value_for_the_checks_to_judge(tmp_path: Path) -> None:
    seen = read(tmp_path / "a", encode(table({"reward": [float("nan")] * ROWS})))
    assert all(math.isnan(rollout.reward) for rollout in seen)


def nested(name: str, element: pa.Field) -> pa.Schema:
    return edit(name, pa.list_(element))


HOSTILE: dict[str, Callable[[], bytes]] = {
    "empty": lambda: b"",
    "garbage": lambda: bytes(range(256)) * 8,
    "magic only": lambda: b"PAR1PAR1",
    "extra column": lambda: encode(table().append_column("note", pa.array([""] * ROWS))),
    "missing column": lambda: encode(table().drop_columns(["text"])),
    "renamed column": lambda: encode(table().rename_columns(["stage", *SCHEMA.names[1:]])),
    "reordered columns": lambda: encode(table().select(SCHEMA.names[::-1])),
    "swapped twins": lambda: encode(table().select(["policy_version", "step", *SCHEMA.names[2:]])),
    "no columns": lambda: encode(pa.table({})),
    "other integer": lambda: encode(table(schema=edit("group", pa.int64()))),
    "double for float": lambda: encode(table(schema=edit("reward", pa.float64()))),
    "text for number": lambda: encode(table({"step": ["1"] * ROWS}, edit("step", pa.string()))),
    "binary for text": lambda: encode(table({"text": [b"\xff"] * ROWS}, edit("text", pa.binary()))),
    "large text": lambda: encode(table(schema=edit("text", pa.large_string()))),
    "nullable": lambda: encode(table(schema=edit("text", pa.string(), nullable=True))),
    "null": lambda: encode(table({"text": [None] * ROWS}, edit("text", pa.string(), nullable=True))),
    "null elements": lambda: encode(
        table({"logprobs": [[None]] * ROWS}, nested("logprobs", pa.field("element", pa.float32())))
    ),
    "nested deeper": lambda: encode(
        table(
            {"proofs": [[[b"p"]]] * ROWS},
            nested("proofs", pa.field("element", pa.list_(pa.field("element", pa.binary())), nullable=False)),
        )
    ),
    "struct": lambda: encode(table({"text": [{"a": 1}] * ROWS}, edit("text", pa.struct({"a": pa.int32()})))),
    "compressed": lambda: encode(table(), compression="ZSTD"),
    "one compressed column": lambda: encode(table(), compression={"text": "SNAPPY"}),
    "dictionary": lambda: encode(table(), use_dictionary=True),
    "delta encoding": lambda: encode(table(), column_encoding={"text": "DELTA_BYTE_ARRAY"}),
    "byte stream split": lambda: encode(table(), column_encoding={"reward": "BYTE_STREAM_SPLIT"}),
    "data pages of version 2": lambda: encode(table(), data_page_version="2.0"),
    "several row groups": lambda: encode(table(), row_group_size=2),
    "too many rows": lambda: encode(pa.concat_tables([table()] * 2)),
    "text that is no text": lambda: encode(table()).replace("zwei – 2".encode(), b"zwei \xff\xff\xff 2"),
    "truncated body": lambda: encode(table())[200:],
    "truncated footer": lambda: encode(table())[:-1],
    "footer without a body": lambda: b"PAR1" + encode(table())[-2500:],
    "footer length of 4 GiB": lambda: encode(table())[:-8] + b"\xff\xff\xff\xffPAR1",
    "footer length of 0": lambda: encode(table())[:-8] + b"\0\0\0\0PAR1",
    "encrypted footer": lambda: b"PARE" + encode(table())[4:-4] + b"PARE",
    "two files": lambda: encode(table())[:-4] + encode(table(schema=edit("group", pa.int64()))),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(RolloutFileInvalid):
        read(tmp_path / "a", HOSTILE[name]())


def patch_footer(data: bytes, old: bytes, new: bytes) -> bytes:
    """The file with one place of its footer changed, of the same length."""
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    assert data[start:].count(old) >= 1
    assert len(old) == len(new)
    return data[:start] + data[start:].replace(old, new)


@pytest.mark.parametrize(
    ("options", "said", "lie"),
    [
        # Lists of encodings in a footer: [PLAIN, RLE, RLE_DICTIONARY] becomes [PLAIN, RLE, RLE].
        ({"use_dictionary": ["proofs.list.element"]}, b"\x35\x00\x06\x10", b"\x35\x00\x06\x06"),
        # [RLE, DELTA_BYTE_ARRAY] becomes [RLE, RLE].
        ({"column_encoding": {"proofs.list.element": "DELTA_BYTE_ARRAY"}}, b"\x25\x06\x0e", b"\x25\x06\x06"),
    ],
)
def test_a_footer_that_hides_an_encoding_unfolds_nothing(
    tmp_path: Path, options: dict[str, Any], said: bytes, lie: bytes
) -> None:
    """In the large, 100 kB that read as 2 GB: thousands of proofs that are all the same entry."""
    bomb = table({"proofs": [[b"z" * 1000] * 2000] * ROWS})
    lying = patch_footer(encode(bomb, write_statistics=False, **options), said, lie)
    assert len(lying) < 200_000
    with pytest.raises(RolloutFileInvalid, match=r"column lies|data page|plainly encoded"):
        read(tmp_path / "a", lying)


def test_a_footer_that_lies_about_rows_is_refused(tmp_path: Path) -> None:
    data = encode(table())
    rows = bytes([0x16, 2 * ROWS])
    """num_rows of file and row group: an i64 field of the next number, zigzag."""
    for lie in (0, 1, ROWS - 1, ROWS + 1, 60):
        with pytest.raises(RolloutFileInvalid):
            read(tmp_path / "a", patch_footer(data, rows, bytes([0x16, 2 * lie])), max_rows=63)


def test_sizes_are_bounded_before_anything_is_decoded(tmp_path: Path) -> None:
    path, data = tmp_path / "a", encode(table())
    assert read(path, data, max_bytes=len(data), max_values=18) == ROLLOUTS
    with pytest.raises(RolloutFileInvalid, match="bytes, more than"):
        read(path, data, max_bytes=len(data) - 1)
    with pytest.raises(RolloutFileInvalid, match="impossible size"):
        read(path, data, max_values=10)
    with pytest.raises(RolloutFileInvalid, match="6 rows, more than 5"):
        read(path, data, max_rows=5)


def test_a_list_that_is_huge_is_refused_by_its_claim(tmp_path: Path) -> None:
    data = encode(table({"prompt_ids": [[7] * 50_000] * ROWS}))
    with pytest.raises(RolloutFileInvalid, match=r"prompt_ids.* impossible size"):
        read(tmp_path / "a", data, max_values=299_999)


def test_flipped_bytes_never_raise_anything_else(tmp_path: Path) -> None:
    """Each of 300 files has one to four bytes changed, half of them in the footer and the page headers."""
    data, path = encode(table()), tmp_path / "a"
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    refused = 0
    for number in range(300):
        draw = random.Random(SEED + number)
        hurt = bytearray(data)
        for _ in range(draw.randint(1, 4)):
            hurt[draw.randrange(footer if number % 2 else 0, len(data))] = draw.randrange(256)
        try:
            rows = read(path, bytes(hurt))
        except RolloutFileInvalid:
            refused += 1
        except BaseException as fault:
            raise AssertionError(f"file of seed {SEED + number} raised {fault!r}") from fault
        else:
            assert len(rows) <= ROWS, f"seed {SEED + number}"
            assert all(isinstance(row.step, int) and isinstance(row.text, str) for row in rows)
    assert 50 < refused < 300


def test_cut_files_are_refused_wherever_they_are_cut(tmp_path: Path) -> None:
    data = encode(table())
    for length in random.Random(SEED).sample(range(len(data)), 60):
        with pytest.raises(RolloutFileInvalid):
            read(tmp_path / "a", data[:length])
