"""The items on the loss find what they look for, at a size that takes seconds."""

from __future__ import annotations

from math import isfinite
from pathlib import Path

import pytest
import torch

from benchmarks.learning import item_clipping, item_loss
from benchmarks.learning.ranks import make_model


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    return make_model(tmp_path_factory.mktemp("policy"))


def test_rows_of_one_completion_and_four_micro_batches_are_one_row(policy: Path) -> None:
    for bound, wanted in ((1, 28), (item_loss.bound_of(item_loss.MICRO_BATCHES), item_loss.MICRO_BATCHES)):
        rows, apart = item_loss.layouts_apart(policy, policy, bound)
        assert rows == wanted
        assert apart < 1e-5


def test_planted_ratios_explode_one_sided_and_are_bounded_two_sided(tmp_path: Path) -> None:
    found = item_clipping.run(tmp_path, quick=True, say=lambda _: None)
    one, two = found.figures["clipping"]["one-sided"], found.figures["clipping"]["two-sided"]
    assert one["grad_norm"]["1"] == two["grad_norm"]["1"], "without a planted ratio they are the same"
    assert one["grad_norm"]["10000"] > 100 * one["grad_norm"]["10"]
    assert max(two["grad_norm"].values()) < 1.5 * two["grad_norm"]["1"]
    assert one["gradient descent"]["weights_moved"] > 100 * two["gradient descent"]["weights_moved"]
    assert isfinite(two["gradient descent"]["largest_grad_norm"])
    assert (tmp_path / "clipping.svg").stat().st_size > 1000
    assert found.plots == ("clipping.svg",)
