from __future__ import annotations

from pathlib import Path

import pytest

from rl.hardware import choose_compute_type, read_cpu_flags, thread_environment

AVX2 = frozenset({"avx2", "fma"})


@pytest.mark.parametrize(
    ("requested", "flags", "has_gpu", "chosen"),
    [
        ("auto", AVX2, False, "float32"),
        ("auto", frozenset(), False, "float32"),
        ("auto", AVX2 | {"avx512f"}, False, "float32"),
        ("auto", AVX2 | {"avx512_bf16"}, False, "bfloat16"),
        ("auto", AVX2 | {"amx_bf16"}, False, "bfloat16"),
        ("auto", AVX2, True, "bfloat16"),
        ("bfloat16", AVX2, False, "bfloat16"),
        ("float32", AVX2 | {"amx_bf16"}, True, "float32"),
    ],
)
def test_the_compute_type_is_what_the_machine_is_good_at(
    requested: str, flags: frozenset[str], has_gpu: bool, chosen: str
) -> None:
    assert choose_compute_type(requested, flags, has_gpu) == chosen


@pytest.mark.parametrize("requested", ["float16", "", "AUTO"])
def test_other_types_are_refused(requested: str) -> None:
    with pytest.raises(ValueError, match="auto, bfloat16 or float32"):
        choose_compute_type(requested, AVX2, False)


def test_flags_are_those_of_the_first_core(tmp_path: Path) -> None:
    info = tmp_path / "cpuinfo"
    info.write_text("processor\t: 0\nflags\t\t: fpu avx2 amx_bf16\n\nprocessor\t: 1\nflags\t\t: fpu\n")
    assert read_cpu_flags(info) == {"fpu", "avx2", "amx_bf16"}
    info.write_text("processor\t: 0\n")
    assert read_cpu_flags(info) == frozenset()


def test_thread_settings_keep_processes_off_each_others_cores() -> None:
    settings = thread_environment(2)
    assert settings["OMP_NUM_THREADS"] == settings["MKL_NUM_THREADS"] == "2"
    assert settings["VLLM_CPU_OMP_THREADS_BIND"] == "nobind"
    assert settings["KMP_BLOCKTIME"] == "0"
