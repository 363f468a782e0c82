"""What the training process is told, and what is said of the updates that it left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from node.config import parse_config
from node.training import Training, recipe_of
from rl.batch import StepBatch
from rl.recipe import Recipe


class Process:
    """Answers `start` and `train`; keeps what it was told."""

    def __init__(self, **result: Any) -> None:
        self.told: dict[str, Any] = {}
        self._result = {"train_s": 1.0, "seconds": 1.0, "compute_type": "float32"} | result

    async def call(self, method: str, *, timeout_s: float, **params: Any) -> dict[str, Any]:
        self.told = params
        return self._result


def training(process: Process, *overrides: str) -> Training:
    anything: Any = process
    return Training(anything, parse_config("", overrides=overrides), anything, Path("checkpoints"))


async def test_the_reference_is_told_where_the_objective_has_a_kl() -> None:
    process = Process()
    plain, with_kl = training(process), training(process, "rl.kl_coefficient=0.001")
    await plain.load(Path("policy"))
    assert (plain.needs_reference, process.told["reference"]) == (False, None)
    with_kl.reference = Path("base")
    await with_kl.load(Path("policy"))
    assert with_kl.needs_reference
    assert process.told["reference"] == str(Path("base").absolute())
    assert process.told["recipe"]["kl_coefficient"] == 0.001


def test_every_setting_of_the_objective_reaches_the_recipe() -> None:
    config = parse_config("", overrides=[
        "rl.kl_coefficient=0.5", "rl.normalisation=constant", "rl.advantage_std=false", "rl.importance=behaviour",
        "rl.importance_cap=3.5", "task.max_new_tokens=77",
    ])  # fmt: skip
    recipe = Recipe(**recipe_of(config))
    assert (recipe.kl_coefficient, recipe.normalisation, recipe.advantage_std) == (0.5, "constant", False)
    assert (recipe.importance, recipe.importance_cap, recipe.longest_completion) == ("behaviour", 3.5, 77)


async def test_skipped_updates_are_said(caplog: pytest.LogCaptureFixture) -> None:
    reason = "update 7 was skipped, not finite: loss, gradient norm (over 10 tokens)"
    batch = StepBatch(step=3, wanted=0)
    await training(Process(skip_reasons=[reason], trained_tokens=10)).train(batch, Path("policy-4"))
    assert f"step 3: {reason}" in caplog.text
    assert "changed nothing" not in caplog.text
    await training(Process(skip_reasons=[reason], trained_tokens=0)).train(batch, Path("policy-4"))
    assert "step 3 changed nothing: policy 4 is the one before" in caplog.text
