"""Decides how messages lie on a pipe between a node and its children: 4-byte big-endian length, then msgpack.

Sans-io: bytes in, messages out; both ends use it. It refuses to do I/O, to allocate for a frame above MAX_FRAME_BYTES
and to resynchronise after a broken frame: a pipe that lied once is closed by its owner.
"""

from __future__ import annotations

import struct
from typing import Any

import msgpack

MAX_FRAME_BYTES = 64 * 1024 * 1024
_LENGTH = struct.Struct(">I")


class FrameError(Exception):
    """A frame that cannot be sent or read: too long, or not one msgpack value."""


def encode_frame(message: Any) -> bytes:
    """One framed message.

    Tuples become lists on the way. Raises FrameError above MAX_FRAME_BYTES or on foreign types.
    """
    try:
        body = msgpack.packb(message, use_bin_type=True)
    except (TypeError, ValueError, OverflowError) as error:
        raise FrameError(f"message cannot be framed: {error}") from error
    if len(body) > MAX_FRAME_BYTES:
        raise FrameError(f"message of {len(body)} bytes exceeds the frame limit of {MAX_FRAME_BYTES}")
    return _LENGTH.pack(len(body)) + body


class FrameDecoder:
    """Collects bytes and gives back whole messages, in order."""

    __slots__ = ("_buffer",)

    def __init__(self) -> None:
        self._buffer = bytearray()

    @property
    def partial(self) -> bool:
        """Whether the stream stands in the middle of a frame (at end of file: it was cut)."""
        return bool(self._buffer)

    def feed(self, data: bytes) -> list[Any]:
        """Messages completed by `data`.

        Raises FrameError on a length above MAX_FRAME_BYTES or a body that is not msgpack.
        """
        self._buffer += data
        messages: list[Any] = []
        while len(self._buffer) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._buffer)
            if length > MAX_FRAME_BYTES:
                raise FrameError(f"frame announces {length} bytes, limit {MAX_FRAME_BYTES}")
            end = _LENGTH.size + length
            if len(self._buffer) < end:
                break
            body = bytes(self._buffer[_LENGTH.size : end])
            del self._buffer[:end]
            try:
                messages.append(msgpack.unpackb(body, raw=False, strict_map_key=False))
            except Exception as error:  # msgpack raises a dozen unrelated types on hostile input
                raise FrameError(f"frame is not msgpack: {error!r}") from error
        return messages
