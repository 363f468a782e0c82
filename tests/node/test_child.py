"""A child answers concurrently, fails by type, cannot be confused by prints, and never outlives its owner."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from node.child import ChildDied, ChildError, ChildTimeout, open_child

SYNC = """
import os, subprocess, sys
from node.child_main import serve_sync
def fail(): raise KeyError("no such thing")
def noisy(): print("to stdout"); os.write(1, b"raw"); subprocess.run(["cat"], check=True); return sys.stdin.read()
def grandchild(): return subprocess.Popen(["cat", "/dev/zero"], stdout=subprocess.DEVNULL).pid
def die(): print("last words", file=sys.stderr, flush=True); os._exit(7)
def stuck():
    import threading; threading.Event().wait()
serve_sync({f.__name__: f for f in (fail, noisy, grandchild, die, stuck)} | {"echo": lambda **p: p}, exit_grace_s=0.2)
"""
ASYNC = """
import asyncio
from node.child_main import serve_asyncio
gate, cancelled = asyncio.Event(), []
async def wait():
    try: await gate.wait()
    except asyncio.CancelledError: cancelled.append(1); raise
    return "opened"
async def open_gate(): gate.set()
async def count(): return len(cancelled)
asyncio.run(serve_asyncio({"wait": wait, "open_gate": open_gate, "count": count}))
"""


def argv(code: str) -> list[str]:
    return [sys.executable, "-c", code]


async def poll(condition: Callable[[], bool], timeout_s: float = 10.0) -> None:
    with trio.fail_after(timeout_s):
        while not condition():
            await trio.lowlevel.checkpoint()


def gone(pid: int) -> bool:
    """Whether the process has ended (a zombie without a reaper counts as ended)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


@pytest.mark.trio
async def test_calls_errors_and_noise(tmp_path: Path) -> None:
    async with open_child(argv(SYNC), name="probe", log_path=tmp_path / "log") as child:
        assert await child.call("echo", timeout_s=20, a=1, b=b"x") == {"a": 1, "b": b"x"}
        assert await child.call("noisy", timeout_s=20) == ""
        with pytest.raises(ChildError) as caught:
            await child.call("fail", timeout_s=20)
        assert caught.value.kind == "KeyError"
        assert "no such thing" in caught.value.message
        with pytest.raises(ChildError, match="nope"):
            await child.call("nope", timeout_s=20)
        helper = await child.call("grandchild", timeout_s=20)
    assert gone(child.pid)
    assert "to stdout" in (tmp_path / "log").read_text()
    await poll(lambda: gone(helper))


@pytest.mark.trio
async def test_death_is_named_for_every_call_in_flight(tmp_path: Path) -> None:
    async with open_child(argv(SYNC), name="probe", log_path=tmp_path / "log") as child:
        with pytest.raises(ChildDied, match="last words") as caught:
            await child.call("die", timeout_s=20)
        assert caught.value.returncode == 7
        assert not child.alive
        with pytest.raises(ChildDied):
            await child.call("echo", timeout_s=20)
    async with open_child(argv(SYNC), name="probe", log_path=tmp_path / "log") as child:
        await child.call("echo", timeout_s=20)
        os.kill(child.pid, signal.SIGKILL)
        with trio.fail_after(10):
            assert (await child.wait_died()).returncode == -signal.SIGKILL


@pytest.mark.trio
async def test_timeout_and_a_stuck_child_is_still_closed(tmp_path: Path) -> None:
    async with open_child(argv(SYNC), name="probe", log_path=tmp_path / "log") as child:
        await child.call("echo", timeout_s=20)
        with pytest.raises(ChildTimeout):
            await child.call("stuck", timeout_s=0.1)
    assert gone(child.pid)


@pytest.mark.trio
async def test_asyncio_child_overlaps_calls_and_cancels_abandoned_ones(tmp_path: Path) -> None:
    async with open_child(argv(ASYNC), name="probe", log_path=tmp_path / "log") as child:
        with pytest.raises(ChildTimeout):
            await child.call("wait", timeout_s=1.0)
        assert await child.call("count", timeout_s=20) == 1
        results: list[str] = []

        async def wait() -> None:
            results.append(await child.call("wait", timeout_s=20))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            nursery.start_soon(wait)
            await child.call("open_gate", timeout_s=20)
        assert results == ["opened", "opened"]


@pytest.mark.trio
async def test_the_body_s_exception_passes_unchanged(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        async with open_child(argv(SYNC), name="probe", log_path=tmp_path / "log") as child:
            raise ZeroDivisionError
    assert gone(child.pid)


@pytest.mark.trio
async def test_garbage_on_the_pipe_counts_as_death(tmp_path: Path) -> None:
    code = "import os; os.write(1, b'\\xff' * 64); os.read(0, 1)"
    async with open_child(argv(code), name="liar", log_path=tmp_path / "log") as child:
        with trio.fail_after(10):
            assert "unreadable reply" in (await child.wait_died()).log_tail


@pytest.mark.trio
async def test_a_missing_program_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        async with open_child(["/nonexistent/program"], name="x", log_path=tmp_path / "log"):
            raise AssertionError("must not start")


@pytest.mark.trio
@pytest.mark.parametrize(
    "code",
    [SYNC, ASYNC.replace("async def count(): return len(cancelled)", "async def count(): raise KeyError('none')")],
)
async def test_a_fault_is_told_even_where_the_log_cannot_be_written(code: str) -> None:
    method = "fail" if code is SYNC else "count"
    async with open_child(argv(code), name="child", log_path=Path("/dev/full")) as child:
        with trio.fail_after(20), pytest.raises(ChildError) as failed:
            await child.call(method, timeout_s=10)
    assert failed.value.kind == "KeyError"
