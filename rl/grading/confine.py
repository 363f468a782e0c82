"""What a graded call may still ask of the kernel: memory, the clock, reading files, and writing its reply (x86_64).

Some libraries of tasks evaluate parts of an answer. So the fork in which an answer is graded can open no file for
writing, no socket, no process, and can signal nobody, whatever it is made to run. A list of what is allowed: here,
unlike in `rl.sandbox`, a call that is refused ends in `NotGraded` and not in a wrong reward. Where the kernel has no
such filter `confine` says so, and its caller decides.
"""

from __future__ import annotations

import ctypes
import errno
import platform
import struct

ALLOWED = {
    "read": 0, "write": 1, "close": 3, "stat": 4, "fstat": 5, "lstat": 6, "poll": 7, "lseek": 8, "mmap": 9,
    "mprotect": 10, "munmap": 11, "brk": 12, "rt_sigaction": 13, "rt_sigprocmask": 14, "rt_sigreturn": 15,
    "pread64": 17, "access": 21, "select": 23, "sched_yield": 24, "mremap": 25, "madvise": 28, "dup": 32,
    "nanosleep": 35, "getpid": 39, "exit": 60, "uname": 63, "fcntl": 72, "getcwd": 79, "readlink": 89,
    "gettimeofday": 96, "getrusage": 98, "sysinfo": 99, "getuid": 102, "getgid": 104, "geteuid": 107, "getegid": 108,
    "sigaltstack": 131, "gettid": 186, "futex": 202, "sched_getaffinity": 204, "getdents64": 217, "clock_gettime": 228,
    "clock_nanosleep": 230, "exit_group": 231, "newfstatat": 262, "readlinkat": 267, "getrandom": 318, "statx": 332,
}  # fmt: skip
IOCTL, OPENAT = 16, 257
WRITING = 0o1 | 0o2 | 0o100 | 0o1000 | 0o2000 | 0o20000000  # WRONLY RDWR CREAT TRUNC APPEND, and TMPFILE's own bit
ARCHITECTURE, X32_BIT = 0xC000003E, 0x40000000
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _FILTER = 38, 22, 2
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _ERROR = 0x7FFF0000, 0x80000000, 0x00050000


class _Program(ctypes.Structure):
    """struct sock_fprog"""

    _fields_ = (("steps", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def build() -> bytes:
    """The filter: 8 bytes a step, as `struct sock_filter`."""

    def step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
        return struct.pack("=HBBI", code, if_true, if_false, value)

    steps = step(_LOAD, 4) + step(_EQUAL, ARCHITECTURE, 1, 0) + step(_RETURN, _KILL)
    steps += step(_LOAD, 0) + step(_AT_LEAST, X32_BIT, 0, 1) + step(_RETURN, _KILL)
    for number in ALLOWED.values():
        steps += step(_EQUAL, number, 0, 1) + step(_RETURN, _ALLOW)
    steps += step(_EQUAL, IOCTL, 0, 1) + step(_RETURN, _ERROR | errno.ENOTTY)  # what it is asked for is: a terminal?
    steps += step(_EQUAL, OPENAT, 0, 3) + step(_LOAD, 32) + step(_ANY_BIT, WRITING, 1, 0) + step(_RETURN, _ALLOW)
    return steps + step(_RETURN, _ERROR | errno.EPERM)


def confine() -> bool:
    """Put the filter on this process, for good. False where the kernel or the machine has none."""
    if platform.machine() != "x86_64":
        return False
    libc, steps = ctypes.CDLL(None, use_errno=True), build()
    program = _Program(len(steps) // 8, steps)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        return False
    return libc.prctl(_PR_SET_SECCOMP, _FILTER, ctypes.byref(program), 0, 0) == 0
