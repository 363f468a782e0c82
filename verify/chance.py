"""Could luck explain it? A test that punishes an honest sampler with a probability that can be written down.

While an honest worker samples, some kind of event (an improbable EOS, a completion that repeats an earlier one of its
group) has at each turn a probability that the model itself gives. Let `seen` be how many events happened and
`expected` the sum of those probabilities over every turn that was taken. For any t > 0, exp(t * seen - (e^t - 1) *
expected) has a mean of at most 1 when sampling is honest, however the turns depend on each other (it is a
supermartingale, Freedman 1975); so has the average over several t. By Markov's inequality that average exceeds 1/a
with probability at most a. Nobody is judged on a single improbable event: it raises the average to 70 at most.

It decides nothing about kinds of event, and knows nothing of models.
"""

from __future__ import annotations

from math import exp, log

FALSE_ALARM = 1e-9
"""Bound on the probability that one honest submission fails one such test."""
SLACK = 1.25
"""Factor on `expected` for the difference between the worker's bf16 and the validator's own arithmetic."""
_TILTS = (log(2), log(4), log(16), log(256))


def log_surprise(seen: int, expected: float) -> float:
    """Natural log of the averaged martingale; honest samplers exceed -log(a) with probability at most a."""
    terms = [tilt * seen - (exp(tilt) - 1.0) * expected * SLACK for tilt in _TILTS]
    top = max(terms)
    return top + log(sum(exp(term - top) for term in terms) / len(terms))


def is_luck(seen: int, expected: float) -> bool:
    """Whether chance may explain `seen` events where `expected` were due."""
    return log_surprise(seen, expected) <= -log(FALSE_ALARM)
