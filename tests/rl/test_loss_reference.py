"""The loss in float32 and its gradient against the float64 reference, over drawn batches and every option."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from benchmarks.learning.exactness import compare, draw_rollouts, float32_loss
from rl.loss_reference import Rollouts, advantages_of, clipped_objective, loss_of
from rl.recipe import IMPORTANCES, NORMALISATIONS, Recipe

TOLERANCE = 1e-6
RECIPE = Recipe(entropy_coefficient=0.01, kl_coefficient=0.05, longest_completion=40)
OPTIONS = list(itertools.product(NORMALISATIONS, IMPORTANCES, (True, False)))


@pytest.mark.parametrize("option", OPTIONS, ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_every_option_in_float32_is_the_reference(option: tuple[Any, Any, bool], seed: int) -> None:
    normalisation, importance, std = option
    recipe = replace(
        RECIPE, normalisation=normalisation, importance=importance, advantage_std=std, temperature=(1.0, 0.7, 1.3)[seed]
    )
    found = compare(draw_rollouts(seed, recipe), recipe)
    assert found.clipped > 0, f"seed {seed}: no token is clipped, so clipping is not tested"
    assert found.loss_rel_err < TOLERANCE, f"seed {seed}, {option}: {found}"
    assert found.grad_rel_err < TOLERANCE, f"seed {seed}, {option}: {found}"


def test_the_hand_made_gradient_is_the_finite_difference_of_the_hand_made_loss() -> None:
    rollouts = draw_rollouts(7, RECIPE, tokens=6, vocabulary=5)
    gradient = loss_of(rollouts, RECIPE).by_logits
    step = 1e-6
    for position in np.ndindex(*gradient.shape):
        moved = []
        for sign in (1, -1):
            logits = rollouts.logits.astype(np.float64)
            logits[position] += sign * step
            moved.append(loss_of(replace(rollouts, logits=logits), RECIPE).loss)
        assert gradient[position] == pytest.approx((moved[0] - moved[1]) / (2 * step), abs=1e-8), position


def one_token(*, ratio: float = 1.0, reward: float = 0.0, reference: float = 0.0) -> Rollouts:
    """A group of two completions of one token each; the first is the one in question, the other's reward is 1."""
    logits = np.log(np.array([[0.5, 0.25, 0.25], [0.5, 0.25, 0.25]]))
    now = logits[:, 0]
    return Rollouts(
        logits=logits.astype(np.float32), targets=np.array([0, 0]), completion_of=np.array([0, 1]),
        group_of=np.array([0, 0]), rewards=np.array([reward, 1.0]),
        old_logprobs=now - np.array([math.log(ratio), 0.0]), behaviour_logprobs=now - 0.1,
        reference_logprobs=now + reference,
    )  # fmt: skip


def test_a_negative_advantage_at_a_ratio_of_100_costs_delta_times_it() -> None:
    recipe = Recipe(entropy_coefficient=0.0)
    outcome = loss_of(one_token(ratio=100.0), recipe)
    half = 1 / math.sqrt(2)
    assert outcome.advantages.tolist() == pytest.approx([-half, half])
    assert outcome.loss == pytest.approx((recipe.clip_delta * half - half) / 2)
    assert outcome.clipped.tolist() == [True, False]
    assert not outcome.by_logits[0].any()
    assert compare(one_token(ratio=100.0), recipe).loss_rel_err < TOLERANCE
    one_sided = loss_of(one_token(ratio=100.0), replace(recipe, clip_delta=math.inf))
    assert one_sided.loss == pytest.approx((100 * half - half) / 2)


def test_the_kl_term_pulls_towards_the_reference() -> None:
    """All rewards are equal, so nothing but the KL is left; its gradient must not be that of detached log-probs."""
    recipe = Recipe(entropy_coefficient=0.0, kl_coefficient=0.5)
    for reference in (0.3, -0.3):
        rollouts = one_token(reward=1.0, reference=reference)
        loss, gradient = float32_loss(rollouts, recipe)
        assert loss == pytest.approx(0.5 * (math.exp(reference) - reference - 1), rel=1e-6)
        assert np.sign(gradient[:, 0]).tolist() == [-np.sign(reference)] * 2, "a step down the gradient goes to it"
        assert compare(rollouts, recipe).grad_rel_err < TOLERANCE


