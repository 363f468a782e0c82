"""The grading process: calls one function again and again, each time in a fork of itself that ends with the call.

    python -m rl.grading.child MODULE:FUNCTION '{"calls": …, "cpu_s": …, "wall_s": …, "memory_bytes": …, "confined": …}'

Reads a line of JSON (the list of arguments) and answers with a line of JSON: `{"value": …, "calls": …}` or
`{"fault": …, "detail": …}`.
Decides nothing about answers. A fork starts from the same memory each time, so what a call returns does not depend on
the calls before it. The first limit is a number of function calls and not a time: a slow machine must come to the
same reward as a fast one. CPU time, memory and wall time are the net below it, for loops that call nothing.
It refuses nothing that the function says: a value is whatever JSON can hold.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, NoReturn

from rl.grading.confine import confine

MAX_REPLY_BYTES = 1 << 20
OVER_BUDGET = b'{"fault": "over-budget", "detail": "more function calls than allowed"}'


def count_calls(budget: int, tell: Callable[[bytes], NoReturn]) -> Callable[[], int]:
    """End this process by `tell` at the call after `budget`. An exception would be caught by the code it stops.

    Returns what tells how many calls there were.
    """
    left = budget

    def counting(frame: FrameType, event: str, argument: object) -> None:
        nonlocal left
        if event in ("call", "c_call"):
            left -= 1
            if left < 0:
                tell(OVER_BUDGET)

    sys.setprofile(counting)
    return lambda: budget - left


def run_once(function: Callable[..., Any], arguments: list[Any], limits: dict[str, Any], out: int) -> NoReturn:
    """In the fork: call, write the outcome to `out`, end."""

    def tell(reply: bytes) -> NoReturn:
        sys.setprofile(None)
        with os.fdopen(out, "wb") as pipe:
            pipe.write(reply if len(reply) <= MAX_REPLY_BYTES else b'{"fault": "raised", "detail": "reply too long"}')
        os._exit(0)

    silent = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(silent, stream)
    cpu_s, memory_bytes = limits["cpu_s"], limits["memory_bytes"]
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s))
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        if not confine() and limits["confined"]:
            raise PermissionError("this kernel has no filter of system calls; the task needs one to be graded safely")
        used = count_calls(limits["calls"], tell) if limits["calls"] else lambda: 0
        value = function(*arguments)
        sys.setprofile(None)
        reply = json.dumps({"value": value, "calls": used()}).encode()
    except BaseException as error:
        sys.setprofile(None)
        reply = json.dumps({"fault": "raised", "detail": f"{type(error).__name__}: {error}"[:2000]}).encode()
    tell(reply)


def grade(function: Callable[..., Any], arguments: list[Any], limits: dict[str, Any], replies: int) -> bytes:
    """One call in a fork of its own: its reply, one line of bounded length, or what became of it.

    Args:
        replies: the descriptor on which replies go out. The fork must not have it: whoever makes an answer run as code
            would reply to the calls that follow, and decide what others' answers are worth.
    """
    come, go = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(come)
        os.close(replies)
        run_once(function, arguments, limits, go)
    os.close(go)
    reply, until = b"", time.monotonic() + limits["wall_s"]
    while select.select([come], [], [], max(0.0, until - time.monotonic()))[0]:
        part = os.read(come, 1 << 16)
        if not part:
            break
        reply += part
        if len(reply) > MAX_REPLY_BYTES:
            os.kill(pid, signal.SIGKILL)
            break
    else:
        os.kill(pid, signal.SIGKILL)
    os.close(come)
    status = os.waitpid(pid, 0)[1]
    if os.waitstatus_to_exitcode(status) == 0 and 0 < len(reply) <= MAX_REPLY_BYTES and b"\n" not in reply:
        return reply
    limit = os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGKILL, signal.SIGXCPU)
    fault, detail = ("overran", "CPU or wall time used up") if limit else ("died", f"ended with wait status {status}")
    return json.dumps({"fault": fault, "detail": detail}).encode()


def main() -> None:
    target, limits = sys.argv[1], json.loads(sys.argv[2])
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever an import prints must not look like a reply
    module, _, name = target.partition(":")
    function = getattr(importlib.import_module(module), name)
    replies.write(b'{"ready": true}\n')
    replies.flush()
    for line in sys.stdin.buffer:
        replies.write(grade(function, json.loads(line), limits, replies.fileno()) + b"\n")
        replies.flush()


if __name__ == "__main__":
    main()
