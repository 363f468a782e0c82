"""Bytes of one request or reply between peers: 4-byte big-endian length, then a msgpack map.

Decides what is well-formed and how large it may be: the length is judged before anything is allocated, the map before
anything is read from it. Pure but for the stream that it is handed. Knows nothing of hosts, timeouts or handlers.
"""

from __future__ import annotations

import struct
from typing import Any, Protocol

import msgpack

MAX_ITEMS = 64  # of one list or map: a byte on the wire must not become an object in memory
MAX_MESSAGE_BYTES = (8 << 20) + 4096  # a submission of 8 MiB and its envelope
READ_SIZE_BYTES = 1 << 16
HEADER = struct.Struct(">I")


class MessageTooLarge(Exception):
    """The announced or encoded length exceeds the bound."""


class MessageMalformed(Exception):
    """Not a whole frame, or its bytes are not a msgpack map with text keys."""


class ByteStream(Protocol):
    """What is read from: a libp2p stream, or a list of byte strings in tests. An empty read is the end."""

    async def read(self, n: int) -> bytes:
        """At most `n` bytes."""
        ...


def encode_message(message: dict[str, Any], max_bytes: int) -> bytes:
    """The frame of `message`. Raises MessageTooLarge (body over `max_bytes`), TypeError (not for msgpack)."""
    body = msgpack.packb(message)
    if len(body) > max_bytes:
        raise MessageTooLarge(f"{len(body)} bytes; at most {max_bytes} are allowed")
    return HEADER.pack(len(body)) + body


async def read_message(stream: ByteStream, max_bytes: int) -> dict[str, Any]:
    """The next message. Raises MessageTooLarge before the body is read, MessageMalformed, and the stream's errors."""
    (length,) = HEADER.unpack(await _read_exactly(stream, HEADER.size))
    if length > max_bytes:
        raise MessageTooLarge(f"{length} bytes announced; at most {max_bytes} are allowed")
    body = await _read_exactly(stream, length)
    try:
        message = msgpack.unpackb(body, max_array_len=MAX_ITEMS, max_map_len=MAX_ITEMS, max_ext_len=0)
    except (ValueError, msgpack.exceptions.UnpackException, RecursionError) as error:
        raise MessageMalformed(f"not msgpack: {type(error).__name__}") from error
    if not isinstance(message, dict) or not all(isinstance(key, str) for key in message):
        raise MessageMalformed("not a map with text keys")
    return message


async def _read_exactly(stream: ByteStream, size_bytes: int) -> bytes:
    data = bytearray()  # grows as bytes arrive: an announced length allocates nothing
    while len(data) < size_bytes:
        part = await stream.read(min(size_bytes - len(data), READ_SIZE_BYTES))
        if not part:
            raise MessageMalformed(f"ended after {len(data)} of {size_bytes} bytes")
        data += part
    return bytes(data)
