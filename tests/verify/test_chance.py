from __future__ import annotations

from math import log

import numpy as np

from verify.chance import FALSE_ALARM, is_luck, log_surprise


def test_nothing_seen_is_never_a_surprise() -> None:
    assert is_luck(0, 0.0)
    assert is_luck(0, 1e9)


def test_one_impossible_event_is_still_luck() -> None:
    assert is_luck(1, 0.0)
    assert is_luck(2, 0.0)


def test_many_events_where_few_were_due_are_not() -> None:
    assert not is_luck(16, 0.1)
    assert not is_luck(200, 60.0)


def test_as_many_as_were_due_is_luck_at_every_scale() -> None:
    for due in (0.1, 1.0, 30.0, 1000.0):
        assert is_luck(round(due + 4 * due**0.5), due)


def test_the_mean_over_honest_samplers_is_at_most_one() -> None:
    rng = np.random.default_rng(0)
    probabilities = rng.uniform(0, 0.1, (4000, 50))
    seen = (rng.random(probabilities.shape) < probabilities).sum(1)
    surprises = [log_surprise(int(n), float(due)) for n, due in zip(seen, probabilities.sum(1), strict=True)]
    assert np.exp(surprises).mean() <= 1.0
    assert max(surprises) < -log(FALSE_ALARM) / 2
