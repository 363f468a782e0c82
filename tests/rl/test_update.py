"""One update of a tiny model against the float64 reference, end to end; and what becomes of one that is not finite."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import GraniteConfig, GraniteForCausalLM

from benchmarks.learning.exactness import against_double
from rl import trainer as trainer_module
from rl.batch import TrainingGroup
from rl.hardware import ComputeType
from rl.recipe import IMPORTANCES, NORMALISATIONS, Recipe
from rl.trainer import MOST_SKIPPED_STEPS, PolicyTrainer, TrainingFault
from tests.rl.test_trainer import GROUPS, gradients, start, weights
from tests.rl.tiny_llama import write_llama

RECIPE = Recipe(
    learning_rate=1e-3, warmup_steps=0, optimizer_steps=1, entropy_coefficient=0.01, kl_coefficient=0.1,
    grad_norm_clip=1e9, temperature=0.7, longest_completion=8,
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    return write_llama(tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_llama(tmp_path_factory.mktemp("base"), seed=1)


def begin(folder: Path, base: Path | None, compute_type: ComputeType = "float32", **changes: Any) -> PolicyTrainer:
    return PolicyTrainer(folder, recipe=replace(RECIPE, **changes), compute_type=compute_type, reference=base)


@pytest.mark.parametrize("normalisation", NORMALISATIONS)
@pytest.mark.parametrize("importance", IMPORTANCES)
@pytest.mark.parametrize("advantage_std", [True, False])
def test_loss_and_gradient_of_the_weights_are_those_of_float64(
    folder: Path, base: Path, normalisation: Any, importance: Any, advantage_std: bool
) -> None:
    """Micro-batches, packing, tied embeddings and all: 2e-6 is what float32 makes of two layers and a softmax."""
    recipe = replace(RECIPE, normalisation=normalisation, importance=importance, advantage_std=advantage_std)
    for micro_batch_tokens in (4096, 12):
        found = against_double(folder, base, replace(recipe, micro_batch_tokens=micro_batch_tokens), GROUPS)
        assert found.loss_rel_err < 1e-6
        assert found.grad_rel_err < 2e-6


def test_the_reference_is_the_policy_at_first_and_the_kl_grows_from_exactly_nothing(folder: Path) -> None:
    for compute_type in ("float32", "bfloat16"):
        policy = begin(folder, folder, compute_type)
        kl = [policy.step(GROUPS).kl_reference for _ in range(3)]
        assert kl[0] == 0.0, compute_type
        assert 0.0 < kl[1] < kl[2], compute_type


def test_a_bfloat16_reference_takes_two_bytes_a_parameter_of_its_products(folder: Path) -> None:
    policy = begin(folder, folder, "bfloat16")
    frozen = policy._reference.model
    assert frozen.model.layers[0].mlp.up_proj.weight.dtype == frozen.model.embed_tokens.weight.dtype == torch.bfloat16
    assert frozen.model.norm.weight.dtype == torch.float32
    assert not any(parameter.requires_grad for parameter in frozen.parameters())


def test_a_strong_kl_holds_the_policy_to_the_reference(folder: Path) -> None:
    last = {}
    for coefficient in (1e-6, 10.0):
        policy = begin(folder, folder, kl_coefficient=coefficient, learning_rate=3e-3)
        last[coefficient] = [policy.step(GROUPS).kl_reference for _ in range(12)][-1]
    assert last[10.0] < 0.1 * last[1e-6]


def test_a_kl_without_a_reference_is_refused_and_without_a_kl_none_is_loaded(folder: Path, base: Path) -> None:
    with pytest.raises(ValueError, match=r"kl_coefficient = 0\.1 needs a reference"):
        begin(folder, None)
    policy = begin(folder, base, kl_coefficient=0.0)
    assert policy._reference is None
    assert policy.step(GROUPS).kl_reference is None


def test_a_head_that_is_more_than_a_product_is_refused(folder: Path, tmp_path: Path) -> None:
    config = GraniteConfig(
        vocab_size=32, hidden_size=32, intermediate_size=32, num_hidden_layers=1, num_attention_heads=1,
        num_key_value_heads=1, logits_scaling=8.0,
    )  # fmt: skip
    GraniteForCausalLM(config).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="granite has logits_scaling"):
        start(tmp_path)


def planted(monkeypatch: pytest.MonkeyPatch, *, rows: set[int], value: float, carries: bool) -> list[int]:
    """Have the loss of the rows with these numbers (from 0, over all updates) be `value`, in gradient and metric.

    With `carries` false only the gradient is: the loss that is told stays what it was.
    """
    seen: list[int] = []
    real = trainer_module.row_loss

    def broken(*recipe: Any, logprobs: torch.Tensor, **tensors: Any) -> Any:
        loss, sums = real(*recipe, logprobs=logprobs, **tensors)
        seen.append(len(seen))
        if seen[-1] in rows:
            poisoned = (logprobs * value).sum()
            loss = loss + poisoned if carries else loss + poisoned - poisoned.detach()
            sums = sums + torch.tensor([value if carries else 0.0, *[0.0] * (len(sums) - 1)])
        return loss, sums

    monkeypatch.setattr(trainer_module, "row_loss", broken)
    return seen


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("carries", [True, False], ids=["loss", "gradient"])
def test_an_update_that_is_not_finite_is_left_out_and_says_why(
    folder: Path, monkeypatch: pytest.MonkeyPatch, value: float, carries: bool
) -> None:
    """Of two updates the first is broken; what is left is the second alone, bit by bit."""
    policy = start(folder, optimizer_steps=2)
    planted(monkeypatch, rows={0}, value=value, carries=carries)
    metrics = policy.step(GROUPS)
    assert (metrics.skipped_updates, policy._updates) == (1, 1)
    (reason,) = metrics.skip_reasons
    assert "update 0 was skipped" in reason
    assert "gradient norm" in reason
    assert ("loss" in reason) == carries
    assert math.isfinite(metrics.loss)
    assert math.isfinite(metrics.grad_norm)
    monkeypatch.undo()
    alone = start(folder, optimizer_steps=1)
    second = alone.step(GROUPS[2:])
    assert metrics.trained_tokens == second.trained_tokens
    assert all(torch.equal(tensor, weights(alone)[name]) for name, tensor in weights(policy).items())


def test_steps_without_an_update_leave_the_policy_and_end_after_three_in_a_row(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    policy = start(folder)
    before = weights(policy)
    planted(monkeypatch, rows={0, 1, 3, 4, 5}, value=math.nan, carries=True)
    for _ in range(2):
        metrics = policy.step(GROUPS)
        assert metrics.skipped_updates == 1
        assert math.isnan(metrics.loss)
        assert metrics.trained_tokens == 0
    assert all(torch.equal(tensor, before[name]) for name, tensor in weights(policy).items())
    assert all(parameter.grad is None for parameter in policy._model.parameters())
    assert not policy._optimizer.state
    policy.save(tmp_path / "policy-2", step=1, submissions=[])
    assert policy.step(GROUPS).skipped_updates == 0, "the third is sound, and the count starts anew"
    assert MOST_SKIPPED_STEPS == 3
    before = weights(policy)
    for _ in range(2):
        policy.step(GROUPS)
    with pytest.raises(TrainingFault, match=r"no update could be made in 3 steps.*not finite: loss.*rl\.learning_rate"):
        policy.step(GROUPS)
    assert all(torch.equal(tensor, before[name]) for name, tensor in weights(policy).items())


def test_after_a_skipped_step_a_restart_goes_on_bit_by_bit(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    straight = start(folder, warmup_steps=5)
    planted(monkeypatch, rows={1}, value=math.nan, carries=True)
    for step in range(2):
        straight.step(GROUPS)
        straight.save(tmp_path / f"policy-{step + 1}", step=step, submissions=[])
        straight.save_state(tmp_path / f"state-{step + 1}", step + 1)
    files = [(tmp_path / f"policy-{version}" / "model.safetensors").read_bytes() for version in (1, 2)]
    assert files[0] == files[1], "the policy of the skipped step is the one before"
    monkeypatch.undo()
    again = start(tmp_path / "policy-2", warmup_steps=5)
    again.load_state(tmp_path / "state-2", 2)
    for policy in (straight, again):
        policy.step(GROUPS)
    assert all(torch.equal(tensor, weights(again)[name]) for name, tensor in weights(straight).items())


def test_a_broken_weight_is_never_written(folder: Path, tmp_path: Path) -> None:
    policy = start(folder)
    with torch.no_grad():
        policy._model.model.norm.weight[3] = 3.4e38  # finite in float32, infinite in bfloat16
    with pytest.raises(TrainingFault, match=r"1 weights of model\.norm\.weight are not finite .* rl\.learning_rate"):
        policy.save(tmp_path / "policy-1", step=0, submissions=[])
    assert not list(tmp_path.iterdir())


def test_a_broken_weight_moves_no_other(folder: Path) -> None:
    policy = start(folder)
    with torch.no_grad():
        policy._model.model.norm.weight[3] = float("nan")
    before = weights(policy)
    metrics = policy.step(GROUPS)
    assert "not finite: loss, entropy" in metrics.skip_reasons[0]
    assert all(torch.equal(t.nan_to_num(7), before[n].nan_to_num(7)) for n, t in weights(policy).items())


def test_a_worker_that_reports_absurd_log_probs_stops_no_update(folder: Path) -> None:
    """Its KL is infinite, which is told, not trained on."""
    absurd = [replace(g, behaviour_logprobs=tuple(tuple(-1e4 for _ in c) for c in g.completions)) for g in GROUPS]
    for importance in IMPORTANCES:
        metrics = start(folder, importance=importance).step(absurd)
        assert metrics.skipped_updates == 0
        assert metrics.kl_behaviour == math.inf
        assert math.isfinite(metrics.grad_norm)
    assert metrics.truncated_ratio == 1.0


def test_an_update_whose_groups_all_agree_teaches_the_kl_only(folder: Path, base: Path) -> None:
    agreed: list[TrainingGroup] = [replace(g, rewards=(0.5,) * len(g.rewards)) for g in GROUPS]
    policy = begin(folder, None, kl_coefficient=0.0, entropy_coefficient=0.0)
    metrics = policy.step(agreed)
    assert (metrics.loss, metrics.grad_norm) == (0.0, 0.0)
    assert not any(gradient.any() for gradient in gradients(policy).values())
    pulled = begin(folder, base, entropy_coefficient=0.0)
    assert pulled.step(agreed).grad_norm > 0
