"""A process in user, mount, pid, network, ipc and uts namespaces of its own, with a root that holds next to nothing.

What bubblewrap does, by the system calls themselves, for machines without it. Decides what is to be seen inside: the
Python interpreter and C libraries (read only), five devices, an empty folder /box of bounded size. There is no /proc.
The standard library only; nothing is kept open or mounted behind a failure.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

INSIDE_UID = 65534
DEVICES = {"null": "null", "zero": "zero", "full": "full", "random": "zero", "urandom": "zero"}
"""Inside → outside. Randomness is zeros, so that a program does the same everywhere."""
BOX_INODES = 1024
_NEW = 0x10000000 | 0x00020000 | 0x20000000 | 0x40000000 | 0x08000000 | 0x04000000  # USER NS PID NET IPC UTS
_BIND, _REC, _PRIVATE, _REMOUNT = 0x1000, 0x4000, 0x40000, 0x20
_RDONLY, _NOSUID, _NODEV = 0x1, 0x2, 0x4
_SYS_CLONE, _SYS_PIVOT_ROOT, _SYS_MOUNT_SETATTR = 56, 155, 442
_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
_DETACH = 2
_PR_SET_PDEATHSIG = 1

_libc = ctypes.CDLL(None, use_errno=True)


def visible_folders() -> tuple[str, ...]:
    """What of the machine is seen inside, read only: this interpreter and the C libraries."""
    base = Path(sys.base_prefix)
    interpreter = Path(os.path.realpath(sys._base_executable))  # type: ignore[attr-defined]
    wanted = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", str(base / "lib"), str(interpreter.parent))
    return tuple(dict.fromkeys(folder for folder in wanted if os.path.isdir(folder)))


def interpreter() -> str:
    """The path of the interpreter, inside as outside."""
    return os.path.realpath(sys._base_executable)  # type: ignore[attr-defined]


def spawn(argv: Sequence[str], *, stdin: int, keep: Sequence[int], box_bytes: int, code_folder: str, fault: int) -> int:
    """Start `argv` as process 1 of a new set of namespaces and give its pid, as seen from here.

    Args:
        stdin: file descriptor that becomes its standard input; standard output and error stay.
        keep: further descriptors that it inherits.
        box_bytes: size of /box.
        code_folder: shown inside as /sandbox, read only.
        fault: descriptor to which what failed is written, by the new process.

    Raises OSError where the kernel gives no namespaces.
    """
    come, go = os.pipe()
    mapping, folders = _mapping(), visible_folders()
    pid = _libc.syscall(_SYS_CLONE, ctypes.c_ulong(_NEW | signal.SIGCHLD), 0, 0, 0, 0)
    if pid == 0:
        try:
            os.close(go)
            if os.read(come, 1) != b"+":
                os._exit(1)
            _enter(folders, box_bytes, code_folder)
            os.dup2(stdin, 0)
            for descriptor in (0, 1, 2, *keep):
                os.set_inheritable(descriptor, True)
            os.execve(argv[0], list(argv), {"LC_ALL": "C.UTF-8"})
        except BaseException as error:
            os.write(fault, f"{type(error).__name__}: {error}".encode()[:1000])
        os._exit(1)
    os.close(come)
    try:
        if pid < 0:
            raise OSError(ctypes.get_errno(), f"clone with new namespaces: {os.strerror(ctypes.get_errno())}")
        _map(pid, *mapping)
        os.write(go, b"+")
    except OSError:
        if pid > 0:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        raise
    finally:
        os.close(go)
    return pid


def _mapping() -> tuple[str, str]:
    """Root maps itself, to read what only root may until everything is mounted, and nobody; others only themselves."""
    if os.geteuid() == 0:
        both = f"0 0 1\n{INSIDE_UID} {INSIDE_UID} 1"
        return both, both
    return f"{INSIDE_UID} {os.geteuid()} 1", f"{INSIDE_UID} {os.getegid()} 1"


def _map(pid: int, users: str, groups: str) -> None:
    if os.geteuid() != 0:
        Path(f"/proc/{pid}/setgroups").write_text("deny")
    Path(f"/proc/{pid}/uid_map").write_text(users)
    Path(f"/proc/{pid}/gid_map").write_text(groups)


def _enter(folders: Sequence[str], box_bytes: int, code_folder: str) -> None:
    """In the new process: build the root, leave the old one, become nobody."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl")
    _mount("none", "/", None, _REC | _PRIVATE)
    _mount("tmpfs", "/tmp", "tmpfs", _NOSUID | _NODEV, f"size=1m,nr_inodes={BOX_INODES},mode=755")
    os.chdir("/tmp")
    os.mkdir("old")
    _check(_libc.syscall(_SYS_PIVOT_ROOT, b".", b"old"), "pivot_root")
    os.chdir("/")
    for folder in folders:
        if os.path.islink("/old" + folder):
            os.symlink(os.readlink("/old" + folder), folder)
        else:
            os.makedirs(folder, exist_ok=True)
            _show("/old" + folder, folder)
    os.mkdir("/sandbox")
    _show("/old" + code_folder, "/sandbox")
    os.mkdir("/dev")
    for inside, outside in DEVICES.items():
        Path("/dev", inside).touch()
        _mount(f"/old/dev/{outside}", f"/dev/{inside}", None, _BIND)
    os.mkdir("/box")
    options = f"size={box_bytes},nr_inodes={BOX_INODES},mode=700"
    _mount("tmpfs", "/box", "tmpfs", _NOSUID | _NODEV, options)
    if os.geteuid() == 0:
        os.chown("/box", INSIDE_UID, INSIDE_UID)
    os.symlink("box", "/tmp")
    _check(_libc.umount2(b"/old", _DETACH), "umount")
    os.rmdir("/old")
    _mount("none", "/", None, _REMOUNT | _BIND | _RDONLY | _NOSUID | _NODEV)
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(INSIDE_UID, INSIDE_UID, INSIDE_UID)
        os.setresuid(INSIDE_UID, INSIDE_UID, INSIDE_UID)
    _check(_libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl")  # a change of user forgets it


def _show(outside: str, inside: str) -> None:
    """Bind `outside` and all that is mounted in it, read only (mount_setattr: Linux 5.12)."""
    _mount(outside, inside, None, _BIND | _REC)
    attributes = (ctypes.c_uint64 * 4)(_RDONLY | _NOSUID | _NODEV, 0, 0, 0)
    done = _libc.syscall(_SYS_MOUNT_SETATTR, _AT_FDCWD, inside.encode(), _AT_RECURSIVE, attributes, 32)
    _check(done, f"making {inside} read-only")


def _mount(source: str, target: str, kind: str | None, flags: int, options: str = "") -> None:
    done = _libc.mount(
        source.encode(), target.encode(), kind.encode() if kind else None, ctypes.c_ulong(flags), options.encode()
    )
    _check(done, f"mount {target}")


def _check(done: int, what: str) -> None:
    if done < 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")
