"""The arithmetic of MFU against numbers worked out by hand and against torch's own count."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import LlamaConfig, LlamaForCausalLM

from benchmarks.learning import item_gpu
from benchmarks.learning.items import NotRun
from benchmarks.learning.mfu import Shape, peak_flops, step_flops

TINY = Shape(layers=2, hidden=32, intermediate=64, heads=2, key_value_heads=1, head_dim=16, vocabulary=40)


def test_weights_are_those_that_take_part_in_products() -> None:
    assert TINY.layer_weights == 32 * 32 + 2 * 32 * 16 + 32 * 32 + 3 * 32 * 64
    assert TINY.weights == 2 * TINY.layer_weights + 32 * 40
    assert item_gpu.SHAPES["0.5B"].weights == pytest.approx(0.494e9, rel=0.01), "what Qwen says of its model"
    assert item_gpu.SHAPES["1.5B"].weights == pytest.approx(1.54e9, rel=0.01)


def test_a_step_is_what_torch_counts() -> None:
    """Its counter takes attention's whole square: beside causal attention it has twice as much of that."""
    length = 24
    config = LlamaConfig(
        vocab_size=40, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, head_dim=16,
    )  # fmt: skip
    config._attn_implementation = "eager"
    model = LlamaForCausalLM(config)
    with FlopCounterMode(display=False) as counter:
        model(torch.arange(length)[None] % 40, use_cache=False).logits.sum().backward()
    causal = step_flops(TINY, [length], head_tokens=length)
    without = step_flops(TINY, [1] * length, head_tokens=length) - 3 * 2 * 2 * 2 * 16 * length
    assert counter.get_total_flops() == pytest.approx(without + 2 * (causal - without), rel=1e-6)


def test_sequences_do_not_see_one_another() -> None:
    apart, together = (step_flops(TINY, segments, head_tokens=0) for segments in ([50, 50], [100]))
    assert together - apart == 3 * 2 * 2 * 2 * 16 * (100**2 - 2 * 50**2)


def test_a_group_counts_its_prompt_once() -> None:
    products = 3 * 2 * TINY.layers * TINY.layer_weights
    alone = item_gpu.group_flops(TINY)
    prompt, each = item_gpu.PROMPT, item_gpu.COMPLETION
    tokens = prompt + item_gpu.SAMPLES * each
    head = 3 * 2 * 32 * 40 * item_gpu.SAMPLES * each
    pairs = item_gpu.SAMPLES * (prompt + each) ** 2 - (item_gpu.SAMPLES - 1) * prompt**2
    assert alone == products * tokens + head + 3 * 2 * 2 * 2 * 16 * pairs


def test_an_unknown_device_is_told_what_to_do() -> None:
    assert peak_flops("NVIDIA H200") == 989e12
    with pytest.raises(KeyError, match="PEAK_FLOPS"):
        peak_flops("Toaster 9000")


def test_without_a_gpu_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(NotRun, match="no GPU here"):
        item_gpu.run(tmp_path, quick=True, say=print)


def test_the_groups_that_are_measured_fill_a_row_each() -> None:
    from rl.packing import plan_rows

    groups = item_gpu.make_groups(2, 40)
    plan = plan_rows([(group.prompt_ids, group.completions) for group in groups], item_gpu.ROW)
    assert (len(plan.rows), plan.overlong) == (2, 0)
    assert plan.tokens / plan.room > 0.98
