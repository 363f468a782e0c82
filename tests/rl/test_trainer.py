"""The trainer on a tiny random Llama: its update is that of the plain, unpacked formula, and what it saves loads."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM
from transformers.models.llama.modeling_llama import LlamaMLP

from rl import trainer as trainer_module
from rl.advantage import group_advantages
from rl.batch import TRAINED_ON, TrainingGroup, read_trained_on
from rl.recipe import Recipe
from rl.trainer import PolicyTrainer
from tests.rl.tiny_llama import make_llama, plain_forward, plain_logprobs, write_llama

RECIPE = Recipe(
    learning_rate=1e-3, warmup_steps=0, optimizer_steps=1, entropy_coefficient=0.01, grad_norm_clip=1e9,
    temperature=0.7, micro_batch_tokens=4096,
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    return write_llama(tmp_path_factory.mktemp("llama"))


def group(
    prompt: tuple[int, ...], completions: tuple[tuple[int, ...], ...], rewards: tuple[float, ...]
) -> TrainingGroup:
    logprobs = tuple((-1.0,) * len(completion) for completion in completions)
    return TrainingGroup(
        problem_id=f"p/{prompt}", prompt_ids=prompt, completions=completions, rewards=rewards,
        behaviour_logprobs=logprobs,
    )  # fmt: skip


GROUPS = [
    group((1, 2, 3), ((4, 5, 0), (6,), (7, 8, 9, 10, 0)), (1.0, 0.0, 0.0)),
    group((11,), ((0,), (12, 13)), (0.0, 1.0)),
    group((1, 2, 3), ((4, 5, 0), (14, 0)), (0.0, 0.5)),
]


def start(folder: Path, **changes: Any) -> PolicyTrainer:
    return PolicyTrainer(folder, recipe=replace(RECIPE, **changes), compute_type="float32")


def weights(policy: PolicyTrainer) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in policy._model.state_dict().items()}


def gradients(policy: PolicyTrainer) -> dict[str, torch.Tensor]:
    return {name: parameter.grad.clone() for name, parameter in policy._model.named_parameters()}


def plain_update(folder: Path) -> tuple[dict[str, torch.Tensor], float, float]:
    """Gradients, loss and mean entropy by one forward pass a completion and the formula, nothing shared."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    total, entropies, tokens = torch.zeros(()), 0.0, 0
    for each in GROUPS:
        rewards = np.array(each.rewards)
        advantages = (rewards - rewards.mean()) / rewards.std(ddof=1)
        for completion, advantage in zip(each.completions, advantages, strict=True):
            states, chosen = plain_forward(model, each.prompt_ids, completion, temperature=RECIPE.temperature)
            logs = (model.lm_head(states) / RECIPE.temperature).log_softmax(-1)
            entropy = -(logs.exp() * logs).sum(-1)
            total = total - ((chosen - chosen.detach()).exp() * float(advantage) + 0.01 * entropy).sum()
            entropies, tokens = entropies + entropy.sum().item(), tokens + len(completion)
    loss = total / tokens
    loss.backward()
    return {n: p.grad for n, p in model.named_parameters()}, loss.item(), entropies / tokens


def test_the_packed_update_has_the_gradient_of_the_plain_one(folder: Path) -> None:
    policy = start(folder)
    metrics = policy.step(GROUPS)
    expected, loss, entropy = plain_update(folder)
    for name, gradient in gradients(policy).items():
        torch.testing.assert_close(gradient, expected[name], rtol=1e-4, atol=1e-6, msg=lambda m, n=name: f"{n}: {m}")
    assert metrics.loss == pytest.approx(loss, abs=1e-6)
    assert metrics.entropy == pytest.approx(entropy, rel=1e-5)
    norm = torch.stack([g.norm() for g in expected.values()]).norm().item()
    assert metrics.grad_norm == pytest.approx(norm, rel=1e-4)
    assert metrics.trained_tokens == 17
    assert metrics.clip_ratio == 0.0, "the first update starts from the weights of the rollouts' old log-probs"


@pytest.mark.parametrize("tied", [True, False])
def test_a_tied_embeddings_gradient_is_added_by_rows_and_is_the_same(tmp_path: Path, tied: bool) -> None:
    write_llama(tmp_path, tied=tied)
    by_rows, whole = start(tmp_path), start(tmp_path)
    assert by_rows._model.get_input_embeddings().sparse is tied
    whole._model.get_input_embeddings().sparse = False
    by_rows.step(GROUPS), whole.step(GROUPS)
    for name, gradient in gradients(whole).items():
        assert not gradients(by_rows)[name].is_sparse
        torch.testing.assert_close(gradients(by_rows)[name], gradient, rtol=0, atol=1e-7)


