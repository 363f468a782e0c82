"""What the items say of filters, lengths and the network follows from their runs; every plot can be drawn."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.learning import item_filters, item_length, item_network
from benchmarks.learning.curves import smooth
from benchmarks.learning.loop import Run, Score, Step
from rl.step_metrics import StepMetrics

METRICS = StepMetrics(
    loss=0.0, grad_norm=1.0, clip_ratio=0.0, entropy=1.0, kl_behaviour=0.0, kl_reference=None, truncated_ratio=None,
    trained_tokens=10, skipped_updates=0, skip_reasons=(), rows=1, packing=1.0, overlong=0,
)  # fmt: skip


def step(reward: float, *, completions: int = 8, with_signal: float = 1.0, gap: float = 0.0) -> Step:
    return Step(
        version=0, reward=reward, length=3.0, length_gap=gap, completions=completions, with_signal=with_signal,
        metrics=METRICS,
    )  # fmt: skip


def score(easy: float, middling: float, gap: float = 0.0) -> Score:
    return Score(rewards={"easy": easy, "middling": middling}, length_gap=gap)


def test_filters_are_judged_on_all_problems_and_on_those_of_the_band(tmp_path: Path) -> None:
    def runs(after: float, completions: int) -> list[Run]:
        return [
            Run(before=score(1.0, 0.25), after=score(1.0, after + off),
                steps=[step(0.5, completions=completions, with_signal=0.5)] * 3)
            for off in (-0.1, 0.1)
        ]  # fmt: skip

    by_kind = {kind: runs(0.5, 8) for kind in item_filters.KINDS} | {(True, True): runs(0.75, 16)}
    figures = item_filters.judge(by_kind, {"middling"})
    assert figures["both"]["mean"] == pytest.approx(0.875)
    assert figures["both"]["band_mean"] == pytest.approx(0.75)
    assert (figures["both"]["before"], figures["both"]["band_before"]) == (0.625, 0.25)
    assert (figures["both"]["completions"], figures["no filter"]["completions"]) == (48, 24)
    assert figures["online"]["with_signal"] == 0.5
    text = item_filters.table(figures, {"too-hard": 0, "kept": 1, "too-easy": 1})
    assert len({line.count("|") for line in text.splitlines()}) == 1
    item_filters.draw(by_kind, tmp_path / "filters.svg")
    assert "both" in (tmp_path / "filters.svg").read_text()


def test_the_best_length_without_looking_at_the_target_is_the_median() -> None:
    assert item_length.best_constant((4, 10, 16)) == pytest.approx(4.0)
    assert item_length.best_constant((7,)) == 0.0


def test_lengths_are_judged_by_the_evaluations(tmp_path: Path) -> None:
    runs = [
        Run(before=score(0.5, 0.5, gap=8.0), after=score(1.0, 0.5, gap=gap), steps=[step(0.5, gap=4.0)] * 3)
        for gap in (1.0, 2.0)
    ]
    figures = item_length.judge(runs)
    assert (figures["gap_before"], figures["gap_after"], figures["reward_after"]) == (8.0, 1.5, 0.75)
    assert "8.00 | 1.50" in item_length.table(figures)
    item_length.draw(runs, tmp_path / "length.svg")
    assert (tmp_path / "length.svg").stat().st_size > 0


def estimate(mean: float) -> dict[str, float]:
    return {"mean": mean, "low": mean - 0.05, "high": mean + 0.05}


def evaluation(before: float, after: float) -> dict:
    return {
        "problems": 18, "samples": 32, "model": {"avg": estimate(after)}, "base": {"avg": estimate(before)},
        "difference": {"avg": estimate(after - before)},
    }  # fmt: skip


def test_the_network_is_judged_by_the_held_out_problems(tmp_path: Path) -> None:
    report = dict.fromkeys(item_network.KEPT, 1) | {"rewards": [0.1, 0.2, 0.6], "other": "not kept"}
    figures = item_network.figures_of(report, evaluation(0.1, 0.5), evaluation(0.2, 0.9))
    assert (figures["eval_before"], figures["eval_after"]) == (0.1, 0.5)
    assert figures["eval"]["trained on"]["after"]["mean"] == 0.9
    assert "other" not in figures["network"]
    json.dumps(figures)
    assert "| +40.0% (+35.0% to +45.0%) |" in item_network.table(figures)
    item_network.draw(report["rewards"], evaluation(0.1, 0.5), tmp_path / "network.svg")
    assert (tmp_path / "network.svg").stat().st_size > 0


def test_a_command_that_fails_is_told_with_its_words(tmp_path: Path) -> None:
    with pytest.raises(item_network.CommandFailed, match="unknown task"):
        item_network.ask(tmp_path, "task", "show", "nonsense", "--json")


def test_smoothing_keeps_length_and_averages_what_is_there() -> None:
    assert smooth([0.0, 3.0, 6.0], window=3) == pytest.approx(np.array([1.5, 3.0, 4.5]))
