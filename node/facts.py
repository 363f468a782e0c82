"""What was measured of a machine: values without a judgement. `node.probes` measures, `node.doctor` judges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Software:
    """The Python that runs, and the version of each package looked for; None where it is not installed."""

    python: tuple[int, int, int]
    versions: Mapping[str, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cpu:
    """Cores that this process may use (a container's quota may be a fraction), and the first one's flags."""

    cores: float
    flags: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Bytes of memory, within a container's limit."""

    available_bytes: int
    total_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """The file system at `path` (or its nearest existing parent). `fault`: why a small file could not be kept there."""

    path: str
    free_bytes: int
    fsync_s: float
    fault: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One GPU as its driver names it."""

    name: str
    memory_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpus:
    """The GPUs of this machine, or why none is known."""

    devices: tuple[Gpu, ...]
    driver: str = ""
    why_none: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """A TCP port that a node would listen on; `fault` says why it cannot. `number` 0 is any free one."""

    purpose: str
    host: str
    number: int
    fault: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """What the ledger shows of an address: ether for gas, stake tokens in hand and at stake, standing in the pool.

    `locked_wei` of the stake may be burnt by open cases and counts for no pool. `barred`: blacklisted by it.
    """

    address: str
    ether_wei: int
    tokens_wei: int
    stake_wei: int
    locked_wei: int
    active: bool
    barred: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Download:
    """One chunk of the current policy that came from a relay, or why none did."""

    chunk_bytes: int = 0
    seconds: float = 0.0
    policy_bytes: int = 0
    fault: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DialBackAnswer:
    """From which host a relay sees this node's connection come, and whether its dial to the port there got through."""

    host: str
    reached: bool
