"""Walks the pages of one Parquet column and refuses every encoding by which few bytes unfold into many.

A file's footer only claims how its pages are encoded; what a reader decodes is what each page says of itself. A footer
that lied about a dictionary turned 100 kB into 2 GB of memory. Pure: bytes in, nothing is decoded.

Source: parquet-format's parquet.thrift (PageHeader, DataPageHeader) and the Thrift compact protocol.
"""

from __future__ import annotations

_DATA_PAGE, _PLAIN, _RLE = 0, 0, 3
_TYPE, _UNPACKED_BYTES, _BYTES, _DATA_HEADER = 1, 2, 3, 5
_VALUES, _ENCODING, _DEFINITION, _REPETITION = 1, 2, 3, 4
_MAX_DEPTH = 3
MAX_PAGES = 256
"""Of one column. Writers begin a page each megabyte, so an honest 32 MiB have some 32; empty pages of 17 bytes took
20 s to walk through, in each of 13 columns."""
_Fields = dict[int, object]


class PageInvalid(ValueError):
    """A page is malformed, of another kind than an uncompressed plain data page, or runs over its column's end."""


def check_pages(data: bytes, *, start: int, size_bytes: int, num_values: int) -> None:
    """Check that [start, start + size_bytes) holds plain data pages of `num_values` values in all.

    Raises:
        PageInvalid: anything else.
    """
    end = start + size_bytes
    if not 0 <= start <= end <= len(data):
        raise PageInvalid("a column lies outside the file")
    seen = pages = 0
    while start < end:
        pages += 1
        if pages > MAX_PAGES:
            raise PageInvalid(f"more than {MAX_PAGES} pages in a column")
        try:
            header, start = _read_struct(data, start, _MAX_DEPTH)
        except IndexError as fault:
            raise PageInvalid("a page header runs over the file's end") from fault
        page = header.get(_DATA_HEADER)
        if header.get(_TYPE) != _DATA_PAGE or not isinstance(page, dict):
            raise PageInvalid("a page is not a data page of version 1")
        if [page.get(name) for name in (_ENCODING, _DEFINITION, _REPETITION)] != [_PLAIN, _RLE, _RLE]:
            raise PageInvalid("a page is not plainly encoded")
        body_bytes, values = header.get(_BYTES), page.get(_VALUES)
        if not isinstance(body_bytes, int) or body_bytes != header.get(_UNPACKED_BYTES) or body_bytes < 0:
            raise PageInvalid("a page is compressed")
        if not isinstance(values, int) or values < 0:
            raise PageInvalid("a page claims no number of values")
        start, seen = start + body_bytes, seen + values
    if start != end or seen != num_values:
        raise PageInvalid(f"pages hold {seen} values of {num_values}, and end {start - end} bytes off")


def _read_struct(data: bytes, at: int, depth: int) -> tuple[_Fields, int]:
    """Fields of a compact Thrift struct by number, and where it ends; text and floats are passed over."""
    if not depth:
        raise PageInvalid("a page header is nested too deeply")
    fields: _Fields = {}
    number = 0
    while head := data[at]:
        at += 1
        if head >> 4:
            number += head >> 4
        else:
            number, at = _read_integer(data, at)
        match head & 15:
            case 1 | 2:
                fields[number] = head & 15 == 1
            case 3:
                at += 1
            case 4 | 5 | 6:
                fields[number], at = _read_integer(data, at)
            case 7:
                at += 8
            case 8:
                length, at = _read_varint(data, at)
                at += length
            case 12:
                fields[number], at = _read_struct(data, at, depth - 1)
            case kind:
                raise PageInvalid(f"a page header has a field of kind {kind}")
    return fields, at + 1


def _read_integer(data: bytes, at: int) -> tuple[int, int]:
    raw, at = _read_varint(data, at)
    return (raw >> 1) ^ -(raw & 1), at


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise PageInvalid("a number in a page header is too long")
