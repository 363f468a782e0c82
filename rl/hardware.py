"""What this machine computes well: the arithmetic type to run bf16 weights in, and thread settings.

Measured: on a CPU without bf16 units (AVX2 only) SmolLM2-135M generates 24 tokens/s in bf16 and over 100 in
float32; bf16 weights computed in float32 give proofs inside the honest range. Nothing is benchmarked here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

ComputeType = Literal["bfloat16", "float32"]


def choose_compute_type(requested: str, cpu_flags: frozenset[str], has_gpu: bool) -> ComputeType:
    """The arithmetic type for `requested` ('auto', 'bfloat16' or 'float32') on such a machine."""
    if requested in ("bfloat16", "float32"):
        return requested  # type: ignore[return-value]
    if requested != "auto":
        raise ValueError(f"compute type is auto, bfloat16 or float32, not {requested!r}")
    return "bfloat16" if has_gpu or cpu_flags & {"avx512_bf16", "amx_bf16", "bf16"} else "float32"


def read_cpu_flags(cpuinfo: Path = Path("/proc/cpuinfo")) -> frozenset[str]:
    """Instruction-set flags of the first core; empty where the kernel does not list them."""
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    for line in lines:
        if line.startswith(("flags", "Features")):  # x86, ARM
            return frozenset(line.partition(":")[2].split())
    return frozenset()


def thread_environment(threads: int) -> dict[str, str]:
    """Environment of a compute process that shares the machine with others; set before torch is imported.

    Two processes with default settings on 2 cores fell from 480 to 17 tokens/s: their OpenMP teams were bound
    to the same cores and span while they waited. These settings gave 350 beside a training process.
    """
    return {
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
        "KMP_BLOCKTIME": "0",
        "OMP_WAIT_POLICY": "PASSIVE",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "TOKENIZERS_PARALLELISM": "false",
    }
