"""What is said of levels follows from their runs' final rewards alone."""

from __future__ import annotations

import pytest

from benchmarks.learning.item_async import judge, table

FINALS = {
    (0, "recomputed"): [0.90, 0.92, 0.88, 0.91, 0.89],
    (4, "recomputed"): [0.89, 0.93, 0.90, 0.88, 0.91],
    (16, "behaviour"): [0.5, 0.6, 0.4, 0.55, 0.45],
}


def test_a_level_that_falls_short_is_no_noise() -> None:
    figures = judge(FINALS)
    assert figures[0, "recomputed"]["mean"] == pytest.approx(0.9)
    assert figures[4, "recomputed"]["within_noise"]
    assert not figures[16, "behaviour"]["within_noise"]
    assert figures[16, "behaviour"]["p"] == pytest.approx(2 / 252), "the most extreme of all splits, on either side"
    assert figures[16, "behaviour"]["less_than_sync"] == pytest.approx(0.4)
    assert figures[16, "behaviour"]["less_low"] < 0.4 < figures[16, "behaviour"]["less_high"]


def test_the_table_has_a_row_a_level() -> None:
    lines = table(judge(FINALS), start=0.3, steps=90).splitlines()
    assert [line.split("|")[1].strip() for line in lines[2:]] == ["0", "4", "16, ratio to the workers' log-probs"]
    assert [line.split("|")[-2].strip() for line in lines[2:]] == ["", "yes", "no"]
    assert "-0.400" in lines[-1]
