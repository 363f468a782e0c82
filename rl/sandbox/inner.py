"""The first process inside the sandbox: puts the program's files in place, starts it with its limits, reaps.

    python inner.py < spec.json

It begins when the namespaces are made (by `rl.sandbox.namespaces` or bubblewrap) and is the same for both. Its end is
the end of everything in the sandbox, since it is process 1. It holds no secret and no expected output, and decides
nothing: what the program printed is judged outside. The standard library only.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import sys
from typing import Any, NoReturn

NO_RANDOM_ADDRESSES = 0x0040000
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
ENVIRONMENT = {"HOME": "/box", "TMPDIR": "/box", "LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "0"}


class _Program(ctypes.Structure):
    """struct sock_fprog"""

    _fields_ = (("steps", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def limit(limits: dict[str, Any]) -> None:
    """Of this process and, each for itself, of what it starts; the number of processes is of the sandbox."""
    for what, most in (
        (resource.RLIMIT_AS, limits["memory_bytes"]),
        (resource.RLIMIT_CPU, int(limits["cpu_s"]) + 2),  # the net below the supervisor's own watch
        (resource.RLIMIT_NPROC, limits["processes"]),
        (resource.RLIMIT_FSIZE, limits["file_bytes"]),
        (resource.RLIMIT_NOFILE, limits["open_files"]),
        (resource.RLIMIT_STACK, limits["stack_bytes"]),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_MEMLOCK, 0),
        (resource.RLIMIT_MSGQUEUE, 0),
    ):
        resource.setrlimit(what, (most, most))


def forbid() -> None:
    """No new privileges, no random addresses, and the filter of system calls."""
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import syscall_filter

    libc = ctypes.CDLL(None, use_errno=True)
    steps = syscall_filter.build()
    program = _Program(len(steps) // 8, steps)
    libc.personality(NO_RANDOM_ADDRESSES)
    for arguments in (
        (PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
        (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0),
    ):
        if libc.prctl(*arguments) != 0:
            raise OSError(ctypes.get_errno(), f"prctl {arguments[0]}: {os.strerror(ctypes.get_errno())}")


def start(spec: dict[str, Any]) -> NoReturn:
    """In the child: become the program."""
    try:
        os.setsid()
        nothing = os.open("/dev/null", os.O_RDWR)
        os.dup2(nothing, 2)
        os.chdir("/box")
        limit(spec["limits"])
        forbid()
        os.execve(spec["argv"][0], spec["argv"], ENVIRONMENT)
    except BaseException as error:
        os.write(spec["fault_fd"], f"{type(error).__name__}: {error}".encode()[:1000])
        os._exit(1)


def main() -> NoReturn:
    with os.fdopen(os.dup(0), "rb") as source:
        spec = json.load(source)
    os.set_inheritable(spec["fault_fd"], False)
    for name, text in spec["files"].items():
        with open(os.path.join("/box", name), "x", encoding="utf-8") as file:
            file.write(text)
    given = os.memfd_create("stdin", 0)
    with os.fdopen(os.dup(given), "wb") as file:
        file.write(spec["stdin"].encode("utf-8", "surrogatepass"))
    os.lseek(given, 0, os.SEEK_SET)
    os.dup2(given, 0)
    os.close(given)
    program = os.fork()
    if program == 0:
        start(spec)
    os.close(1)
    os.close(spec["fault_fd"])
    while True:
        pid, status = os.wait()
        if pid == program:
            code = os.waitstatus_to_exitcode(status)
            os._exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main()
