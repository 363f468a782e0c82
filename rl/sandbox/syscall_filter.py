"""Which system calls a program in the sandbox may not make, as a seccomp filter (x86_64).

Decides by number, and by argument for `clone`, `socket` and `ioctl`. Namespaces already separate the program; this
takes away the parts of the kernel that have been ways out of them, memory that no limit counts, the network's sockets,
and real randomness (`getrandom` fails, so that Python reads /dev/urandom, which the sandbox fills with zeros: a program
gives the same output on every machine). It lists what is denied, not what is allowed: with a list of allowed calls
another C library would fail programs that run elsewhere. Imported inside the sandbox too: the standard library only.
"""

from __future__ import annotations

import errno
import struct

ARCHITECTURE = 0xC000003E  # AUDIT_ARCH_X86_64
X32_BIT = 0x40000000
NEW_NAMESPACES = 0x7E020000  # every CLONE_NEW* that fits clone's flags
AF_UNIX = 1
TIOCSTI = 0x5412
CLONE, SOCKET, IOCTL, CLONE3, GETRANDOM = 56, 41, 16, 435, 318

DENIED = {
    "shmget": 29, "shmat": 30, "semget": 64, "msgget": 68, "ptrace": 101, "syslog": 103, "personality": 135,
    "vhangup": 153, "modify_ldt": 154, "pivot_root": 155, "adjtimex": 159, "chroot": 161, "acct": 163,
    "settimeofday": 164, "mount": 165, "umount2": 166, "swapon": 167, "swapoff": 168, "reboot": 169,
    "sethostname": 170, "setdomainname": 171, "iopl": 172, "ioperm": 173, "init_module": 175, "delete_module": 176,
    "quotactl": 179, "nfsservctl": 180, "lookup_dcookie": 212, "clock_settime": 227, "mbind": 237,
    "set_mempolicy": 238, "mq_open": 240, "kexec_load": 246, "add_key": 248, "request_key": 249, "keyctl": 250,
    "migrate_pages": 256, "unshare": 272, "move_pages": 279, "perf_event_open": 298, "fanotify_init": 300,
    "name_to_handle_at": 303, "open_by_handle_at": 304, "clock_adjtime": 305, "setns": 308, "process_vm_readv": 310,
    "process_vm_writev": 311, "kcmp": 312, "finit_module": 313, "memfd_create": 319, "kexec_file_load": 320,
    "bpf": 321, "userfaultfd": 323, "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427,
    "open_tree": 428, "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433,
    "pidfd_getfd": 438, "process_madvise": 440, "mount_setattr": 442, "quotactl_fd": 443, "memfd_secret": 447,
}  # fmt: skip

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data
_ALLOW, _KILL, _ERROR = 0x7FFF0000, 0x80000000, 0x00050000


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


def _fails(error: int) -> bytes:
    return _step(_RETURN, _ERROR | error)


def _by_argument(call: int, argument: int, test: int, value: int, error: int, *, fails_if: bool) -> bytes:
    """`call` fails with `error` where the low half of its `argument` passes `test`, or where it does not."""
    return (
        _step(_EQUAL, call, 0, 4)
        + _step(_LOAD, _ARGUMENTS + 8 * argument)
        + _step(test, value, 0 if fails_if else 1, 1 if fails_if else 0)
        + _fails(error)
        + _step(_RETURN, _ALLOW)
    )


def build() -> bytes:
    """The filter: 8 bytes a step, as `struct sock_filter`."""
    steps = _step(_LOAD, _ARCHITECTURE) + _step(_EQUAL, ARCHITECTURE, 1, 0) + _step(_RETURN, _KILL)
    steps += _step(_LOAD, _NUMBER) + _step(_AT_LEAST, X32_BIT, 0, 1) + _step(_RETURN, _KILL)
    for number in DENIED.values():
        steps += _step(_EQUAL, number, 0, 1) + _fails(errno.EPERM)
    for number in (CLONE3, GETRANDOM):  # the C library then uses clone, and Python reads /dev/urandom
        steps += _step(_EQUAL, number, 0, 1) + _fails(errno.ENOSYS)
    steps += _by_argument(CLONE, 0, _ANY_BIT, NEW_NAMESPACES, errno.EPERM, fails_if=True)
    steps += _by_argument(SOCKET, 0, _EQUAL, AF_UNIX, errno.EACCES, fails_if=False)
    steps += _by_argument(IOCTL, 1, _EQUAL, TIOCSTI, errno.EPERM, fails_if=True)
    return steps + _step(_RETURN, _ALLOW)
