"""Chances that are too small to be counted: what lies beyond the largest honest value ever seen. Pure.

Exceedances over a high threshold follow a generalised Pareto law whatever the values' own law (Pickands 1975). It is
fitted by probability-weighted moments (Hosking and Wallis 1987), a closed form that cannot fail to converge, to about
as many of the largest values as the root of their number. The shape of so few is uncertain by 1.15 / sqrt(count), their
formula at 0: it is taken as 0, an exponential tail, unless it is larger by twice that. A shape below 0, which claims
that values have an end and chances are exactly 0, is never believed. Values that are all equal up there (no error at
all, as float32 often has) show no spread that could be extrapolated: nothing is expected beyond them.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, log, sqrt

import numpy as np

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


def fit_tail(values: np.ndarray, step: float = 0.0) -> Tail:
    """The tail of independent values, float [count]. Raises ValueError if they are too few.

    Args:
        step: between neighbouring values where they are counts; each stands for all up to half a step around it.
    """
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    wanted = max(LEAST, round(2 * sqrt(len(ordered))))
    if len(ordered) <= wanted:
        raise ValueError(f"{len(ordered)} values are too few to fit a tail to {wanted} of them")
    threshold = float(ordered[-wanted - 1])
    excess = ordered[ordered > threshold] - threshold  # fewer than wanted where values are equal, as counts are
    excess, threshold = excess - step / 2, threshold + step / 2
    count = len(excess)
    if count < 2:
        return Tail(threshold=threshold, share=wanted / len(ordered), scale=0.0, shape=0.0)
    weights = (count - np.arange(1, count + 1)) / (count - 1)
    first, second = float(excess.mean()), float((weights * excess).mean())
    share = count / len(ordered)
    # With first = scale / (1 - shape) and second = scale / (2 (2 - shape)):
    spread = first - 2.0 * second
    shape = 2.0 - first / spread if spread > 0.0 else 0.0  # no spread: all exceed the threshold by as much
    if shape <= 2 * 1.15 / sqrt(count):
        return Tail(threshold=threshold, share=share, scale=first, shape=0.0)
    scale = 2.0 * first * second / spread
    return Tail(threshold=threshold, share=share, scale=scale, shape=shape)


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
