"""Decides how a child process serves its node: frames in on stdin, frames out on stdout, death when stdin ends.

The real stdin and stdout are moved to private descriptors first; fd 0 becomes /dev/null and fd 1 becomes stderr, so
nothing a library prints or reads can corrupt a frame. It refuses to interpret results and to outlive its parent.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import sys
import threading
import traceback
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from node.frames import FrameDecoder, FrameError, encode_frame

READ_BYTES = 256 * 1024
EXIT_GRACE_S = 5.0
Expected = tuple[type[Exception], ...]


def serve_sync(
    handlers: Mapping[str, Callable[..., Any]], *, exit_grace_s: float = EXIT_GRACE_S, expected: Expected = ()
) -> None:
    """Serves calls one after another until stdin ends; an exception in a handler becomes a typed error reply.

    When stdin ends the process has `exit_grace_s` seconds to finish what it does and leave; then it exits hard.
    Errors of the `expected` classes are logged in one line, all others with their traceback.
    """
    source, sink = _take_stdio()
    requests: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
    threading.Thread(target=_read_requests, args=(source, requests, exit_grace_s), daemon=True).start()
    while (request := requests.get()) is not None:
        if "cancel" in request:
            continue  # calls run one after another: by now it has been answered
        _write_all(sink, _answer_sync(handlers, request, expected))


async def serve_asyncio(handlers: Mapping[str, Callable[..., Awaitable[Any]]], *, expected: Expected = ()) -> None:
    """Serves calls concurrently on this loop until stdin ends; then calls still running are cancelled and awaited.

    Errors of the `expected` classes are logged in one line, all others with their traceback.
    """
    source, sink = _take_stdio()
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(source, "rb", buffering=0))
    transport, protocol = await loop.connect_write_pipe(
        lambda: asyncio.streams.FlowControlMixin(loop=loop), os.fdopen(sink, "wb", buffering=0)
    )
    writer = asyncio.StreamWriter(transport, protocol, None, loop)
    running: dict[int, asyncio.Task[None]] = {}

    async def answer(request: dict[str, Any]) -> None:
        call_id = request["id"]
        try:
            result = await handlers[request["method"]](**request["params"])
            frame = encode_frame({"id": call_id, "ok": True, "result": result})
        except Exception as error:  # the edge to the parent: every failure becomes a typed reply
            frame = _failure(call_id, error, expected)
        finally:
            running.pop(call_id, None)
        writer.write(frame)
        await writer.drain()

    decoder = FrameDecoder()
    while data := await reader.read(READ_BYTES):
        for request in decoder.feed(data):
            if "cancel" in request:
                if (task := running.get(request["cancel"])) is not None:
                    task.cancel()
            else:
                running[request["id"]] = asyncio.create_task(answer(request))
    tasks = list(running.values())
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def without_stdio() -> None:
    """Leave stdin and stdout to another process that was given them too: nothing is read, and prints go to stderr."""
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)


def _take_stdio() -> tuple[int, int]:
    source, sink = os.dup(0), os.dup(1)  # dup gives descriptors that grandchildren do not inherit
    without_stdio()
    return source, sink


def _read_requests(source: int, requests: queue.SimpleQueue[dict[str, Any] | None], exit_grace_s: float) -> None:
    decoder = FrameDecoder()
    try:
        while data := os.read(source, READ_BYTES):
            for request in decoder.feed(data):
                requests.put(request)
    except FrameError as error:
        print(f"unreadable request, leaving: {error}", file=sys.stderr, flush=True)
    requests.put(None)
    threading.Event().wait(exit_grace_s)
    os._exit(0)


def _answer_sync(handlers: Mapping[str, Callable[..., Any]], request: dict[str, Any], expected: Expected) -> bytes:
    try:
        result = handlers[request["method"]](**request["params"])
        return encode_frame({"id": request["id"], "ok": True, "result": result})
    except Exception as error:  # the edge to the parent: every failure becomes a typed reply
        return _failure(request["id"], error, expected)


def _failure(call_id: int, error: Exception, expected: Expected) -> bytes:
    # On a full disk the log cannot be written either; the parent must still hear of it.
    with contextlib.suppress(OSError):
        if isinstance(error, expected):
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
        else:
            traceback.print_exception(error, file=sys.stderr)
    return encode_frame({"id": call_id, "ok": False, "kind": type(error).__name__, "message": str(error)[:10_000]})


def _write_all(sink: int, frame: bytes) -> None:
    view = memoryview(frame)
    while view:
        view = view[os.write(sink, view) :]
