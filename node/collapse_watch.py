"""A trainer's eye on its own learning: warnings as they come up, and the end of the run where that is wished.

What is a warning, and what is enough to stop, `rl.watch` decides. It sees a step before its policy is published, so
that a run which is stopped leaves the policy before as the newest one. It remembers earlier steps over a restart, as
far as they are in this node's metrics.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from node.errors import UserError
from node.metrics import MetricsLog
from rl.watch import SEEN_STEPS, CollapseWarning, Sign, StepFacts, collapsing, standing

log = logging.getLogger(__name__)
QUIET_STEPS = 10
"""A sign that goes and comes back within so many steps is not told again."""


class Collapsed(UserError):
    """The run was stopped since it begins to collapse; the policy before this step stays the newest."""

    exit_code = 8


class CollapseWatch:
    """Of one trainer."""

    def __init__(self, metrics: MetricsLog, *, stop: bool, earlier: Iterable[Mapping[str, Any]] = ()) -> None:
        """`earlier`: lines of this node's metrics from before its start; those of kind `step` count."""
        self._metrics, self._stop = metrics, stop
        self._history = {metric["step"]: StepFacts.of(metric) for metric in earlier if metric["kind"] == "step"}
        self._stood: dict[Sign, int] = {}

    def see(self, metric: Mapping[str, Any]) -> tuple[CollapseWarning, ...]:
        """Take in what a step showed; returns the signs that stand. Raises Collapsed, if that is wished."""
        now = StepFacts.of(metric)
        # A step that is trained again replaces what followed from its earlier self.
        known = [facts for step, facts in sorted(self._history.items()) if step < now.step][-SEEN_STEPS:]
        self._history = {facts.step: facts for facts in (*known, now)}
        warnings = standing((*known, now))
        for warning in warnings:
            if now.step - self._stood.get(warning.sign, -QUIET_STEPS - 1) > QUIET_STEPS:
                self._tell(warning)
            self._stood[warning.sign] = now.step
        if self._stop and collapsing(warnings):
            raise self._collapsed(now.step, warnings)
        return warnings

    def _tell(self, warning: CollapseWarning) -> None:
        log.warning("step %d: %s", warning.seen, warning.told)
        self._metrics.write(
            "warning", sign=warning.sign, step=warning.seen, began=warning.began, was=warning.was, now=warning.now,
            told=warning.told,
        )  # fmt: skip

    def _collapsed(self, step: int, warnings: tuple[CollapseWarning, ...]) -> Collapsed:
        began = min(warning.began for warning in warnings)
        told = "; ".join(warning.told for warning in warnings)
        self._metrics.write("collapse", step=step, began=began, policy_version=step, told=told)
        return Collapsed(
            f"the run begins to collapse: step {step} shows it, it began at step {began}. Policy {step} stays the "
            f"newest, what was trained after it is not published. {told}",
            fix=f"start again with a lower rl.learning_rate: it goes on from policy {step}; or, to go back further, "
            f"start a new pool with model.path at policy {began} or an earlier one, of which every node keeps "
            "network.keep_versions; or leave rl.stop_on_collapse off",
        )