@pytest.mark.parametrize("micro_batch_tokens", [1, 9, 14])
def test_splitting_into_micro_batches_changes_nothing(folder: Path, micro_batch_tokens: int) -> None:
    whole, split = start(folder), start(folder, micro_batch_tokens=micro_batch_tokens)
    assert len(split._micro_batches(GROUPS)) > 1
    first, second = whole.step(GROUPS), split.step(GROUPS)
    for name, gradient in gradients(whole).items():
        torch.testing.assert_close(gradients(split)[name], gradient, rtol=0, atol=1e-6)
    assert second.loss == pytest.approx(first.loss, abs=1e-6)
    assert second.kl_behaviour == pytest.approx(first.kl_behaviour, rel=1e-5)
    assert (first.rows, first.overlong) == (1, 0)
    assert second.rows == len(split._micro_batches(GROUPS))
    assert second.packing > first.packing > 0, "the shorter the rows, the fuller"
    assert second.overlong == (6 if micro_batch_tokens == 1 else 0), "all but the one-token completion of prompt 11"


@pytest.mark.parametrize("optimizer_steps", [1, 2])
def test_activations_computed_again_give_the_same_bits(
    folder: Path, monkeypatch: pytest.MonkeyPatch, optimizer_steps: int
) -> None:
    calls: list[object] = []
    real = LlamaMLP.forward
    monkeypatch.setattr(LlamaMLP, "forward", lambda self, x: calls.append(self) or real(self, x))
    counted = {}
    for again in (False, True):
        calls.clear()
        policy = start(folder, recompute_activations=again, optimizer_steps=optimizer_steps)
        counted[again] = policy.step(GROUPS), gradients(policy), weights(policy), len(calls)
    (kept, *kept_tensors, once), (computed, *computed_tensors, more) = counted[False], counted[True]
    assert computed == kept
    for one, other in zip(kept_tensors, computed_tensors, strict=True):
        assert all(torch.equal(tensor, other[name]) for name, tensor in one.items())
    assert more > once, "else nothing was computed again"


def test_layers_are_compiled_if_and_only_if_asked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[tuple[Any, dict[str, Any]]] = []

    def compile_(function: Any, **options: Any) -> Any:
        compiled.append((function.__self__, options))
        return torch._dynamo.disable(function)

    monkeypatch.setattr(torch, "compile", compile_)
    expected = start(folder).step(GROUPS)
    assert compiled == []
    policy = start(folder, compile=True)
    assert policy.step(GROUPS) == expected
    assert compiled == [(layer, {"dynamic": True}) for layer in policy._model.model.layers]


def test_old_logprobs_are_those_of_the_steps_start(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[torch.Tensor, torch.Tensor]] = []
    real = trainer_module.row_loss

    def watched(*recipe: Any, **tensors: Any) -> Any:
        seen.append((tensors["logprobs"].detach().clone(), tensors["old_logprobs"].clone()))
        return real(*recipe, **tensors)

    monkeypatch.setattr(trainer_module, "row_loss", watched)
    policy = start(folder, optimizer_steps=2, temperature=1.0)
    policy.step(GROUPS)
    assert policy._updates == 2
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    with torch.no_grad():
        fresh = [torch.cat(plain_logprobs(model, [(g.prompt_ids, g.completions) for g in part]))
                 for part in (GROUPS[:2], GROUPS[2:])]  # fmt: skip
    (first, first_old), (second, second_old) = seen
    assert torch.equal(first, first_old), "the ratio of the first update is exactly 1"
    torch.testing.assert_close(first_old, fresh[0], rtol=0, atol=1e-5)
    torch.testing.assert_close(second_old, fresh[1], rtol=0, atol=1e-5)
    assert not torch.allclose(second, second_old, atol=1e-4), "the second update's weights have moved"


def test_more_optimiser_steps_than_groups_make_one_update_a_group(folder: Path) -> None:
    policy = start(folder, optimizer_steps=8)
    assert policy.step(GROUPS).trained_tokens == 17
    assert policy._updates == 3


