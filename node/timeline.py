"""Who waited for whom, step by step: from the spans of all nodes, on the network's one clock. Pure.

A step lasts from the moment its trainer asks for its batch to the moment its policy is published. What others did in
that time counts for it, whichever step they worked on, since that is whom the trainer's wait could have been spared.
It keeps the newest spans only, and draws nothing (`node.report_timeline` does).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from node.spans import Activity

MAX_SPANS = 20_000
"""Of all nodes together; about 3 MB. The oldest go first."""
MAX_STEPS = 100
"""Whose waits are summed up."""
TRAINERS_OWN = (Activity.WAITING_FOR_ROLLOUTS, Activity.TRAINING, Activity.PUBLISHING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One node, doing or waiting for one thing; unix seconds by the network's clock."""

    node: str
    role: str
    activity: Activity
    step: int | None
    began_s: float
    ended_s: float

    @property
    def seconds(self) -> float:
        return self.ended_s - self.began_s


@dataclass(frozen=True, slots=True, kw_only=True)
class StepWaits:
    """Who waited in a step's time; seconds. Of several workers (validators) the mean of each."""

    step: int
    began_s: float
    ended_s: float
    trainer_s: float
    """Training waited for rollouts."""
    workers_s: float
    """Workers waited for a policy: theirs was too old for the open step."""
    verdicts_s: float
    """Workers waited for verdicts on what they had handed in."""
    idle_s: float
    """Validators had nothing to check."""

    @property
    def told(self) -> str:
        """In a sentence."""
        return (
            f"step {self.step}: training waited {self.trainer_s:.1f} s for rollouts; workers waited "
            f"{self.workers_s:.1f} s for a policy and {self.verdicts_s:.1f} s for verdicts; validators were idle for "
            f"{self.idle_s:.1f} s"
        )


@dataclass(slots=True, kw_only=True)
class Timeline:
    """The spans of a run so far."""

    spans: deque[Span] = field(default_factory=lambda: deque(maxlen=MAX_SPANS))

    def see(self, node: str, role: str, metric: Mapping[str, Any]) -> None:
        """Take in one line of kind `span` of a node's metrics."""
        ended_s = float(metric["unix_s"])
        self.spans.append(
            Span(
                node=node, role=role, activity=Activity(metric["activity"]), step=metric["step"],
                began_s=ended_s - float(metric["seconds"]), ended_s=ended_s,
            )
        )  # fmt: skip

    def steps(self) -> tuple[StepWaits, ...]:
        """The newest MAX_STEPS steps that were trained, in order."""
        own: dict[int, list[Span]] = {}
        for span in self.spans:
            if span.role == "trainer" and span.step is not None and span.activity in TRAINERS_OWN:
                own.setdefault(span.step, []).append(span)
        published = {
            step: spans for step, spans in own.items() if any(s.activity is Activity.PUBLISHING for s in spans)
        }
        return tuple(self._step(step, spans) for step, spans in sorted(published.items())[-MAX_STEPS:])

    def _step(self, step: int, own: list[Span]) -> StepWaits:
        began_s, ended_s = min(span.began_s for span in own), max(span.ended_s for span in own)

        def mean_s(role: str, activity: Activity) -> float:
            nodes = {span.node for span in self.spans if span.role == role}
            total_s = _overlap_s((s for s in self.spans if s.role == role and s.activity is activity), began_s, ended_s)
            return total_s / len(nodes) if nodes else 0.0

        return StepWaits(
            step=step, began_s=began_s, ended_s=ended_s,
            trainer_s=sum(span.seconds for span in own if span.activity is Activity.WAITING_FOR_ROLLOUTS),
            workers_s=mean_s("worker", Activity.WAITING_FOR_POLICY),
            verdicts_s=mean_s("worker", Activity.WAITING_FOR_VERDICTS),
            idle_s=mean_s("validator", Activity.IDLE),
        )  # fmt: skip


def _overlap_s(spans: Iterable[Span], began_s: float, ended_s: float) -> float:
    """Seconds of the spans that lie between the two moments."""
    return sum(max(0.0, min(span.ended_s, ended_s) - max(span.began_s, began_s)) for span in spans)
