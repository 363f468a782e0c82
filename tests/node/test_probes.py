"""The probes on this machine, and on machines that a test makes up from files and a fake driver."""

from __future__ import annotations

import os
import socket
import sys
import types
from pathlib import Path

import psutil
import pytest

from node.probes import (
    bytes_of,
    cpu_quota,
    probe_cpu,
    probe_disk,
    probe_gpus,
    probe_memory,
    probe_ports,
    probe_software,
)


def test_software_without_importing_it() -> None:
    found = probe_software(["libp2p", "no-such-package"])
    assert found.python == sys.version_info[:3]
    assert found.versions["libp2p"]
    assert found.versions["no-such-package"] is None


def test_cores_and_a_containers_quota(tmp_path: Path) -> None:
    here = probe_cpu(tmp_path)
    assert here.cores == len(os.sched_getaffinity(0))
    (tmp_path / "cpu.max").write_text("50000 100000\n")
    assert probe_cpu(tmp_path).cores == 0.5
    assert [cpu_quota(text) for text in ("max 100000", "", "1 2 3", "5 0", "200000 100000")] == [None] * 4 + [2.0]


def test_memory_and_a_containers_limit(tmp_path: Path) -> None:
    here = probe_memory(tmp_path)
    assert 0 < here.available_bytes <= here.total_bytes == psutil.virtual_memory().total
    (tmp_path / "memory.max").write_text("1000000\n")
    (tmp_path / "memory.current").write_text("400000\n")
    found = probe_memory(tmp_path)
    assert (found.available_bytes, found.total_bytes) == (600_000, 1_000_000)
    (tmp_path / "memory.max").write_text("max\n")
    assert probe_memory(tmp_path).total_bytes == here.total_bytes
    assert bytes_of("") is None


def test_a_disk_that_keeps_files_and_nothing_is_left(tmp_path: Path) -> None:
    found = probe_disk(tmp_path / "data" / "of" / "a" / "node")
    assert (found.fault, found.path) == ("", str(tmp_path / "data" / "of" / "a" / "node"))
    assert found.free_bytes > 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("where", ["/proc/none", "file/below"])
def test_a_disk_that_does_not(where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    assert probe_disk(Path(where)).fault


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    assert probe_disk(tmp_path).fault == "No space left on device"
    assert list(tmp_path.iterdir()) == []


class NVMLError(Exception):
    pass


def driver(monkeypatch: pytest.MonkeyPatch, gpus: list[tuple[str | bytes, int]], fault: str = "") -> list[str]:
    """Puts a fake `pynvml` in place; what was called of it to begin and end."""
    calls: list[str] = []
    module = types.ModuleType("pynvml")

    def init() -> None:
        calls.append("init")
        if fault == "init":
            raise NVMLError("Driver Not Loaded")

    def info(handle: int) -> object:
        if fault == "info":
            raise NVMLError("GPU is lost")
        return types.SimpleNamespace(total=gpus[handle][1])

    module.NVMLError = NVMLError
    module.nvmlInit = init
    module.nvmlShutdown = lambda: calls.append("shutdown")
    module.nvmlDeviceGetCount = lambda: len(gpus)
    module.nvmlDeviceGetHandleByIndex = lambda index: index
    module.nvmlDeviceGetName = lambda handle: gpus[handle][0]
    module.nvmlDeviceGetMemoryInfo = info
    module.nvmlSystemGetDriverVersion = lambda: b"570.1"
    module.__spec__ = types.SimpleNamespace(name="pynvml")
    monkeypatch.setitem(sys.modules, "pynvml", module)
    return calls


def test_gpus_with_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = driver(monkeypatch, [("NVIDIA H200", 150 * 10**9), (b"Tesla T4", 16 * 10**9)])
    found = probe_gpus()
    assert [(gpu.name, gpu.memory_bytes) for gpu in found.devices] == [
        ("NVIDIA H200", 150 * 10**9), ("Tesla T4", 16 * 10**9),
    ]  # fmt: skip
    assert (found.driver, calls) == ("570.1", ["init", "shutdown"])


@pytest.mark.parametrize(
    ("gpus", "fault", "why"),
    [([], "", "lists none"), ([], "init", "Driver Not Loaded"), ([("H200", 1)], "info", "GPU is lost")],
)
def test_a_driver_without_a_usable_gpu(
    gpus: list[tuple[str | bytes, int]], fault: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver(monkeypatch, gpus, fault)
    found = probe_gpus()
    assert found.devices == ()
    assert why in found.why_none


def test_no_nvml_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "nvidia-ml-py" in probe_gpus().why_none


def test_ports_free_taken_and_elsewhere() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken = server.getsockname()[1]
        ports = probe_ports("127.0.0.1", (0, taken, 0))
        assert [(port.purpose, port.fault) for port in ports] == [
            ("streams", ""), ("DHT", "another program has it"), ("chunks", ""),
        ]  # fmt: skip
    assert probe_ports("127.0.0.1", (taken,) * 3)[0].fault == ""
    assert "no address of this machine" in probe_ports("192.0.2.1", (0, 0, 0))[0].fault
