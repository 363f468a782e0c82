"""A cast changes what weights are computed in, and nothing that says where a token stands."""

from __future__ import annotations

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from rl.arithmetic import cast
from rl.hardware import ComputeType


@pytest.mark.parametrize("compute_type", ["bfloat16", "float32"])
def test_positions_keep_their_angles(compute_type: ComputeType) -> None:
    """The thousandth token's are those of the formula, to what float32 resolves; rounded frequencies give others."""
    config = LlamaConfig(
        vocab_size=32, hidden_size=64, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2,
        tie_word_embeddings=True,
    )  # fmt: skip
    fresh = cast(LlamaForCausalLM(config), compute_type)
    position = torch.tensor([[1000]])
    cosines, _ = fresh.model.rotary_emb(torch.zeros(1, 1, 64), position)
    frequencies = 10000.0 ** -(torch.arange(0, 32, 2, dtype=torch.float64) / 32)
    wanted = (1000 * frequencies).cos().repeat(2)
    assert torch.allclose(cosines[0, 0].double(), wanted, atol=1e-3)
    spoilt, _ = LlamaForCausalLM(config).to(torch.bfloat16).float().model.rotary_emb(torch.zeros(1, 1, 64), position)
    assert not torch.allclose(spoilt[0, 0].double(), wanted, atol=0.1)
    assert {p.dtype for p in fresh.parameters()} == {getattr(torch, compute_type)}
    assert fresh.lm_head.weight is fresh.model.embed_tokens.weight
