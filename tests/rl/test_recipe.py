"""A recipe that cannot train is refused where it is written down, with the field's name and what it takes."""

from __future__ import annotations

import math
from typing import Any

import pytest

from rl.recipe import Recipe


def test_the_defaults_are_those_of_the_report() -> None:
    recipe = Recipe()
    assert (recipe.learning_rate, recipe.warmup_steps, recipe.optimizer_steps) == (3e-7, 25, 8)
    assert (recipe.clip_epsilon, recipe.clip_delta) == (0.2, 4.0)
    assert (recipe.entropy_coefficient, recipe.grad_norm_clip) == (1e-4, 0.1)
    assert not recipe.compile


@pytest.mark.parametrize(
    "field",
    [
        {"learning_rate": -1e-6},
        {"learning_rate": math.nan},
        {"warmup_steps": -1},
        {"optimizer_steps": 0},
        {"clip_epsilon": 0.0},
        {"clip_epsilon": 1.0},
        {"clip_delta": 1.2},
        {"clip_delta": math.nan},
        {"kl_coefficient": -0.1},
        {"kl_coefficient": math.inf},
        {"entropy_coefficient": math.nan},
        {"normalisation": "batch"},
        {"longest_completion": -1},
        {"importance": "none"},
        {"importance_cap": 0.5},
        {"importance_cap": math.inf},
        {"grad_norm_clip": 0.0},
        {"temperature": 0.0},
        {"micro_batch_tokens": 0},
        {"beta1": 1.0},
        {"beta2": -0.1},
        {"weight_decay": -1.0},
    ],
    ids=str,
)
def test_what_cannot_train_is_refused(field: dict[str, Any]) -> None:
    ((name, _),) = field.items()
    with pytest.raises(ValueError, match=rf"^{name} = .* it takes "):
        Recipe(**field)


def test_a_constant_divisor_must_be_given() -> None:
    with pytest.raises(ValueError, match=r"longest_completion = 0 .* 1 or more"):
        Recipe(normalisation="constant")
    assert Recipe(normalisation="constant", longest_completion=10).longest_completion == 10


def test_one_sided_clipping_has_no_upper_bound() -> None:
    assert Recipe(clip_delta=math.inf).clip_delta == math.inf
