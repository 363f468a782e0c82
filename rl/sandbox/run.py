"""Runs one program in the sandbox and gives its output. Refuses to run anything where the kernel offers no sandbox.

Decides which means is used: bubblewrap where it is installed and works, else the same system calls of our own. A means
counts as working when a probe has been run in it that tried to get out; what is found is remembered.
"""

from __future__ import annotations

import json
import os
import platform
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Literal

from rl.grading.grader import NotGraded
from rl.sandbox.namespaces import interpreter

ROOT = Path(__file__).resolve().parents[2]
PYTHON = (interpreter(), "-S", "-s", "-P", "-B")
"""How Python is called inside: no site packages, nothing of the folder it stands in, no compiled files."""
GRACE_S = 10.0
"""Beyond the wall limit, before the supervisor itself is held to be stuck."""
BWRAP = "bwrap"
NAMESPACES = "namespaces"


class SandboxUnavailable(RuntimeError):
    """This machine cannot keep programs of strangers apart. The message says what to change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one run may use, of all its processes together where nothing else is said."""

    cpu_s: float = 10.0
    wall_s: float = 60.0
    memory_bytes: int = 512 << 20
    """Address space of each process, and memory held by all of them."""
    processes: int = 32
    """Threads included."""
    box_bytes: int = 16 << 20
    """All files together; 1,024 of them at most."""
    output_bytes: int = 4 << 20
    open_files: int = 64
    stack_bytes: int = 64 << 20

    def scaled(self, factor: float) -> Limits:
        """Time and memory times `factor`; memory never below what the interpreter takes."""
        memory_bytes = max(64 << 20, int(self.memory_bytes * factor))
        return replace(self, cpu_s=self.cpu_s * factor, wall_s=self.wall_s * factor, memory_bytes=memory_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What is run: files in the working folder, the command, its standard input."""

    argv: tuple[str, ...]
    files: Mapping[str, str] = field(default_factory=dict)
    stdin: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a run ended."""

    how: Literal["exited", "cpu", "wall", "memory", "output"]
    exit_code: int
    """Of the program; 128 + n where signal n ended it; negative where the sandbox was killed."""
    output: bytes
    cpu_s: float
    wall_s: float


def run(program: Program, limits: Limits, means: str | None = None) -> Ended:
    """Run `program` to its end or its limit; nothing of it is left then.

    Raises SandboxUnavailable, or NotGraded where the sandbox failed and not the program.
    """
    chosen = require() if means is None else means
    spec = {
        "argv": program.argv,
        "files": dict(program.files),
        "stdin": program.stdin,
        "bwrap": shutil.which(BWRAP) if chosen == BWRAP else None,
        "limits": asdict(limits) | {"file_bytes": limits.box_bytes},
    }
    come, go = os.pipe()
    with subprocess.Popen(
        [sys.executable, "-S", "-s", "-P", "-B", "-m", "rl.sandbox.supervisor", str(go)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={"PYTHONPATH": str(ROOT), "LC_ALL": "C.UTF-8"},
        pass_fds=(go,),
        process_group=0,
    ) as supervisor:
        os.close(go)
        try:
            output, too_much = _converse(supervisor, json.dumps(spec).encode() + b"\n", limits)
            supervisor.wait(GRACE_S + limits.wall_s)
        except (subprocess.TimeoutExpired, BrokenPipeError) as stuck:
            raise NotGraded("died", "the sandbox's supervisor did not end its run") from stuck
        finally:
            if supervisor.poll() is None:
                supervisor.kill()
            with os.fdopen(come, "rb") as status:
                said = status.read(1 << 16)
    reply = json.loads(said) if said else {"ended": "fault", "fault": "the supervisor ended without a word"}
    if reply["ended"] == "fault":
        raise NotGraded("died", f"the sandbox could not be made: {reply['fault']}")
    how = "output" if too_much else reply["ended"]
    return Ended(how=how, exit_code=reply["exit_code"], output=output, cpu_s=reply["cpu_s"], wall_s=reply["wall_s"])


def _converse(supervisor: subprocess.Popen[bytes], spec: bytes, limits: Limits) -> tuple[bytes, bool]:
    """Hand over the spec, take the output. Closing the supervisor's input ends the run."""
    assert supervisor.stdin is not None
    assert supervisor.stdout is not None
    supervisor.stdin.write(spec)
    supervisor.stdin.flush()
    output, too_much = bytearray(), False
    until = time.monotonic() + limits.wall_s + GRACE_S
    while (left := until - time.monotonic()) > 0:
        if not select.select([supervisor.stdout], [], [], left)[0]:
            continue
        part = os.read(supervisor.stdout.fileno(), 1 << 16)
        if not part:
            break
        if not too_much:
            output += part
        if len(output) > limits.output_bytes and not too_much:
            too_much = True
            supervisor.stdin.close()
    return bytes(output[: limits.output_bytes]), too_much


PROBE = """
import os, socket
wrong = []
if os.getuid() == 0: wrong.append("runs as root")
if os.path.exists("/proc/self") or os.path.exists("/etc/passwd") or os.path.exists("/home"): wrong.append("sees files")
try: socket.socket(socket.AF_INET)
except OSError: pass
else: wrong.append("may open sockets")
try: open("/outside", "w")
except OSError: pass
else: wrong.append("may write outside its folder")
if os.urandom(8) != bytes(8): wrong.append("has real randomness")
children = 0
try:
    while children < 64:
        if os.fork() == 0:
            while True: os.read(0, 1) or __import__("time").sleep(60)
        children += 1
except OSError: pass
if not 1 <= children <= 8: wrong.append(f"may start {children} processes of 8")
print("; ".join(wrong) or "kept apart", flush=True)
os._exit(0)
"""


def fault_of(means: str) -> str | None:
    """Why `means` does not keep a program apart on this machine; None where it does."""
    if means == BWRAP and shutil.which(BWRAP) is None:
        return "not installed"
    program = Program(argv=(*PYTHON, "/box/probe.py"), files={"probe.py": PROBE})
    try:
        ended = run(program, Limits(cpu_s=5.0, wall_s=20.0, processes=8), means)
    except NotGraded as fault:
        return str(fault)
    said = ended.output.decode(errors="replace").strip()
    return None if said == "kept apart" else said or f"the probe ended by {ended.how}, exit code {ended.exit_code}"


@cache
def available() -> dict[str, str | None]:
    """Each means and what is wrong with it here; None: it works."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return {NAMESPACES: f"Linux on x86_64 is needed, this is {sys.platform} on {platform.machine()}"}
    return {means: fault_of(means) for means in (BWRAP, NAMESPACES)}


def require() -> str:
    """The means to use. Raises SandboxUnavailable with what was tried and how to mend it."""
    found = available()
    working = [means for means, fault in found.items() if fault is None]
    if working:
        return working[0]
    tried = "; ".join(f"{means}: {fault}" for means, fault in found.items())
    raise SandboxUnavailable(
        f"code tasks need a sandbox, and this machine offers none ({tried}). Fix: allow unprivileged user namespaces "
        "(sysctl user.max_user_namespaces above 0; kernel.apparmor_restrict_unprivileged_userns=0; in a container a "
        "seccomp profile that permits clone and mount), or choose a task without code"
    )
