"""Frames survive any cutting of the stream; a hostile length or body is refused before allocation."""

from __future__ import annotations

import pytest

from node.frames import MAX_FRAME_BYTES, FrameDecoder, FrameError, encode_frame


@pytest.mark.parametrize("step", [1, 2, 3, 7, 1000])
def test_messages_survive_any_cut(step: int) -> None:
    messages = [{"id": 1, "data": b"\x00\xff" * 50}, [1, 2.5, None, "ü"], {}, {3: "int key"}]
    stream = b"".join(map(encode_frame, messages))
    decoder, seen = FrameDecoder(), []
    for start in range(0, len(stream), step):
        seen += decoder.feed(stream[start : start + step])
    assert seen == messages
    assert not decoder.partial


def test_announced_length_above_the_limit_is_refused_at_once() -> None:
    with pytest.raises(FrameError, match="announces"):
        FrameDecoder().feed((MAX_FRAME_BYTES + 1).to_bytes(4, "big"))


@pytest.mark.parametrize("body", [b"\xc1", b"\x81", b"\x01\x02", b"\xd9\x02\xff\xfe"])
def test_body_that_is_not_one_msgpack_value_is_refused(body: bytes) -> None:
    with pytest.raises(FrameError, match="not msgpack"):
        FrameDecoder().feed(len(body).to_bytes(4, "big") + body)


def test_what_cannot_be_framed_is_refused() -> None:
    with pytest.raises(FrameError, match="cannot be framed"):
        encode_frame(object())
    with pytest.raises(FrameError, match="exceeds"):
        encode_frame(bytes(MAX_FRAME_BYTES))


def test_a_cut_stream_is_noticed() -> None:
    decoder = FrameDecoder()
    assert decoder.feed(encode_frame("whole")[:-1]) == []
    assert decoder.partial
