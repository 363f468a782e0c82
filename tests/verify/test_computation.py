"""Margins and log-probabilities: what honest arithmetic does to them, and how far a cheat may hide in that."""

from __future__ import annotations

import numpy as np
import pytest

from rl.rollouts import Rollout
from tests.verify.test_copies import answer
from verify.computation import check_logprobs, check_sampling, choices, logprob_gaps
from verify.policy import Prefilled
from verify.rejection import Rejection
from verify.thresholds import MEASURED, Thresholds, thresholds_for

BOUNDS = Thresholds()


def margins_found(margins: list[np.ndarray]) -> Rejection | None:
    rollouts = [answer((1,) * len(one), n) for n, one in enumerate(margins)]
    prefilled = [
        Prefilled(
            states=np.zeros((len(one), 1), np.uint16), logprobs=np.zeros(len(one)), eos_probs=np.zeros(len(one)),
            margins=one.astype(np.float32),
        )
        for one in margins
    ]  # fmt: skip
    return check_sampling(rollouts, choices(prefilled, BOUNDS), BOUNDS)


def honest_margins(rng: np.random.Generator, sequences: int, tokens: int) -> list[np.ndarray]:
    """2.55 % of the tokens are not the forced ones, by 0.15 logits on average, 0.8 at most (`verify.thresholds`)."""
    size = (sequences, tokens)
    return list(np.where(rng.random(size) < 0.0255, np.minimum(rng.exponential(0.15, size), 0.8), 0.0))


@pytest.mark.parametrize("tokens", [1, 2, 10, 100, 2000])
def test_honest_margins_pass_at_every_length(tokens: int) -> None:
    rng = np.random.default_rng(tokens)
    for _ in range(20):
        assert margins_found(honest_margins(rng, 32, tokens)) is None


def test_the_worst_honest_token_seen_passes_alone_and_twice() -> None:
    assert margins_found([np.array([0.8])]) is None
    assert margins_found([np.array([0.8, 0.8])]) is None


def test_one_token_that_lost_clearly_is_enough() -> None:
    rejection = margins_found([np.zeros(50), np.array([0.0, 1.51, 0.0])])
    assert rejection is not None
    assert rejection.detail == "group 0, sample 1: a token is 1.51, more than 1.5 logits behind the forced token"


def test_a_completion_that_is_off_by_a_little_throughout() -> None:
    rejection = margins_found([np.zeros(100), np.full(100, 0.2)])
    assert rejection is not None
    assert rejection.detail.startswith("group 0, sample 1: 100 tokens are on average 0.2")


def test_a_submission_that_is_off_by_less_than_any_completion_shows() -> None:
    margins = [np.where(np.arange(30) % 15 == 0, 0.9, 0.0)] * 64
    rejection = margins_found(margins)
    assert rejection is not None
    assert rejection.detail.startswith("1920 tokens are on average 0.06")


def test_many_small_mismatches_are_counted() -> None:
    margins = [np.where(np.arange(100) % 8 == 0, 0.01, 0.0)] * 20
    rejection = margins_found(margins)
    assert rejection is not None
    assert rejection.detail == "260 of 2000 tokens are not the forced ones, at most 70 were due"


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_margins_that_are_no_numbers(value: float) -> None:
    assert margins_found([np.array([0.0, value])]) is not None


def logprobs_found(reported: np.ndarray, own: np.ndarray) -> Rejection | None:
    rollout: Rollout = answer((1,) * len(own))
    rollout = Rollout(**{f: getattr(rollout, f) for f in rollout.__slots__} | {"logprobs": tuple(reported.tolist())})
    seen = Prefilled(
        states=np.zeros((len(own), 1), np.uint16), logprobs=own.astype(np.float32), eos_probs=np.zeros(len(own))
    )
    return check_logprobs([rollout], logprob_gaps([rollout], [seen], BOUNDS), BOUNDS)


def test_reported_log_probabilities() -> None:
    rng = np.random.default_rng(0)
    own = -rng.exponential(1.0, 300)
    assert logprobs_found(own + rng.normal(0, 0.05, 300), own) is None
    for wrong in (np.zeros(300), own - 0.5, own / 2, -rng.exponential(1.0, 300)):
        rejection = logprobs_found(wrong, own)
        assert rejection is not None
        assert rejection.code == "logprobs"
    one = own.copy()
    one[7] -= 2.5
    assert logprobs_found(one, own) is not None


def test_every_pair_of_arithmetics_has_bounds_and_an_open_choice_the_loosest() -> None:
    assert set(MEASURED) == {(a, b) for a in ("bfloat16", "float32") for b in ("bfloat16", "float32")}
    for prefill in ("bfloat16", "float32"):
        pairs = [thresholds_for(decode, prefill) for decode in ("bfloat16", "float32")]
        loosest = thresholds_for("auto", prefill)
        for name in Thresholds.__dataclass_fields__:
            assert getattr(loosest, name) == max(getattr(one, name) for one in pairs)
    with pytest.raises(KeyError):
        thresholds_for("int8", "float32")
