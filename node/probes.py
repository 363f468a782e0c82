"""Measures this machine: cores, memory, disk, GPUs, packages, ports. Judges nothing.

Thin shells: each returns a value of `node.facts` and turns what the machine refuses into words in it. It refuses to
import a heavy package (versions come from the installed metadata), and leaves nothing behind on the disk.
"""

from __future__ import annotations

import errno
import importlib.metadata
import importlib.util
import os
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import psutil

from node.facts import Cpu, Disk, Gpu, Gpus, Memory, Port, Software
from rl.hardware import read_cpu_flags

CGROUP = Path("/sys/fs/cgroup")
PROBE_BYTES = 4096
PURPOSES = ("streams", "DHT", "chunks")


def probe_software(packages: Iterable[str]) -> Software:
    """The running Python, and the installed version of each package."""
    return Software(python=sys.version_info[:3], versions={name: _version(name) for name in packages})


def probe_cpu(cgroup: Path = CGROUP) -> Cpu:
    """Cores that this process may run on, within its container's quota."""
    cores = float(len(os.sched_getaffinity(0)))
    quota = cpu_quota(_text(cgroup / "cpu.max"))
    return Cpu(cores=cores if quota is None else min(cores, quota), flags=read_cpu_flags())


def probe_memory(cgroup: Path = CGROUP) -> Memory:
    """Free and total memory, within the container's limit."""
    seen = psutil.virtual_memory()
    limit = bytes_of(_text(cgroup / "memory.max"))
    if limit is None or limit >= seen.total:
        return Memory(available_bytes=seen.available, total_bytes=seen.total)
    left = max(0, limit - (bytes_of(_text(cgroup / "memory.current")) or 0))
    return Memory(available_bytes=min(seen.available, left), total_bytes=limit)


def cpu_quota(text: str) -> float | None:
    """Cores in a cgroup's cpu.max ("200000 100000": 2); None for no limit."""
    words = text.split()
    if len(words) != 2 or not all(word.isdigit() for word in words) or not int(words[1]):
        return None
    return int(words[0]) / int(words[1])


def bytes_of(text: str) -> int | None:
    """The number in a cgroup's file; None for "max" or no such file."""
    return int(text) if text.strip().isdigit() else None


def probe_disk(path: Path) -> Disk:
    """Free space at `path`, and whether a file can be kept there; a folder that is still to be made is not made."""
    folder = path.absolute()
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    began_s, fault, free_bytes = time.monotonic(), "", 0
    try:
        free_bytes = shutil.disk_usage(folder).free
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".doctor-") as file:
            file.write(bytes(PROBE_BYTES))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        fault = error.strerror or str(error)
    return Disk(path=str(path), free_bytes=free_bytes, fsync_s=time.monotonic() - began_s, fault=fault)


def probe_gpus() -> Gpus:
    """What NVML says, if its Python package and a driver are here."""
    if importlib.util.find_spec("pynvml") is None:
        return Gpus(devices=(), why_none="nvidia-ml-py is not installed, which vllm for GPUs brings along")
    nvml: Any = importlib.import_module("pynvml")
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        return Gpus(devices=(), why_none=f"NVML: {error}")
    try:
        handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
        devices = tuple(
            Gpu(name=_as_text(nvml.nvmlDeviceGetName(h)), memory_bytes=int(nvml.nvmlDeviceGetMemoryInfo(h).total))
            for h in handles
        )
        why_none = "" if devices else "the driver lists none"
        return Gpus(devices=devices, driver=_as_text(nvml.nvmlSystemGetDriverVersion()), why_none=why_none)
    except nvml.NVMLError as error:
        return Gpus(devices=(), why_none=f"NVML: {error}")
    finally:
        nvml.nvmlShutdown()


def probe_ports(host: str, numbers: Iterable[int]) -> tuple[Port, ...]:
    """Whether a node could listen on each of its ports; 0 asks whether it could on any."""
    return tuple(
        Port(purpose=purpose, host=host, number=number, fault=_bind_fault(host, number))
        for purpose, number in zip(PURPOSES, numbers, strict=True)
    )


def _bind_fault(host: str, number: int) -> str:
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, number))
            probe.listen(1)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            return "another program has it"
        if error.errno == errno.EADDRNOTAVAIL:
            return f"{host} is no address of this machine"
        return error.strerror or str(error)
    return ""


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _as_text(value: str | bytes) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value