def test_with_no_entropy_and_no_kl_equal_rewards_give_exactly_nothing() -> None:
    loss, gradient = float32_loss(one_token(reward=1.0), Recipe(entropy_coefficient=0.0))
    assert loss == 0.0
    assert not gradient.any()


def test_at_the_start_of_the_step_the_ratio_is_one_at_any_temperature() -> None:
    for temperature in (0.3, 1.0, 1.7):
        recipe = Recipe(temperature=temperature)
        rollouts = replace(draw_rollouts(3, recipe), old_logprobs=None)
        outcome = loss_of(rollouts, recipe)
        assert not outcome.clipped.any()
        assert compare(rollouts, recipe).grad_rel_err < TOLERANCE


def test_the_behaviour_ratio_is_cut_off_at_its_cap() -> None:
    """By old - behaviour: a token that the worker found 100 times less likely counts twice, not 100 times."""
    recipe = Recipe(entropy_coefficient=0.0, importance="behaviour", importance_cap=2.0)
    plain = replace(recipe, importance="recomputed")
    rollouts = one_token()
    for gap, factor in ((math.log(100), 2.0), (math.log(1.5), 1.5), (-math.log(4), 0.25)):
        shifted = replace(rollouts, behaviour_logprobs=rollouts.old_logprobs - gap)
        for got, wanted in zip(float32_loss(shifted, recipe), float32_loss(shifted, plain), strict=True):
            np.testing.assert_allclose(got, np.asarray(wanted) * factor, rtol=1e-5, atol=1e-7)


def test_normalisations_weigh_tokens_as_their_papers_say() -> None:
    """Two completions of 1 and 3 tokens, advantages -A and A, ratio 1: the loss follows from the weights alone."""
    tokens = np.zeros((4, 3), dtype=np.float32)
    rollouts = Rollouts(
        logits=tokens, targets=np.zeros(4, dtype=int), completion_of=np.array([0, 1, 1, 1]),
        group_of=np.array([0, 0]), rewards=np.array([0.0, 1.0]), old_logprobs=None,
        behaviour_logprobs=np.zeros(4), reference_logprobs=np.zeros(4),
    )  # fmt: skip
    half = 1 / math.sqrt(2)
    wanted = {"token": -(3 - 1) * half / 4, "sequence": 0.0, "constant": -(3 - 1) * half / (2 * 10)}
    for normalisation in NORMALISATIONS:
        recipe = Recipe(entropy_coefficient=0.0, normalisation=normalisation, longest_completion=10)
        assert float32_loss(rollouts, recipe)[0] == pytest.approx(wanted[normalisation], abs=1e-7)
    without_std = Recipe(entropy_coefficient=0.0, advantage_std=False)
    assert float32_loss(rollouts, without_std)[0] == pytest.approx(-(3 - 1) * 0.5 / 4)


def test_advantages_of_groups_that_carry_nothing_are_zero() -> None:
    rewards, groups = np.array([1.0, 0.1, 0.1, 0.1, 1.0, 0.0]), np.array([0, 1, 1, 1, 2, 2])
    for std in (True, False):
        advantages = advantages_of(rewards, groups, std=std)
        assert advantages[:4].tolist() == [0.0] * 4, "a group of one, and one of equals"
        assert advantages[4] == -advantages[5] == pytest.approx(1 / math.sqrt(2) if std else 0.5)
    shuffled = np.random.default_rng(5).permutation(6)
    assert advantages_of(rewards[shuffled], groups[shuffled], std=True).tolist() == pytest.approx(
        advantages_of(rewards, groups, std=True)[shuffled].tolist()
    )


def test_an_infinite_ratio_has_a_gradient_of_zero() -> None:
    assert clipped_objective(0.0, -1e9, -1.0, 0.2, 4.0) == (-4.0, 0.0, True)
