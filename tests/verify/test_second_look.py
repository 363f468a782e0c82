"""A bound that honest work breaks costs it a second look, not its stake; a cheat does not get by because of that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from rl.rollouts import Rollout
from tests.verify.conftest import RULES, World
from verify.look import noise_of
from verify.policy import Prefilled
from verify.prefill import TransformersPolicy
from verify.thresholds import MEASURED, USUAL_NOISE, Noise, Thresholds, thresholds_for
from verify.verdict import SECOND_LOOK

TIGHT = replace(Thresholds(), mantissa_mean=-9.0)
"""A first look that anything offends."""


class Watched:
    """A policy that remembers in what it was asked to compute."""

    def __init__(self, policy: TransformersPolicy) -> None:
        self._policy, self.asked = policy, list[str]()
        self.tokenizer, self.hidden_size, self.vocab_size = policy.tokenizer, policy.hidden_size, policy.vocab_size
        self.compute_type = policy.compute_type

    def prefill(self, rollouts: Sequence[Rollout], *, compute_type: Any = None, **terms: Any) -> list[Prefilled]:
        self.asked.append(compute_type or self.compute_type)
        return self._policy.prefill(rollouts, compute_type=compute_type, **terms)


@pytest.fixture(scope="module")
def coarse(checkpoint: Path) -> TransformersPolicy:
    return TransformersPolicy(checkpoint, compute_dtype="bfloat16")


@pytest.fixture(scope="module")
def exact(checkpoint: Path) -> TransformersPolicy:
    return TransformersPolicy(checkpoint, compute_dtype="float32")


def test_work_that_no_bound_offends_is_looked_at_once(world: World, exact: TransformersPolicy) -> None:
    policy = Watched(exact)
    verdict = world.judge(world.generate(policy=exact), load=policy)
    assert verdict.outcome == "accepted"
    assert policy.asked == ["float32"]
    assert not any(name.startswith(("second_", "noise_")) for name in verdict.facts)


@pytest.mark.parametrize("prefill", ["coarse", "exact"])
def test_honest_work_passes_the_second_look_whatever_the_first_one_says(
    world: World, prefill: str, request: pytest.FixtureRequest
) -> None:
    """Decoded in bfloat16, as most workers do."""
    policy = Watched(request.getfixturevalue(prefill))
    work = world.generate(policy=request.getfixturevalue("coarse"))
    verdict = world.judge(work, load=policy, rules=replace(RULES, thresholds=TIGHT))
    assert verdict.outcome == "accepted", verdict.rejection
    assert sorted(policy.asked) == ["bfloat16", "float32"], "each pass once, though three checks ask for them"
    assert verdict.facts["second_mantissa_mean"] == pytest.approx(verdict.facts["noise_mantissas"], rel=0.25)


def test_other_weights_do_not(world: World, coarse: TransformersPolicy) -> None:
    torch.manual_seed(0)
    noisy = world.variant(lambda weight: weight * (1 + 0.1 * torch.randn_like(weight)))
    verdict = world.judge(world.generate(policy=noisy), load=Watched(coarse), rules=replace(RULES, thresholds=TIGHT))
    assert verdict.rejection is not None
    assert verdict.rejection.code == "proof-mismatch"
    assert verdict.rejection.detail.startswith(SECOND_LOOK)
    assert verdict.facts["second_mantissa_mean"] > 2 * verdict.facts["noise_mantissas"]


@pytest.mark.parametrize("code", ["sampling", "logprobs"])
def test_every_blurred_number_is_looked_at_again(world: World, coarse: TransformersPolicy, code: str) -> None:
    work = world.generate(policy=coarse)
    tight = replace(Thresholds(), margin_most=-1.0) if code == "sampling" else replace(Thresholds(), logprob_most=-1.0)
    assert world.finding(work, load=Watched(coarse), rules=replace(RULES, thresholds=tight)) == "accepted"
    harsh = replace(RULES, thresholds=tight, second_look=tight)
    assert world.finding(work, load=Watched(coarse), rules=harsh) == f"rejected: {code}"


def test_bounds_grow_with_the_policys_noise_and_never_shrink() -> None:
    usual = MEASURED["bfloat16", "float32"]
    assert usual.widened(USUAL_NOISE) == usual
    assert usual.widened(Noise(exponents=0.0, mantissas=0.0, logprobs=0.0)) == usual
    wider = usual.widened(replace(USUAL_NOISE, mantissas=2 * USUAL_NOISE.mantissas))
    assert wider.mantissa_bound(9, alone=False) == pytest.approx(2 * usual.mantissa_bound(9, alone=False))
    assert wider.exponent_bound(9, alone=False) == usual.exponent_bound(9, alone=False)
    assert (wider.block_mantissa_mean, wider.logprob(alone=True)) == (10.0, usual.logprob(alone=True))
    assert wider.margin(alone=True) == usual.margin(alone=True)
    wider = usual.widened(replace(USUAL_NOISE, logprobs=3 * USUAL_NOISE.logprobs))
    assert wider.margin_most == pytest.approx(3 * usual.margin_most)
    assert wider.mismatch_share == usual.mismatch_share


def test_what_was_measured_of_a_policy_that_has_learnt() -> None:
    """Means of 64 whole blocks after 32 steps of the demo: honest 1.39 at a noise of 1.39, noise of 1e-3 2.09."""
    learnt = replace(USUAL_NOISE, mantissas=1.39)
    bound = MEASURED["bfloat16", "float32"].widened(learnt).mantissa_bound(64, alone=False)
    assert 1.39 * 1.05 < bound < 2.09 * 0.95
    assert Thresholds().mantissa_bound(64, alone=False) < 1.70, "a first look alone would have put the honest out"


def test_a_pools_own_bound_holds_in_both_looks() -> None:
    for prefill in ("bfloat16", "float32"):
        assert thresholds_for("auto", prefill, {"mantissa_mean": 9.0}).mantissa_mean == 9.0


def test_the_noise_is_that_of_bfloat16_on_these_tokens(
    world: World, honest: tuple[Rollout, ...], coarse: TransformersPolicy, exact: TransformersPolicy
) -> None:
    passes = {
        kind: policy.prefill(honest, sampling=RULES.sampling, keys=None)
        for kind, policy in (("coarse", coarse), ("exact", exact))
    }
    silent = noise_of(honest, passes["exact"], passes["exact"])
    assert (silent.exponents, silent.mantissas, silent.logprobs) == (0.0, 0.0, 0.0)
    assert noise_of(honest, passes["exact"], passes["coarse"]).mantissas > 0.3
    again = coarse.prefill(honest, sampling=RULES.sampling, keys=None, compute_type="float32")
    assert noise_of(honest, passes["exact"], again) == silent, "either loads the same weights"
    assert coarse.compute_type == "bfloat16"
