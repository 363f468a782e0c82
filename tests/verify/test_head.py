from __future__ import annotations

import numpy as np
import pytest
import torch

from rl.seeded import Sampling, choose, margins
from verify.head import join, read
from verify.policy import RARE

ROWS, VOCABULARY, EOS = 40, 97, 0


def positions_of(seed: int) -> tuple[torch.Tensor, torch.Tensor, list[bytes]]:
    generator = torch.Generator().manual_seed(seed)
    logits = 4 * torch.randn(ROWS, VOCABULARY, generator=generator)
    tokens = torch.randint(0, VOCABULARY, (ROWS,), generator=generator)
    return logits, tokens, [bytes([n % 256]) * 32 for n in range(ROWS)]


@pytest.mark.parametrize("temperature", [1.0, 0.6, 1.7])
def test_moments_are_those_of_the_distribution_summed_out(temperature: float) -> None:
    logits, tokens, _ = positions_of(1)
    sampling = Sampling(temperature=temperature)
    seen = read(logits, tokens, eos_token_id=EOS, sampling=sampling, keys=None, positions=range(ROWS))
    p = (logits.double() / temperature).softmax(-1).numpy()
    x = -np.log(p)
    entropies = (p * x).sum(-1)
    close = {"rtol": 1e-4, "atol": 1e-5}
    np.testing.assert_allclose(seen.logprobs, -x[np.arange(ROWS), tokens.numpy()], **close)
    np.testing.assert_allclose(seen.eos_probs, p[:, EOS], **close)
    np.testing.assert_allclose(seen.spread.entropies, entropies, **close)
    np.testing.assert_allclose(seen.spread.variances, (p * (x - entropies[:, None]) ** 2).sum(-1), rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(seen.spread.rare, np.where(p < RARE, p, 0).sum(-1), **close)
    np.testing.assert_allclose(seen.spread.up, np.log((p * np.exp(x / 2)).sum(-1)), **close)
    np.testing.assert_allclose(seen.spread.down, np.log((p * np.exp(-x / 2)).sum(-1)), **close)
    assert seen.margins is None


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(temperature=0.7), Sampling(top_k=9), Sampling(top_p=0.8)])
def test_seeded_positions_have_margins_and_the_log_probabilities_of_the_rule(sampling: Sampling) -> None:
    logits, _, keys = positions_of(2)
    forced, logprobs = choose(logits, keys, range(ROWS), sampling)
    seen = read(
        logits, torch.tensor(forced), eos_token_id=EOS, sampling=sampling, keys=keys, positions=range(ROWS)
    )  # fmt: skip
    np.testing.assert_allclose(seen.logprobs, logprobs, rtol=0, atol=1e-5)
    assert not seen.margins.any()
    other = torch.tensor(forced).roll(1)
    seen = read(logits, other, eos_token_id=EOS, sampling=sampling, keys=keys, positions=range(ROWS))
    np.testing.assert_array_equal(seen.margins, margins(logits, other, keys, range(ROWS), sampling))
    assert seen.spread is None


@pytest.mark.parametrize("seeded", [True, False])
def test_readings_are_joined_and_cut_without_loss(seeded: bool) -> None:
    logits, tokens, keys = positions_of(3)

    def reading(part: slice) -> object:
        return read(
            logits[part], tokens[part], eos_token_id=EOS, sampling=Sampling(), keys=keys[part] if seeded else None,
            positions=range(ROWS)[part],
        )  # fmt: skip

    whole = reading(slice(0, ROWS))
    joined = join([reading(slice(0, 7)), reading(slice(7, 8)), reading(slice(8, ROWS))])
    for one, other in ((whole, joined), (whole.part(slice(5, 9)), reading(slice(5, 9)))):
        np.testing.assert_allclose(one.logprobs, other.logprobs, rtol=1e-6)
        if seeded:
            np.testing.assert_allclose(one.margins, other.margins, rtol=1e-6)
        else:
            np.testing.assert_allclose(one.spread.up, other.spread.up, rtol=1e-5)
            np.testing.assert_allclose(one.spread.rare, other.spread.rare, rtol=1e-5)
