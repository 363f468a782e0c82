"""Does a run begin to collapse? Signs of it in the metrics of its steps, each in words and with the step it began at.

Decides from the history alone, so that the same metrics always give the same warnings. The signs are those that the
INTELLECT-2 report (section 4) saw before its runs collapsed: the gradient norm grows slowly, clipped tokens become
more, entropy rises after it had fallen; and what everybody sees: KL, lengths, the reward itself.

A policy that learns also moves its entropy, its gradients and its distance to where it came from. So these count only
while the reward does not rise, or beyond what any sane run showed. It stops nothing and touches no weights; what is
done about a warning is the trainer's to decide, by `collapsing`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

import numpy as np

SEEN_STEPS = 512
"""Steps that are looked back at: what is older explains nothing about now."""
WIDTH = 5
"""Steps whose median is one point of a smoothed curve: two bad batches among five move nothing."""
WINDOWS = (16, 48, 144)
"""Steps over which a slow growth is looked for."""
SURE = 3.5
"""Standard scores of Mann and Kendall's test: a trend by chance in one of 4,000 windows."""


class Sign(StrEnum):
    """What is seen."""

    GRADIENT = "gradient norm"
    CLIPPING = "clipped tokens"
    ENTROPY = "entropy"
    BEHAVIOUR = "KL to the workers"
    REFERENCE = "KL to the reference"
    REWARD = "reward"
    LENGTH = "answers at the limit"


