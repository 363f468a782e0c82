"""Who waited for whom follows from the spans of all nodes, and a span is written however its block ends."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from node.metrics import MetricsLog, MetricsTail
from node.report_timeline import MAX_ROWS, _rows, draw_timeline
from node.spans import Activity, Waits, span
from node.timeline import MAX_SPANS, MAX_STEPS, Timeline


class Clock:
    def __init__(self) -> None:
        self.s = 1000.0

    def __call__(self) -> float:
        return self.s


class Log:
    """A node's metrics and what is in them."""

    def __init__(self, folder: Path) -> None:
        self.clock = Clock()
        self.metrics = MetricsLog(folder / "m.jsonl", now_s=self.clock)
        self._tail = MetricsTail(folder / "m.jsonl")

    def spans(self) -> list[tuple[str, float, int | None]]:
        """Activity, end and length of the lines since the last look."""
        return [(line["activity"], line["unix_s"], line["seconds"], line["step"]) for line in self._tail.read()]


def test_a_span_is_written_however_its_block_ends(tmp_path: Path) -> None:
    log = Log(tmp_path)
    with span(log.metrics, Activity.TRAINING, 3):
        log.clock.s += 2.5
    with pytest.raises(ZeroDivisionError), span(log.metrics, Activity.CHECKING):
        log.clock.s += 1 / int(log.clock.s < 0)
    with span(log.metrics, Activity.FETCHING):
        log.clock.s -= 30  # the network's time was put right meanwhile
    assert log.spans() == [
        ("training", 1002.5, 2.5, 3), ("checking", 1002.5, 0.0, None), ("fetching", 972.5, 0.0, None),
    ]  # fmt: skip


def test_looks_that_find_the_same_are_one_wait(tmp_path: Path) -> None:
    log = Log(tmp_path)
    with (waits := Waits(log.metrics)).kept():
        for _ in range(4):
            waits.on(Activity.WAITING_FOR_POLICY)
            log.clock.s += 1
        waits.on(Activity.IDLE)
        log.clock.s += 0.01
        waits.over()
        waits.over()
        assert log.spans() == [("waiting for a policy", 1004.0, 4.0, None)], "and one too short to see is left out"
        waits.on(Activity.IDLE)
        log.clock.s += 2
    assert log.spans() == [("idle", 1006.01, 2.0, None)], "also the one that the end cut off"


def line(activity: Activity, began_s: float, ended_s: float, step: int | None = None) -> dict[str, Any]:
    return {
        "kind": "span", "unix_s": ended_s, "seconds": ended_s - began_s, "activity": activity.value, "step": step
    }  # fmt: skip


def two_steps() -> Timeline:
    """Step 7 from 10 to 20 and step 8 from 20 to 30; a wait of a worker lies across the border."""
    timeline = Timeline()
    for step, at in ((7, 10.0), (8, 20.0)):
        timeline.see("trainer", "trainer", line(Activity.WAITING_FOR_ROLLOUTS, at, at + 3, step))
        timeline.see("trainer", "trainer", line(Activity.TRAINING, at + 3, at + 8, step))
        timeline.see("trainer", "trainer", line(Activity.PUBLISHING, at + 8, at + 10, step))
    timeline.see("trainer", "trainer", line(Activity.TRAINING, 30, 31, 9))
    timeline.see("a", "worker", line(Activity.WAITING_FOR_POLICY, 18, 24))
    timeline.see("b", "worker", line(Activity.WAITING_FOR_VERDICTS, 5, 11))
    timeline.see("v", "validator", line(Activity.IDLE, 22, 26))
    return timeline


def test_waits_are_counted_in_the_step_in_which_they_were_waited() -> None:
    seven, eight = two_steps().steps()
    assert (seven.step, seven.trainer_s, seven.workers_s, seven.verdicts_s, seven.idle_s) == (7, 3.0, 1.0, 0.5, 0.0)
    assert (eight.step, eight.trainer_s, eight.workers_s, eight.verdicts_s, eight.idle_s) == (8, 3.0, 2.0, 0.0, 4.0)
    assert seven.told.startswith("step 7: training waited 3.0 s for rollouts; workers waited 1.0 s for a policy")


def test_it_is_bounded() -> None:
    timeline = Timeline()
    for step in range(MAX_SPANS):
        timeline.see("trainer", "trainer", line(Activity.PUBLISHING, step, step + 1, step))
    assert len(timeline.steps()) == MAX_STEPS
    timeline.see("trainer", "trainer", line(Activity.PUBLISHING, -1, 0, MAX_SPANS))
    assert len(timeline.spans) == MAX_SPANS
    assert timeline.steps()[-1].step == MAX_SPANS


def test_an_activity_that_is_none_is_a_fault_of_the_writer() -> None:
    with pytest.raises(ValueError, match="dancing"):
        Timeline().see("a", "worker", {"unix_s": 1.0, "seconds": 1.0, "activity": "dancing", "step": None})


def test_it_is_drawn_whatever_there_is() -> None:
    for timeline in (Timeline(), two_steps()):
        assert draw_timeline(timeline).startswith(b"\x89PNG")
    assert draw_timeline(two_steps()) != draw_timeline(Timeline())


def test_of_many_nodes_the_busiest_are_shown_below_their_trainer() -> None:
    timeline, rng = Timeline(), random.Random(0)
    names = [f"worker-{number:02}" for number in range(40)]
    rng.shuffle(names)
    for name in names:
        timeline.see(name, "worker", line(Activity.GENERATING, 0, 1 + int(name[-2:])))
    timeline.see("trainer", "trainer", line(Activity.TRAINING, 0, 0.1, 0))
    rows = _rows(list(timeline.spans))
    assert rows == ["trainer", *(f"worker-{number:02}" for number in range(40 - MAX_ROWS + 1, 40))]
