"""What chance may do to honest samples, and what it may not."""

from __future__ import annotations

from math import exp, log

import numpy as np
import pytest
import torch

from rl.seeded import Sampling
from verify.chance import FALSE_ALARM
from verify.head import read
from verify.policy import Prefilled
from verify.sampled import check_distribution, surprise


def seen_through(logits: torch.Tensor, tokens: torch.Tensor) -> Prefilled:
    reading = read(logits, tokens, eos_token_id=0, sampling=Sampling(), keys=None, positions=range(len(tokens)))
    return Prefilled(
        states=np.zeros((len(tokens), 1), np.uint16), logprobs=reading.logprobs, eos_probs=reading.eos_probs,
        spread=reading.spread,
    )  # fmt: skip


def some_logits(seed: int, tokens: int, scale: float) -> torch.Tensor:
    return scale * torch.randn(tokens, 60, generator=torch.Generator().manual_seed(seed))


def drawn(logits: torch.Tensor, seed: int, temperature: float = 1.0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.multinomial((logits / temperature).softmax(-1), 1, generator=generator)[:, 0]


@pytest.mark.parametrize("scale", [1.0, 4.0, 12.0], ids=["undecided", "usual", "confident"])
def test_the_bet_pays_on_average_no_more_than_one_to_honest_samples(scale: float) -> None:
    bets = []
    for seed in range(2000):
        logits = some_logits(seed, 6, scale)
        bets.append(surprise([seen_through(logits, drawn(logits, seed + 10**6))]).surprise_log)
    assert 0.7 < np.mean([exp(bet) for bet in bets]) < 1.05
    assert max(bets) < -log(FALSE_ALARM) / 2


def test_one_very_rare_token_of_a_confident_policy_is_luck_however_large_z() -> None:
    logits = torch.full((20, 60), -20.0)
    logits[:, 5] = 0.0
    logits[3, 9] = -9.0
    tokens = torch.full((20,), 5)
    tokens[3] = 9
    seen = surprise([seen_through(logits, tokens)])
    assert seen.surprise_z > 50
    assert seen.rare_tokens == 1
    assert check_distribution(seen) is None


@pytest.mark.parametrize("temperature", [0.6, 1.6])
def test_another_temperature(temperature: float) -> None:
    logits = some_logits(1, 600, 3.0)
    seen = surprise([seen_through(logits, drawn(logits, 2, temperature))])
    assert (seen.surprise_z > 0) == (temperature > 1)
    rejection = check_distribution(seen)
    assert rejection is not None
    assert rejection.code == "distribution"
    assert check_distribution(surprise([seen_through(logits, drawn(logits, 2))])) is None


def test_a_small_models_tokens_have_a_second_mode() -> None:
    logits = some_logits(1, 300, 4.0)
    small = logits + some_logits(2, 300, 4.0)
    rejection = check_distribution(surprise([seen_through(logits, drawn(small, 3))]))
    assert rejection is not None
    assert "p below 0.001" in rejection.detail


def test_numbers_that_are_none_are_never_luck() -> None:
    logits = some_logits(1, 10, 4.0)
    seen = seen_through(logits, drawn(logits, 2))
    seen.logprobs[3] = float("nan")
    assert check_distribution(surprise([seen])) is not None