ADVICE = {
    Sign.GRADIENT: "lower rl.learning_rate or rl.grad_norm_clip (the report found 0.05 to 0.1 stable)",
    Sign.CLIPPING: "lower rl.learning_rate, or take fewer rl.optimizer_steps on one batch",
    Sign.ENTROPY: "lower rl.learning_rate and rl.entropy_coefficient; go on from a policy before that step",
    Sign.BEHAVIOUR: "lower rl.asynchrony or rl.learning_rate; if it grew at once, compare the engines' weights",
    Sign.REFERENCE: "lower rl.learning_rate, or go on from a policy before that step",
    Sign.REWARD: "go on from a policy before that step with a lower rl.learning_rate",
    Sign.LENGTH: "raise task.max_new_tokens, or give the task a length reward",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFacts:
    """What one step showed; None where it is not known or was not finite."""

    step: int
    reward: float | None = None
    grad_norm: float | None = None
    clip_ratio: float | None = None
    entropy: float | None = None
    kl_behaviour: float | None = None
    kl_reference: float | None = None
    limit_share: float | None = None
    """Share of the accepted rollouts that are as long as is allowed."""

    @classmethod
    def of(cls, metric: Mapping[str, Any]) -> StepFacts:
        """From a line of a trainer's metrics, of kind `step`."""
        known = {field.name: _finite(metric.get(field.name)) for field in fields(cls) if field.name != "step"}
        return cls(step=int(metric["step"]), **known)


@dataclass(frozen=True, slots=True, kw_only=True)
class CollapseWarning:
    """A sign that stands at step `seen`."""

    sign: Sign
    began: int
    """The first step of what led here."""
    seen: int
    was: float
    """Before it began."""
    now: float

    @property
    def told(self) -> str:
        """In words: what, since when, and what to do."""
        moved = "fell" if self.now < self.was else "rose"
        return f"{self.sign} {moved} from {self.was:.3g} to {self.now:.3g} since step {self.began}; {ADVICE[self.sign]}"


def standing(history: Sequence[StepFacts]) -> tuple[CollapseWarning, ...]:
    """The signs that stand at the last step of `history`, which is in the order of steps."""
    history = history[-SEEN_STEPS:]
    found = []
    for sign, find in _DETECTORS.items():
        onset = find(history)
        if onset is not None:
            began, was, now = onset
            found.append(CollapseWarning(sign=sign, began=began, seen=history[-1].step, was=was, now=now))
    return tuple(found)


def collapsing(warnings: Sequence[CollapseWarning]) -> bool:
    """Whether what stands is enough to stop a run: the reward itself falls, or two signs agree.

    Answers that run into their limit alone, or beside one other sign, are a setting to change and not a collapse.
    """
    signs = {warning.sign for warning in warnings} - {Sign.LENGTH}
    return Sign.REWARD in signs or len(signs) > 1


Onset = tuple[int, float, float]
"""The step where it began, the value then, the value now."""


def _gradient(history: Sequence[StepFacts]) -> Onset | None:
    """Doubled in a window by a sure trend while the reward does not rise; or six times what it was, in any case."""
    steps, values = _series(history, "grad_norm", above=0.0)
    if len(values) < 2 * WIDTH:
        return None
    curve = _smooth(np.log(values))
    usual = float(np.median(curve[:-WIDTH][-WINDOWS[1] :]))
    if min(np.log(values[-2:])) > usual + math.log(JUMP) or curve[-1] > usual + math.log(JUMP):
        return _exp(_onset(steps, np.log(values), usual))
    for window in WINDOWS:
        logs = np.log(values[-window:])
        if len(logs) < WINDOWS[0] or _trend(logs) < SURE or _rises(history[-max(WINDOWS[0], window // 2) :]):
            continue
        grown = _slope(logs) * (len(logs) - 1)
        if grown > math.log(GROWN):
            return _exp(_onset(steps[-window:], logs, float(logs.mean()) - grown / 2))
    return None


def _clipping(history: Sequence[StepFacts]) -> Onset | None:
    """Three times what it was, and so many that the bound shapes the update."""
    steps, values = _series(history, "clip_ratio")
    return _grown(steps, values, times=3.0, least=CLIPPED)


def _behaviour(history: Sequence[StepFacts]) -> Onset | None:
    steps, values = _series(history, "kl_behaviour")
    return _grown(steps, values, times=5.0, least=APART_NATS)


def _reference(history: Sequence[StepFacts]) -> Onset | None:
    """A policy that learns leaves its reference; it counts while the reward does not rise."""
    steps, values = _series(history, "kl_reference")
    if _rises(history[-WINDOWS[0] :]):
        return None
    return _grown(steps, values, times=3.0, least=FAR_NATS)


def _entropy(history: Sequence[StepFacts]) -> Onset | None:
    """It fell, and has risen again by most of what was left, while the reward did not rise."""
    steps, values = _series(history, "entropy")
    if len(values) < 2 * WIDTH:
        return None
    curve = _smooth(values)
    low = int(np.argmin(curve))
    fell, rose = float(curve[: low + 1].max() - curve[low]), float(curve[-1] - curve[low])
    noise = 4 * _noise(values[: low + 1 + WIDTH]) / math.sqrt(WIDTH)
    if fell < max(noise, FELL * float(curve[: low + 1].max())) or rose < max(noise, ROSE * float(curve[low])):
        return None
    since = [facts for facts in history if facts.step >= steps[low] - WIDTH]
    return None if _rises(since) else _onset(steps[low:], values[low:], float(curve[low]))


def _reward(history: Sequence[StepFacts]) -> Onset | None:
    """Twice in a row well below its best, by more than batches differ."""
    steps, values = _series(history, "reward")
    if len(values) < WIDTH + 2:
        return None
    best, now = float(_smooth(values)[WIDTH - 1 :].max()), float(values[-2:].max())
    if now > (1 - LOST) * best or best - now < 4 * _noise(values):
        return None
    return _onset(steps, values, best)


def _length(history: Sequence[StepFacts]) -> Onset | None:
    """Half of the answers are cut, a quarter more than there were."""
    steps, values = _series(history, "limit_share")
    if len(values) < WIDTH:
        return None
    curve = _smooth(values)
    low = float(curve.min())
    if curve[-1] < CUT_SHARE or curve[-1] < low + CUT_SHARE / 2:
        return None
    at = int(np.argmin(curve))
    return _onset(steps[at:], values[at:], low)


_DETECTORS = {
    Sign.GRADIENT: _gradient,
    Sign.CLIPPING: _clipping,
    Sign.ENTROPY: _entropy,
    Sign.BEHAVIOUR: _behaviour,
    Sign.REFERENCE: _reference,
    Sign.REWARD: _reward,
    Sign.LENGTH: _length,
}
# Bounds: beyond what 25 sane runs of the tiny model showed (tests/vectors/collapse-runs.jsonl).
GROWN, JUMP = 2.0, 6.0
"""Growth of the gradient norm: in a window, and at once."""
CLIPPED = 0.15
"""Share of clipped tokens."""
APART_NATS, FAR_NATS = 0.5, 0.5
"""KL divergence a token, to the workers' policy and to the reference."""
FELL, ROSE = 0.1, 0.75
"""Share of its height that entropy must have lost before a rise means anything; share of its low that it rose by."""
LOST = 0.3
"""Share of the best reward."""
CUT_SHARE = 0.5
"""Share of answers as long as is allowed."""


def _grown(steps: list[int], values: np.ndarray, *, times: float, least: float) -> Onset | None:
    """Twice in the last WIDTH steps above `least` and above `times` its usual value, and the last time just now."""
    if len(values) <= WIDTH:
        return None
    usual = float(np.median(values[:-WIDTH][-WINDOWS[1] :]))
    bound = max(least, times * usual)
    beyond = values[-WIDTH:] > bound
    if beyond.sum() < 2 or not beyond[-2:].any():
        return None
    first = len(values) - WIDTH + int(np.argmax(beyond))
    return steps[first], usual, float(np.median(values[-WIDTH:][beyond]))


def _onset(steps: list[int], values: np.ndarray, was: float) -> Onset:
    """Where the way from `was` to the last values began: behind the last step that had gone less than a quarter."""
    now = float(np.median(values[-2:]))
    gone = (values - was) * (1 if now >= was else -1)
    before = np.flatnonzero(gone < abs(now - was) / 4)
    first = min(int(before[-1]) + 1, len(steps) - 1) if len(before) else 0
    return steps[first], was, now


def _exp(onset: Onset) -> Onset:
    return onset[0], math.exp(onset[1]), math.exp(onset[2])


def _rises(history: Sequence[StepFacts]) -> bool:
    """Whether the reward grows: by a trend, and by twice what batches differ by."""
    _, values = _series(history, "reward")
    if len(values) < WIDTH:
        return False
    grown = _slope(values) * (len(values) - 1)
    return _trend(values) > 1.0 and grown > 2 * _noise(values)


def _series(history: Sequence[StepFacts], name: str, *, above: float = -math.inf) -> tuple[list[int], np.ndarray]:
    """Steps and values where there is one."""
    pairs = [(facts.step, value) for facts in history if (value := getattr(facts, name)) is not None and value > above]
    return [step for step, _ in pairs], np.array([value for _, value in pairs], dtype=np.float64)


def _smooth(values: np.ndarray) -> np.ndarray:
    """Median of the last WIDTH values, fewer at the beginning."""
    if len(values) < WIDTH:
        return np.array([np.median(values[: end + 1]) for end in range(len(values))])
    begun = [np.median(values[: end + 1]) for end in range(WIDTH - 1)]
    return np.concatenate([begun, np.median(np.lib.stride_tricks.sliding_window_view(values, WIDTH), axis=1)])


def _noise(values: np.ndarray) -> float:
    """Standard deviation of a value about its curve, from the median difference of neighbours; 0 of fewer than two."""
    if len(values) < 2:
        return 0.0
    return float(1.4826 * np.median(np.abs(np.diff(values))) / math.sqrt(2))


def _slope(values: np.ndarray) -> float:
    """Theil and Sen's: the median slope of all pairs, which a few wild values cannot move."""
    first, second = np.triu_indices(len(values), 1)
    return float(np.median((values[second] - values[first]) / (second - first)))


def _trend(values: np.ndarray) -> float:
    """Mann and Kendall's standard score of a monotonic trend, whatever the values' distribution."""
    first, second = np.triu_indices(len(values), 1)
    n = len(values)
    score = float(np.sign(values[second] - values[first]).sum())
    return score / math.sqrt(n * (n - 1) * (2 * n + 5) / 18)


def _finite(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else None
