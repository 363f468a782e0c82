from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM

from rl.rollouts import Rollout
from rl.seeded import Sampling
from verify import prefill
from verify.prefill import TransformersPolicy
from verify.proofs import build_many, compare_many
from verify.thresholds import Thresholds, proof_statistics


@pytest.fixture(scope="session")
def exact(checkpoint: Path) -> TransformersPolicy:
    return TransformersPolicy(checkpoint, compute_dtype="float32")


@torch.inference_mode()
def one_by_one(policy: TransformersPolicy, rollout: Rollout, temperature: float) -> tuple[torch.Tensor, ...]:
    """The plain forward pass: one row, no mask, no packing."""
    start, ids = len(rollout.prompt_ids), torch.tensor([rollout.prompt_ids + rollout.completion_ids])
    states = policy._model.model(ids).last_hidden_state[0, start - 1 : -1]
    logprobs = (policy._model(ids).logits[0, start - 1 : -1] / temperature).log_softmax(-1)
    return states, logprobs.gather(-1, ids[0, start:, None])[:, 0], logprobs[:, 0].exp()


@pytest.mark.parametrize("temperature", [1.0, 0.6])
@pytest.mark.parametrize("row_tokens", [10, 150, 4096])
def test_packed_rows_equal_the_plain_forward(
    exact: TransformersPolicy,
    honest: tuple[Rollout, ...],
    monkeypatch: pytest.MonkeyPatch,
    row_tokens: int,
    temperature: float,
) -> None:
    monkeypatch.setattr(prefill, "ROW_TOKENS", row_tokens)
    monkeypatch.setattr(prefill, "HEAD_TOKENS", 64)
    single = replace(honest[3], completion_ids=(0,))
    rollouts = (*honest, single, *honest[:2])
    for rollout, seen in zip(
        rollouts, exact.prefill(rollouts, sampling=Sampling(temperature=temperature), keys=None), strict=True
    ):
        states, logprobs, eos = one_by_one(exact, rollout, temperature)
        assert seen.states.shape == (len(rollout.completion_ids), 64)
        assert seen.states.dtype == np.uint16
        got = torch.from_numpy(seen.states.astype(np.int32) << 16).view(torch.float32)
        torch.testing.assert_close(got, states, rtol=2**-8, atol=1e-4)
        torch.testing.assert_close(torch.from_numpy(seen.logprobs), logprobs, rtol=0, atol=1e-4)
        torch.testing.assert_close(torch.from_numpy(seen.eos_probs), eos, rtol=0, atol=1e-4)


def test_weights_are_rounded_to_bfloat16_as_engines_do(checkpoint: Path, exact: TransformersPolicy) -> None:
    for weight in exact._model.parameters():
        assert weight.dtype == torch.float32
        assert torch.equal(weight, weight.bfloat16().float())


def test_bfloat16_and_float32_prefills_lie_within_the_honest_range(
    checkpoint: Path, exact: TransformersPolicy, honest: tuple[Rollout, ...]
) -> None:
    rough = TransformersPolicy(checkpoint, compute_dtype="bfloat16").prefill(honest, sampling=Sampling(), keys=None)
    proofs = build_many([p.states for p in rough])
    compared = compare_many([p.states for p in exact.prefill(honest, sampling=Sampling(), keys=None)], proofs)
    seen = proof_statistics([error for errors in compared if isinstance(errors, tuple) for error in errors], 30)
    assert seen.mantissa_mean > 0
    assert Thresholds().broken_by(seen) is None


def test_models_that_cannot_be_packed_are_refused(tmp_path: Path) -> None:
    sizes = {"vocab_size": 16, "hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 1}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 32}
    MistralForCausalLM(MistralConfig(**sizes, **heads, sliding_window=8)).save_pretrained(tmp_path / "window")
    with pytest.raises(ValueError, match="windows of 8"):
        TransformersPolicy(tmp_path / "window")
    LlamaForCausalLM(LlamaConfig(**sizes, **heads, logit_scale=0.5)).save_pretrained(tmp_path / "scaled")
    with pytest.raises(ValueError, match="logit_scale"):
        TransformersPolicy(tmp_path / "scaled")
