"""The two-sided clipped objective against the formula of the report, written out token by token in float64."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from rl.loss import grpo_objective

EPSILON, DELTA = 0.2, 4.0


def reference(logprob: float, old: float, advantage: float) -> tuple[float, float]:
    """Objective of one token and its derivative by the log-prob."""
    ratio = math.exp(logprob - old)
    capped = min(ratio, DELTA) * advantage
    inside = min(max(ratio, 1 - EPSILON), 1 + EPSILON) * advantage
    if inside < capped or ratio > DELTA:
        return min(capped, inside), 0.0
    return min(capped, inside), ratio * advantage


def objective(logprobs: list[float], old: list[float], advantages: list[float]) -> tuple[torch.Tensor, ...]:
    """Objective, clipped flags and gradient of the sum."""
    leaf = torch.tensor(logprobs, dtype=torch.float32, requires_grad=True)
    terms = grpo_objective(leaf, torch.tensor(old), torch.tensor(advantages), epsilon=EPSILON, delta=DELTA)
    terms.objective.sum().backward()
    return terms.objective.detach(), terms.clipped, leaf.grad


def test_it_equals_the_formula_and_its_gradient() -> None:
    draw = np.random.default_rng(3)
    logprobs, advantages = -draw.gamma(1.0, size=400), draw.normal(size=400)
    old = logprobs - draw.normal(scale=1.0, size=400)
    old[:50] = logprobs[:50]
    values, clipped, gradient = objective(logprobs.tolist(), old.tolist(), advantages.tolist())
    wanted = [reference(*each) for each in zip(logprobs, old, advantages, strict=True)]
    np.testing.assert_allclose(values, [value for value, _ in wanted], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(gradient, [slope for _, slope in wanted], rtol=1e-4, atol=1e-6)
    assert clipped.tolist() == [float(slope == 0.0) for _, slope in wanted]
    assert {0.0, 1.0} == set(clipped.tolist())


def test_the_gradient_is_the_finite_difference() -> None:
    step = 1e-3
    for logprob, old, advantage in [(-1.0, -1.1, 0.7), (-1.0, -0.2, -0.7), (-2.0, -1.0, 1.3), (-1.0, -2.5, -1.0)]:
        up, down = (reference(logprob + move, old, advantage)[0] for move in (step, -step))
        _, _, gradient = objective([logprob], [old], [advantage])
        assert gradient.item() == pytest.approx((up - down) / (2 * step), abs=2e-5)


def test_a_negative_advantage_and_a_ratio_of_100_cost_delta_times_the_advantage() -> None:
    values, clipped, gradient = objective([0.0], [-math.log(100)], [-1.5])
    assert -values.item() == pytest.approx(DELTA * 1.5)
    assert (clipped.item(), gradient.item()) == (1.0, 0.0)


def test_a_positive_advantage_is_held_by_epsilon() -> None:
    values, clipped, _ = objective([0.0, -1.0], [-1.0, -1.0], [2.0, 2.0])
    assert values.tolist() == pytest.approx([(1 + EPSILON) * 2, 2.0])
    assert clipped.tolist() == [1.0, 0.0]


def test_a_ratio_beyond_float32_has_a_gradient_of_zero_not_nan() -> None:
    _, clipped, gradient = objective([0.0, 0.0, 0.0], [-200.0] * 3, [-1.0, 1.0, 0.0])
    assert gradient.tolist() == [0.0, 0.0, 0.0]
    assert clipped.tolist() == [1.0, 1.0, 1.0]


def test_the_ratio_on_fresh_weights_is_exactly_one() -> None:
    logprobs = (-np.random.default_rng(1).gamma(2.0, size=100)).astype(np.float32).tolist()
    advantages = np.random.default_rng(2).normal(size=100).astype(np.float32).tolist()
    values, clipped, gradient = objective(logprobs, logprobs, advantages)
    assert values.tolist() == pytest.approx(advantages, abs=0)
    assert gradient.tolist() == pytest.approx(advantages, abs=0)
    assert not clipped.any()


def test_a_cap_inside_the_trust_region_is_refused() -> None:
    with pytest.raises(ValueError, match="must exceed"):
        grpo_objective(torch.zeros(1), torch.zeros(1), torch.zeros(1), epsilon=0.2, delta=1.2)
