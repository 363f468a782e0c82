"""One run of one program: makes the sandbox, watches its limits from outside, ends it wholly, says how it ended.

    python -m rl.sandbox.supervisor STATUS_FD < spec.json

The spec is one line; that its writer closes the pipe afterwards, or dies, ends the run. Standard output is the
program's. It ends when the last process of the sandbox is gone and reaped. The standard library only: it starts often.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from typing import Any

from rl.sandbox import bubblewrap, namespaces

CODE_FOLDER = os.path.dirname(os.path.abspath(__file__))
FIRST_LOOK_S, LONGEST_LOOK_S = 0.02, 0.1
_TICKS, _PAGE = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")


def measure(root: int) -> tuple[float, int]:
    """CPU seconds used and bytes of memory held by `root` and everything below it."""
    found: dict[int, tuple[int, float, int]] = {}
    for name in os.listdir("/proc"):
        if name.isdecimal():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    fields = file.read().rpartition(b")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            found[int(name)] = (int(fields[1]), sum(map(int, fields[11:15])) / _TICKS, int(fields[21]) * _PAGE)
    inside, grown = {root}, True
    while grown:
        more = {pid for pid, (parent, _, _) in found.items() if parent in inside} - inside
        inside |= more
        grown = bool(more)
    used = [found[pid] for pid in inside if pid in found]
    return sum(cpu for _, cpu, _ in used), sum(memory for _, _, memory in used)


def watch(pid: int, limits: dict[str, Any]) -> str:
    """Wait until `pid` has ended or must be. Returns how: exited, cpu, wall, memory or cancelled."""
    until, look_s = time.monotonic() + limits["wall_s"], FIRST_LOOK_S
    process = os.pidfd_open(pid)
    try:
        while True:
            left = until - time.monotonic()
            ready = select.select([process, 0], [], [], max(0.0, min(look_s, left)))[0]
            if process in ready:
                return "exited"
            if 0 in ready:
                return "cancelled"
            if left <= 0:
                return "wall"
            cpu_s, memory_bytes = measure(pid)
            if cpu_s > limits["cpu_s"]:
                return "cpu"
            if memory_bytes > limits["memory_bytes"]:
                return "memory"
            look_s = min(2 * look_s, LONGEST_LOOK_S)
    finally:
        os.close(process)


def begin(spec: dict[str, Any], fault: int) -> tuple[int, int]:
    """Start the sandbox. Returns the process to wait for and the one whose death ends it all."""
    given = os.memfd_create("spec", os.MFD_CLOEXEC)  # its copy as standard input is what the sandbox gets
    with os.fdopen(os.dup(given), "wb") as file:
        file.write(json.dumps(spec | {"fault_fd": fault}).encode())
    os.lseek(given, 0, os.SEEK_SET)
    box_bytes = spec["limits"]["box_bytes"]
    argv = [namespaces.interpreter(), "-I", "-S", "-B", "/sandbox/inner.py"]
    if not spec["bwrap"]:
        pid = namespaces.spawn(
            argv, stdin=given, keep=[fault], box_bytes=box_bytes, code_folder=CODE_FOLDER, fault=fault
        )
        os.close(given)
        return pid, pid
    come, go = os.pipe()
    words = bubblewrap.command(spec["bwrap"], argv, box_bytes=box_bytes, code_folder=CODE_FOLDER, info=go)
    pid = os.fork()
    if pid == 0:
        try:
            os.dup2(given, 0)
            for descriptor in (go, fault):
                os.set_inheritable(descriptor, True)
            os.execve(words[0], words, {"LC_ALL": "C.UTF-8"})
        finally:
            os._exit(127)
    os.close(given)
    os.close(go)
    with os.fdopen(come, "rb") as info:
        said = info.read()
    return pid, int(json.loads(said)["child-pid"]) if said else pid


def main() -> None:
    status_fd, line = int(sys.argv[1]), b""
    os.set_inheritable(status_fd, False)
    while not line.endswith(b"\n"):
        part = os.read(0, 1 << 20)
        if not part:
            return
        line += part
    spec = json.loads(line)
    fault_come, fault = os.pipe()
    began = time.monotonic()
    try:
        waited, first = begin(spec, fault)
    except OSError as error:
        os.write(status_fd, json.dumps({"ended": "fault", "fault": f"{type(error).__name__}: {error}"}).encode())
        return
    os.close(fault)
    os.close(1)
    ended = watch(waited, spec["limits"])
    if ended != "exited":
        os.kill(first, signal.SIGKILL)
    _, status, used = os.wait4(waited, 0)
    with os.fdopen(fault_come, "rb") as faults:
        said = faults.read()
    if said:
        ended = "fault"
    reply = {
        "ended": ended,
        "exit_code": os.waitstatus_to_exitcode(status),
        "cpu_s": used.ru_utime + used.ru_stime,
        "wall_s": time.monotonic() - began,
        "fault": said.decode(errors="replace"),
    }
    os.write(status_fd, json.dumps(reply).encode())


if __name__ == "__main__":
    main()
