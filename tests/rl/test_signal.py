"""When nothing teaches anything any more it is said, why, and not at every submission."""

from __future__ import annotations

from collections import Counter

import pytest

from rl.signal import PATIENCE, Hint, Signal


def seen(signal: Signal, times: int, *groups: tuple[float, ...], dropped: str = "") -> list[Hint]:
    hints = [signal.see(groups, Counter([dropped] if dropped else [])) for _ in range(times)]
    return [hint for hint in hints if hint is not None]


@pytest.mark.parametrize(
    ("groups", "dropped", "cause", "says"),
    [
        ([(0.0, 0.0), (0.0, 0.0)], "", "too-hard", "12.5 to 50 %"),
        ([(-0.5, -0.5)], "", "too-hard", "task.max_new_tokens"),
        ([(1.0, 1.0), (1.0, 1.0)], "", "too-easy", "end the run"),
        ([(1.0, 1.0), (0.0, 0.0)], "", "always-or-never", "rl.group_size"),
        ([], "stale", "unusable", f"{PATIENCE} stale"),
    ],
)
def test_it_says_why_and_what_to_do(groups: list[tuple[float, ...]], dropped: str, cause: str, says: str) -> None:
    signal = Signal()
    assert seen(signal, PATIENCE - 1, *groups, dropped=dropped) == []
    (hint,) = seen(signal, 1, *groups, dropped=dropped)
    assert (hint.cause, hint.submissions) == (cause, PATIENCE)
    assert hint.rollouts == PATIENCE * sum(map(len, groups))
    assert says in hint.text
    assert str(PATIENCE) in hint.text


def test_it_speaks_again_after_twice_as_many() -> None:
    hints = seen(Signal(), 4 * PATIENCE, (0.0, 0.0))
    assert [hint.submissions for hint in hints] == [PATIENCE, 2 * PATIENCE, 4 * PATIENCE]


def test_one_group_with_signal_begins_it_anew() -> None:
    signal = Signal()
    assert seen(signal, PATIENCE - 1, (0.0, 0.0)) == []
    assert seen(signal, 1, (0.0, 0.0), (0.0, 1.0)) == []
    assert seen(signal, PATIENCE - 1, (1.0, 1.0)) == []
    (hint,) = seen(signal, 1, (1.0, 1.0))
    assert hint.cause == "too-easy", "what was before counts no more"
