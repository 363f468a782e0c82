from __future__ import annotations

import random

import pytest

from rl.parquet_pages import MAX_PAGES, PageInvalid, check_pages

PLAIN, RLE, DELTA, DICTIONARY = 0, 3, 5, 8
DATA_PAGE, DICTIONARY_PAGE, DATA_PAGE_V2 = 0, 2, 3


def zigzag(number: int) -> bytes:
    raw, out = (number << 1) ^ (number >> 63), b""
    while raw > 127:
        raw, out = raw >> 7, out + bytes([raw & 127 | 128])
    return out + bytes([raw])


def struct(fields: dict[int, int | bytes]) -> bytes:
    """A compact Thrift struct of 32-bit integers and of fields that are encoded already (kind and value)."""
    out, last = b"", 0
    for number, value in sorted(fields.items()):
        kind, body = (5, zigzag(value)) if isinstance(value, int) else (value[0], value[1:])
        out, last = out + bytes([(number - last) << 4 | kind]) + body, number
    return out + b"\0"


def page(
    body: bytes = b"12345678", *, values: int = 2, kind: int = DATA_PAGE, encoding: int = PLAIN, levels: int = RLE,
    unpacked: int | None = None, extra: dict[int, int | bytes] | None = None, header: int = 5,
) -> bytes:  # fmt: skip
    inner = b"\x0c" + struct({1: values, 2: encoding, 3: levels, 4: RLE})
    size = len(body) if unpacked is None else unpacked
    return struct({1: kind, 2: size, 3: len(body), header: inner, **(extra or {})}) + body


def check(pages: bytes, *, num_values: int = 2) -> None:
    check_pages(b"PAR1" + pages + b"rest", start=4, size_bytes=len(pages), num_values=num_values)


def test_plain_pages_pass() -> None:
    check(page())
    check(page() + page(values=3), num_values=5)
    check(b"", num_values=0)
    check(page(extra={4: 7, 9: b"\x08\x03abc", 10: b"\x01", 11: b"\x07" + b"d" * 8, 12: b"\x03x"}))


HOSTILE = {
    "a dictionary page": page(kind=DICTIONARY_PAGE, header=7) + page(),
    "a dictionary page with a data header": page(kind=DICTIONARY_PAGE),
    "dictionary indices": page(encoding=DICTIONARY),
    "delta": page(encoding=DELTA),
    "other levels": page(levels=4),
    "version 2": page(kind=DATA_PAGE_V2, header=8),
    "compressed": page(unpacked=10**9),
    "more values than claimed": page(values=3),
    "fewer values than claimed": page(values=1),
    "a negative number of values": page(values=-1) + page(values=3),
    "a page after the last": page() + page(values=0, body=b"")[:-1],
    "no header": b"\0" * 8,
    "not a struct": b"\xff" * 20,
    "a list in a header": page(extra={9: b"\x09\x15\x02"}),
    "nested": b"\x1c" * 40,
    "an endless number": b"\x15" + b"\xff" * 40,
    "text beyond the file": page(extra={9: b"\x08" + b"\xff\xff\xff\xff\x0f"}),
    "a body beyond the column": page()[:-3],
}


@pytest.mark.parametrize("name", HOSTILE)
def test_everything_else_is_refused(name: str) -> None:
    with pytest.raises(PageInvalid):
        check(HOSTILE[name])


@pytest.mark.parametrize(("start", "size_bytes"), [(-1, 5), (0, 100), (50, 1), (0, -1)])
def test_a_column_outside_the_file_is_refused(start: int, size_bytes: int) -> None:
    with pytest.raises(PageInvalid, match="outside"):
        check_pages(b"PAR1" + page(), start=start, size_bytes=size_bytes, num_values=2)


def test_attack_pages_without_number_are_not_walked_through() -> None:
    check(page() + page(values=0, body=b"") * (MAX_PAGES - 1))
    with pytest.raises(PageInvalid, match="more than"):
        check(page() + page(values=0, body=b"") * MAX_PAGES)


def test_random_bytes_never_raise_anything_else() -> None:
    for seed in range(2000):
        draw = random.Random(seed)
        data = bytearray(page() + page())
        for _ in range(draw.randint(1, 6)):
            data[draw.randrange(len(data))] = draw.randrange(256)
        try:
            check(bytes(data), num_values=4)
        except PageInvalid:
            continue
        except BaseException as fault:
            raise AssertionError(f"seed {seed} raised {fault!r}") from fault