@pytest.mark.parametrize("optimizer_steps", [1, 2])
def test_with_a_rate_of_zero_the_weights_stay_bit_identical(folder: Path, optimizer_steps: int) -> None:
    policy = start(folder, learning_rate=0.0, optimizer_steps=optimizer_steps)
    before = weights(policy)
    metrics = [policy.step(GROUPS) for _ in range(3)]
    assert all(torch.equal(tensor, before[name]) for name, tensor in weights(policy).items())
    assert len({m.kl_behaviour for m in metrics}) == 1, "no drift from the workers without an update"
    assert all(m.clip_ratio == 0.0 for m in metrics)


def test_the_rate_warms_up_and_the_norm_is_clipped(folder: Path) -> None:
    policy = start(folder, warmup_steps=4, optimizer_steps=1, grad_norm_clip=0.5)
    rates = []
    for _ in range(5):
        assert policy.step(GROUPS).grad_norm > 0.5
        norm = torch.stack([g.norm() for g in gradients(policy).values()]).norm().item()
        assert norm == pytest.approx(0.5, rel=1e-3)
        rates.append(policy._optimizer.param_groups[0]["lr"])
    assert rates == pytest.approx([2.5e-4, 5e-4, 7.5e-4, 1e-3, 1e-3])


def test_kl_is_measured_against_what_the_workers_reported(folder: Path) -> None:
    model = make_llama()
    with torch.no_grad():
        honest = [
            replace(g, behaviour_logprobs=tuple(
                tuple(plain_forward(model, g.prompt_ids, c, temperature=0.7)[1].tolist()) for c in g.completions
            ))
            for g in GROUPS
        ]  # fmt: skip
    assert start(folder).step(honest).kl_behaviour == pytest.approx(0, abs=1e-7)
    gaps = np.concatenate([[x + 1.0 for c in g.behaviour_logprobs for x in c] for g in honest])
    assert start(folder).step(GROUPS).kl_behaviour == pytest.approx(np.mean(np.exp(gaps) - 1 - gaps), rel=1e-4)


def test_what_is_saved_loads_in_bfloat16(folder: Path, tmp_path: Path) -> None:
    policy = start(folder, learning_rate=1e-2)
    policy.step(GROUPS)
    target = tmp_path / "policy-1"
    policy.save(target, step=0, submissions=["aa" * 32])
    assert [path.name for path in tmp_path.iterdir()] == ["policy-1"]
    assert {path.name for path in target.iterdir()} == {path.name for path in folder.iterdir()} | {TRAINED_ON}
    assert read_trained_on(target) == (0, (b"\xaa" * 32,))
    assert read_trained_on(folder) is None
    loaded = AutoModelForCausalLM.from_pretrained(target, dtype=torch.bfloat16).state_dict()
    trained, old = weights(policy), make_llama().state_dict()
    assert loaded.keys() == trained.keys()
    for name, tensor in loaded.items():
        assert torch.equal(tensor, trained[name].to(torch.bfloat16)), name
    assert not torch.equal(loaded["lm_head.weight"].float(), old["lm_head.weight"])
    assert torch.equal(loaded["lm_head.weight"], loaded["model.embed_tokens.weight"])


def test_a_half_written_folder_of_an_earlier_run_is_no_hindrance(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "policy-1.part").mkdir()
    (tmp_path / "policy-1.part" / "junk").write_text("")
    start(folder).save(tmp_path / "policy-1", step=0, submissions=[])
    assert not (tmp_path / "policy-1" / "junk").exists()
    assert not (tmp_path / "policy-1.part").exists()


def test_a_policy_learns_which_token_pays(folder: Path) -> None:
    """A bandit with 32 arms: half of the first tokens are worth 1. After a few steps the policy prefers them."""
    policy = start(folder, learning_rate=3e-3, temperature=1.0, entropy_coefficient=0.0, grad_norm_clip=1.0)
    prompt, generator = (1, 2, 3), torch.Generator().manual_seed(5)
    history: list[float] = []
    for _ in range(12):
        with torch.no_grad():
            distribution = policy._model(torch.tensor([prompt])).logits[0, -1].softmax(-1)
        history.append(distribution[16:].sum().item())
        arms = torch.multinomial(distribution, 16, replacement=True, generator=generator).tolist()
        rewards = tuple(float(arm >= 16) for arm in arms)
        if np.any(group_advantages(np.array(rewards))):
            policy.step([group(prompt, tuple((arm,) for arm in arms), rewards)])
    assert history[-1] > history[0] + 0.2, history
