"""Another model than the claimed policy, run with the right seeds: its own tokens, log-probabilities and proofs.

The policy here has two layers of width 64, so each cheat is one that really changes it. Those that cannot be told on so
small a model (int8, noise of 1e-3, one small optimiser step) are measured on a real one, by the study that
`verify.thresholds` cites.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from transformers import PreTrainedModel

from rl.prompts import render_prompt
from tests.attacks.attack import Family, Offer
from tests.attacks.stage import Stage, rounded

WEIGHTS = Family("Weights and models")


def noisy(share: float) -> Callable[[torch.Tensor], torch.Tensor]:
    """Relative Gaussian noise."""
    generator = torch.Generator().manual_seed(3)
    return lambda weight: weight * (1 + share * torch.randn(weight.shape, generator=generator))


def fp8(weight: torch.Tensor) -> torch.Tensor:
    """e4m3 with a scale for the matrix."""
    scale = weight.abs().max() / 448
    return (weight / scale).to(torch.float8_e4m3fn).float() * scale


def without_adapter(weight: torch.Tensor) -> torch.Tensor:
    """What was there before an update of rank 4 was merged."""
    generator = torch.Generator().manual_seed(4)
    a, b = (torch.randn(n, 4, generator=generator) for n in weight.shape)
    return weight - 0.02 * a @ b.T


def of_an_older_step(weight: torch.Tensor) -> torch.Tensor:
    """Every value moved by 0.02, as by many Adam steps: 13 % of the initial spread."""
    generator = torch.Generator().manual_seed(5)
    return weight + 0.02 * torch.randn(weight.shape, generator=generator).sign()


def half_zero(weight: torch.Tensor) -> torch.Tensor:
    """2:4 sparsity: of four neighbours the two smallest are zero."""
    quads = weight.reshape(-1, 4)
    least = quads.abs().argsort(-1)[:, :2]
    return quads.scatter(-1, least, 0.0).reshape(weight.shape)


_CHANGED: tuple[tuple[str, str, Callable[[torch.Tensor], torch.Tensor]], ...] = (
    ("weights in int6", "Rounds the weights to 6 bits, to hold them in a small machine.", lambda w: rounded(w, 6)),
    ("weights in fp8", "Runs the weights in 8-bit floating point for twice the speed.", fp8),
    ("weights with 5 % of noise", "Runs a damaged or perturbed copy.", noisy(0.05)),
    ("weights with 10 % of noise", "Runs a copy that is damaged further.", noisy(0.1)),
    ("an adapter left out", "Runs the base model and spares itself the merged adapter.", without_adapter),
    ("the policy of many steps ago", "Goes on with old weights and names the new version.", of_an_older_step),
    ("half of the weights zero", "Prunes two of four weights, for which hardware has a fast path.", half_zero),
)
for _name, _story, _change in _CHANGED:
    WEIGHTS.add(
        _name,
        "lazy",
        "proof-mismatch",
        _story,
        lambda stage, change=_change: Offer(content=stage.world.generate(policy=stage.with_weights(change))),
    )


@WEIGHTS.by("lazy", "proof-mismatch")
def weights_in_int4(stage: Stage) -> Offer:
    """Rounds the weights to 4 bits."""
    return Offer(content=stage.in_int4)


def _tampered(stage: Stage, tamper: Callable[[PreTrainedModel], None]) -> Offer:
    return Offer(content=stage.world.generate(policy=stage.with_model(tamper)))


@WEIGHTS.by("lazy", "proof-mismatch")
def a_layer_dropped(stage: Stage) -> Offer:
    """Runs one of two layers."""

    def tamper(model: PreTrainedModel) -> None:
        del model.model.layers[1]
        model.config.num_hidden_layers = 1

    return _tampered(stage, tamper)


@WEIGHTS.by("lazy", "proof-mismatch")
def an_attention_head_pruned(stage: Stage) -> Offer:
    """Leaves out one of two attention heads of the last layer."""
    return _tampered(stage, lambda model: model.model.layers[1].self_attn.o_proj.weight[:, :32].zero_())


@WEIGHTS.by("lazy", "proof-mismatch")
def positions_stretched(stage: Stage) -> Offer:
    """Runs rotary positions at half their frequency, as a server set up for long contexts does."""
    return _tampered(stage, lambda model: model.model.rotary_emb.inv_freq.mul_(0.5))


def _hooked(model: PreTrainedModel, names: tuple[str, ...], change: Callable[[torch.Tensor], torch.Tensor]) -> None:
    for name, module in model.named_modules():
        if name.endswith(names):
            module.register_forward_hook(lambda _module, _inputs, output: change(output))


@WEIGHTS.by("lazy", "proof-mismatch")
def a_cache_in_4_bits(stage: Stage) -> Offer:
    """Keeps keys and values in 4 bits, so that four times the sequences fit."""
    return _tampered(stage, lambda model: _hooked(model, ("k_proj", "v_proj"), lambda x: rounded(x, 4)))


@WEIGHTS.by("lazy", "proof-mismatch")
def activations_in_4_bits(stage: Stage) -> Offer:
    """Rounds the activations of the feed-forward layers, whatever the weights are in."""
    return _tampered(
        stage, lambda model: _hooked(model, ("down_proj", "up_proj", "gate_proj"), lambda x: rounded(x, 4))
    )


@WEIGHTS.by("lazy", "proof-mismatch")
def another_normalisation(stage: Stage) -> Offer:
    """Runs an engine whose final norm scales by another weight."""
    return _tampered(stage, lambda model: model.model.norm.weight.mul_(1.1))


@WEIGHTS.by("lazy", "proof-mismatch")
def another_model(stage: Stage) -> Offer:
    """Runs a model of its own that has the right shape."""
    generator = torch.Generator().manual_seed(6)
    other = stage.with_weights(lambda w: 0.15 * torch.randn(w.shape, generator=generator))
    return Offer(content=stage.world.generate(policy=other))


@WEIGHTS.by("lazy", "sampling")
def another_head(stage: Stage) -> Offer:
    """Runs all layers and a cheaper head of 3 bits, whose fault the states do not show."""

    def tamper(model: PreTrainedModel) -> None:
        model.lm_head.weight = torch.nn.Parameter(rounded(model.lm_head.weight.clone(), 3))

    return Offer(content=stage.world.prove(stage.world.generate(policy=stage.with_model(tamper))))


@WEIGHTS.by("lazy", "proof-mismatch")
def a_context_cut_off(stage: Stage) -> Offer:
    """Sees only the last 12 tokens of each prompt, and reports the whole."""
    policy = stage.fresh_policy()
    policy.tokenizer = _Forgetful(policy.tokenizer)
    seen = stage.world.generate(policy=policy)
    prompts = [render_prompt(stage.world.policy.tokenizer, p, None) for p in stage.problems]
    return Offer(content=[replace(r, prompt_ids=prompts[r.group]) for r in seen])


class _Forgetful:
    """A tokenizer that renders the end of each prompt."""

    def __init__(self, whole: object) -> None:
        self._whole, self.chat_template, self.eos_token_id = whole, whole.chat_template, whole.eos_token_id

    def apply_chat_template(self, conversation: list[dict[str, str]], **options: object) -> list[int]:
        return self._whole.apply_chat_template(conversation, **options)[-12:]

    def decode(self, token_ids: list[int], *, skip_special_tokens: bool) -> str:
        return self._whole.decode(token_ids, skip_special_tokens=skip_special_tokens)


@WEIGHTS.by("lazy", "proof-mismatch")
def one_group_by_another_model(stage: Stage) -> Offer:
    """Computes two groups as it should and the third with 4-bit weights."""
    return Offer(content=[c if c.group == 2 else r for r, c in zip(stage.honest, stage.in_int4, strict=True)])


@WEIGHTS.by("lazy", "proof-mismatch")
def one_completion_by_another_model(stage: Stage) -> Offer:
    """Computes 17 completions as it should and one with 4-bit weights."""
    row = stage.longest
    return Offer(content=[*stage.honest[:row], stage.in_int4[row], *stage.honest[row + 1 :]])
