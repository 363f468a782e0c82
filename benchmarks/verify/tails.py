"""Chances that are too small to be counted: what lies beyond the largest honest value ever seen. Pure.

Exceedances over a high threshold follow a generalised Pareto law whatever the values' own law (Pickands 1975). It is
fitted by probability-weighted moments (Hosking and Wallis 1987), a closed form that cannot fail to converge. A fitted
shape below 0 claims an upper end of the values and hence chances of exactly 0; so small samples may not claim it, and
the shape is taken as 0 (an exponential tail) or more. Values that are all equal up there (no error at all, as float32
often has) show no spread that could be extrapolated: nothing is expected beyond them.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, log

import numpy as np

SHARE = 0.1
"""Of the values, that the tail is fitted to."""
LEAST = 20
"""Values that a fit needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """P(value > x) = share * (1 + shape * (x - threshold) / scale) ** (-1 / shape) beyond the threshold."""

    threshold: float
    share: float
    scale: float
    shape: float

    def beyond(self, value: float) -> float:
        """Probability that one value exceeds `value`; the threshold's own where it lies below that."""
        if value <= self.threshold:
            return self.share
        if self.scale == 0.0:
            return 0.0
        excess = (value - self.threshold) / self.scale
        if self.shape == 0.0:
            return self.share * exp(-excess)
        return self.share * exp(-log(1.0 + self.shape * excess) / self.shape)


def fit_tail(values: np.ndarray, share: float = SHARE) -> Tail:
    """The tail of independent values, float [count]. Raises ValueError if they are too few."""
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    count = max(LEAST, round(share * len(ordered)))
    if len(ordered) <= count:
        raise ValueError(f"{len(ordered)} values are too few to fit a tail to {count} of them")
    threshold = float(ordered[-count - 1])
    excess = ordered[-count:] - threshold
    weights = (count - np.arange(1, count + 1)) / (count - 1)
    first, second = float(excess.mean()), float((weights * excess).mean())
    if first <= 0.0:
        return Tail(threshold=threshold, share=count / len(ordered), scale=0.0, shape=0.0)
    # With first = scale / (1 - shape) and second = scale / (2 (2 - shape)):
    shape = 2.0 - first / (first - 2.0 * second)
    if shape <= 0.0:
        return Tail(threshold=threshold, share=count / len(ordered), scale=first, shape=0.0)
    return Tail(
        threshold=threshold,
        share=count / len(ordered),
        scale=2.0 * first * second / (first - 2.0 * second),
        shape=shape,
    )


def area_under_curve(honest: np.ndarray, cheats: np.ndarray) -> float:
    """Probability that a cheat's value exceeds an honest one's, ties counted by half (Mann and Whitney)."""
    ordered = np.sort(honest)
    below = np.searchsorted(ordered, cheats, side="left")
    upto = np.searchsorted(ordered, cheats, side="right")
    return float((below + upto).mean() / 2.0 / len(ordered))


def curve(honest: np.ndarray, cheats: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Receiver operating characteristic: share of honest and of cheats that exceed each value, ascending."""
    bounds = np.unique(np.concatenate([honest, cheats]))[::-1]
    return (
        np.array([0.0, *((honest >= bound).mean() for bound in bounds)]),
        np.array([0.0, *((cheats >= bound).mean() for bound in bounds)]),
    )
