"""A validator whose machine computes something else judges nobody."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from rl import packing
from tests.verify.conftest import RULES
from verify import prefill
from verify.prefill import TransformersPolicy
from verify.self_test import SelfTestFailed, self_test
from verify.verdict import CheckFailed, judge


@pytest.fixture
def policy(checkpoint: Path) -> TransformersPolicy:
    return TransformersPolicy(checkpoint, compute_dtype="float32")


@pytest.mark.parametrize("compute_type", ["float32", "bfloat16"])
def test_a_sound_machine_passes_well_inside_the_bounds(checkpoint: Path, compute_type: str) -> None:
    facts = self_test(TransformersPolicy(checkpoint, compute_dtype=compute_type), checkpoint)
    assert facts["margin_gap_max"] <= (1e-3 if compute_type == "float32" else 0.3)
    assert facts["mantissa_mean"] <= (0.01 if compute_type == "float32" else 1.6)


def test_bf16_arithmetic_that_passes_for_float32(policy: TransformersPolicy, checkpoint: Path) -> None:
    policy._model.to(torch.bfloat16)
    with pytest.raises(SelfTestFailed, match="no verdict is given"):
        self_test(policy, checkpoint)


@pytest.mark.parametrize("compute_type", ["float32", "bfloat16"])
def test_weights_of_another_type(checkpoint: Path, compute_type: str) -> None:
    policy = TransformersPolicy(checkpoint, compute_dtype=compute_type)
    for weight in policy._model.parameters():
        weight.data = weight.data.to(torch.float8_e4m3fn).to(weight.dtype)
    with pytest.raises(SelfTestFailed):
        self_test(policy, checkpoint)


@pytest.mark.parametrize("compute_type", ["float32", "bfloat16"])
def test_an_attention_kernel_that_ignores_its_mask(
    checkpoint: Path, compute_type: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound = torch.nn.functional.scaled_dot_product_attention

    def broken(*tensors: torch.Tensor, attn_mask: torch.Tensor | None = None, **options: object) -> torch.Tensor:
        return sound(*tensors, attn_mask=attn_mask if attn_mask is None else attn_mask | True, **options)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", broken)
    with pytest.raises(SelfTestFailed):
        self_test(TransformersPolicy(checkpoint, compute_dtype=compute_type), checkpoint)


def test_packing_that_shifts_positions(
    policy: TransformersPolicy, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shifted(groups: list[packing.Group]) -> packing.Packed:
        packed = packing.pack(groups)
        packed.positions[packed.positions >= 24] += 1
        return packed

    monkeypatch.setattr(prefill, "pack", shifted)
    with pytest.raises(SelfTestFailed):
        self_test(policy, checkpoint)


def test_a_kernel_that_gives_no_numbers(policy: TransformersPolicy, checkpoint: Path) -> None:
    policy._model.base_model.norm.register_forward_hook(lambda _module, _inputs, output: output * float("nan"))
    with pytest.raises(SelfTestFailed, match="not finite"):
        self_test(policy, checkpoint)


def test_weights_that_are_not_finite_are_refused(checkpoint: Path, tmp_path: Path) -> None:
    broken = TransformersPolicy(checkpoint)
    next(broken._model.parameters()).data[0, 0] = float("nan")
    broken._model.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"embed_tokens\.weight is not finite"):
        TransformersPolicy(tmp_path)


def test_a_failed_self_test_is_no_verdict(world, honest) -> None:
    def load(version: int) -> TransformersPolicy:
        raise SelfTestFailed("this machine is broken")

    path, claim = world.record(honest)
    with pytest.raises(SelfTestFailed):
        judge(path, claim=claim, rules=RULES, task=world.task, load_policy=load)
    assert issubclass(SelfTestFailed, CheckFailed)
