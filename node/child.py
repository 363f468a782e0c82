"""Decides how a node (trio) owns a child process: start, concurrent calls, typed failures, and an end that is certain.

Frames travel on the child's stdin and stdout, its stderr goes to a log file. It refuses to restart anything (that is
the supervisor's decision) and to signal any process outside the group it started.
"""

from __future__ import annotations

import itertools
import math
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio

from node.frames import FrameDecoder, FrameError, encode_frame

LOG_TAIL_LINES = 12
LOG_TAIL_BYTES = 8192


class ChildDied(Exception):
    """The child ended while it was needed. `returncode` is negative for a signal; `log_tail` is the end of its log."""

    def __init__(self, name: str, returncode: int | None, log_tail: str) -> None:
        super().__init__(f"{name} ended with status {returncode}; last log lines:\n{log_tail}")
        self.name, self.returncode, self.log_tail = name, returncode, log_tail


class ChildError(Exception):
    """A handler in the child raised: `kind` is the class name there, `message` its text."""

    def __init__(self, name: str, kind: str, message: str) -> None:
        super().__init__(f"{name}: {kind}: {message}")
        self.name, self.kind, self.message = name, kind, message


class ChildTimeout(Exception):
    """No reply within the caller's `timeout_s`; the child was told to give the call up."""


class Child:
    """A running child. Use through `open_child`."""

    def __init__(self, process: trio.Process, name: str, log_path: Path) -> None:
        self.name, self.log_path, self.pid = name, log_path, process.pid
        self._process = process
        self._ids = itertools.count(1)
        self._replies: dict[int, trio.MemorySendChannel[dict[str, Any]]] = {}
        self._outgoing, self._to_write = trio.open_memory_channel[bytes](math.inf)  # bounded by the callers in flight
        self._death = trio.Event()

    @property
    def alive(self) -> bool:
        """False once the child's end was noticed."""
        return not self._death.is_set()

    async def wait_died(self) -> ChildDied:
        """Blocks until the child has ended and says how."""
        await self._death.wait()
        return self._died()

    async def call(self, method: str, *, timeout_s: float, **params: Any) -> Any:
        """Runs `method` in the child; calls may overlap. Raises ChildError, ChildTimeout, ChildDied, FrameError."""
        if self._death.is_set():
            raise self._died()
        call_id = next(self._ids)
        frame = encode_frame({"id": call_id, "method": method, "params": params})
        self._replies[call_id], reply_channel = trio.open_memory_channel[dict[str, Any]](1)
        try:
            with trio.fail_after(timeout_s):
                self._outgoing.send_nowait(frame)
                reply = await reply_channel.receive()
        except trio.EndOfChannel:
            raise self._died() from None
        except trio.TooSlowError:
            raise ChildTimeout(f"{self.name}: no reply to {method} within {timeout_s} s") from None
        finally:
            if self._replies.pop(call_id, None) is not None and not self._death.is_set():
                self._outgoing.send_nowait(encode_frame({"cancel": call_id}))
        if reply["ok"]:
            return reply["result"]
        raise ChildError(self.name, str(reply["kind"]), str(reply["message"]))

    def _died(self) -> ChildDied:
        return ChildDied(self.name, self._process.returncode, log_tail(self.log_path))

    async def _write(self) -> None:
        assert self._process.stdin is not None
        try:
            async for frame in self._to_write:
                await self._process.stdin.send_all(frame)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return  # the reader sees the end of the same process and names it

    async def _read(self) -> None:
        assert self._process.stdout is not None
        decoder = FrameDecoder()
        try:
            async for data in self._process.stdout:
                for reply in decoder.feed(data):
                    channel = self._replies.pop(reply.get("id"), None)
                    if channel is not None:
                        channel.send_nowait(reply)
        except (FrameError, AttributeError, trio.BrokenResourceError) as error:
            with self.log_path.open("a") as log:
                log.write(f"parent: unreadable reply from {self.name}: {error!r}\n")
        self._kill_group()
        await self._process.wait()
        self._death.set()
        for channel in self._replies.values():
            channel.close()

    def _kill_group(self) -> None:
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            return  # the whole group has ended by itself

    async def _close(self, grace_s: float) -> None:
        """Ends the child: stdin closed, `grace_s` seconds to leave, then its process group is killed."""
        assert self._process.stdin is not None
        with trio.CancelScope(shield=True):
            await self._process.stdin.aclose()
            with trio.move_on_after(grace_s):
                await self._process.wait()
            self._kill_group()
            await self._process.wait()


@asynccontextmanager
async def open_child(
    argv: Sequence[str], *, name: str, log_path: Path, env: Mapping[str, str] | None = None, grace_s: float = 10.0
) -> AsyncIterator[Child]:
    """Starts `argv` in its own process group and yields the Child; on leaving, that whole group is gone.

    Not in a session of its own: the kernel shares cores between sessions, and a nice node's child would not be nice.

    `env` is laid over the node's own environment (never put secrets there). stderr is appended to `log_path`.
    Raises OSError when the program cannot be started; exceptions of the body pass unchanged (no group around them).
    """
    log_path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with log_path.open("ab") as log:
        process = await trio.lowlevel.open_process(
            list(argv), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
            process_group=0, env={**os.environ, **(env or {})},
        )  # fmt: skip
    child = Child(process, name, log_path)
    failure: Exception | None = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(child._write)
        nursery.start_soon(child._read)
        try:
            yield child
        except Exception as error:  # raised again below, outside the nursery's group
            failure = error
        finally:
            await child._close(grace_s)
            nursery.cancel_scope.cancel()
            child._death.set()
    if failure is not None:
        raise failure


def log_tail(path: Path) -> str:
    """The last LOG_TAIL_LINES lines of a log, reading at most LOG_TAIL_BYTES; empty if there is none."""
    if not path.exists():
        return ""
    with path.open("rb") as log:
        log.seek(max(0, path.stat().st_size - LOG_TAIL_BYTES))
        return "\n".join(log.read().decode(errors="replace").splitlines()[-LOG_TAIL_LINES:])
