"""Seeded sampling: exact in distribution, recomputable by anybody, and honest about how far another token is away.

All noise follows from fixed keys, so each statistic below is one number, not a gamble; bounds are those of the
chi-square distribution at one in 10^4.
"""

from __future__ import annotations

import hashlib
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rl.seeded import KEY_BYTES, SLACK, Sampling, choose, completion_key, gumbel, margins

DRAWS = 4096
KEYS = [completion_key(bytes(KEY_BYTES), group, 0) for group in range(DRAWS)]
FOUR_SIGMA = 3.72
"""Normal quantile of 1 - 10^-4."""


def random_logits(vocabulary: int, *, spread: float = 1.5, rows: int = 1, seed: int = 0) -> torch.Tensor:
    return torch.randn(rows, vocabulary, generator=torch.Generator().manual_seed(seed)) * spread


def chi_square_bound(freedom: int) -> float:
    """Wilson and Hilferty's approximation of the quantile."""
    return freedom * (1 - 2 / (9 * freedom) + FOUR_SIGMA * math.sqrt(2 / (9 * freedom))) ** 3


def assert_drawn_from(counts: np.ndarray, expected: np.ndarray) -> None:
    """Chi-square over cells; those expected fewer than 8 times are counted as one."""
    assert counts.sum() == pytest.approx(expected.sum())
    assert (counts[expected == 0] == 0).all()
    rare = expected < 8
    seen, wanted = ([*cells[~rare], cells[rare].sum()] for cells in (counts, expected))
    cells = [(s, w) for s, w in zip(seen, wanted, strict=True) if w > 0]
    assert sum((s - w) ** 2 / w for s, w in cells) < chi_square_bound(max(1, len(cells) - 1))


def draw(logits: torch.Tensor, sampling: Sampling, *, position: int = 0) -> np.ndarray:
    """How often each token was drawn in DRAWS draws from one row."""
    tokens = [
        token
        for start in range(0, DRAWS, 256)
        for token in choose(logits.expand(256, -1), KEYS[start : start + 256], [position] * 256, sampling)[0]
    ]
    return np.bincount(tokens, minlength=logits.shape[-1])


def log_distribution(logits: torch.Tensor, sampling: Sampling) -> torch.Tensor:
    """The rule by hand, one row after the other, in float64: natural logs [rows, vocabulary]."""
    scaled = logits.double() / sampling.temperature
    for row in scaled:
        if sampling.top_k:
            row[row < row.sort(descending=True).values[min(sampling.top_k, len(row)) - 1]] = -torch.inf
        ordered = row.softmax(-1).sort(descending=True)
        together = 0.0
        for chance, token in zip(ordered.values.tolist(), ordered.indices.tolist(), strict=True):
            if together >= sampling.top_p:
                row[token] = -torch.inf
            together += chance
    return scaled.log_softmax(-1)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 1.7])
@pytest.mark.parametrize("vocabulary", [2, 3, 98, 100, 1003])
def test_draws_follow_the_softmax(vocabulary: int, temperature: float) -> None:
    logits, sampling = random_logits(vocabulary), Sampling(temperature=temperature)
    expected = DRAWS * log_distribution(logits, sampling).exp()[0].numpy()
    assert_drawn_from(draw(logits, sampling), expected)


def test_draws_follow_the_softmax_of_a_whole_vocabulary() -> None:
    logits = torch.full((1, 49152), -30.0)
    likely = torch.randperm(49152, generator=torch.Generator().manual_seed(3))[:60]
    logits[0, likely] = random_logits(60)[0]
    expected = DRAWS * logits.double().softmax(-1)[0].numpy()
    assert_drawn_from(draw(logits, Sampling()), np.where(expected < 1e-6, 0.0, expected))


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(top_k=1),
        Sampling(top_k=7),
        Sampling(top_p=0.6, temperature=1.3),
        Sampling(top_k=12, top_p=0.8, temperature=0.7),
        Sampling(top_k=98, top_p=0.999),
        Sampling(top_k=5000),
    ],
    ids=str,
)
def test_draws_keep_to_the_cut_and_share_out_what_is_left(sampling: Sampling) -> None:
    logits = random_logits(98, spread=2.0)
    expected = log_distribution(logits, sampling).exp()[0].numpy()
    assert_drawn_from(draw(logits, sampling), DRAWS * expected)


@pytest.mark.parametrize("rows", [1, 8, 19])
@pytest.mark.parametrize(
    "sampling",
    [Sampling(), Sampling(temperature=0.6), Sampling(top_k=40), Sampling(top_p=0.95), Sampling(top_k=9, top_p=0.5)],
    ids=str,
)
def test_logprobs_are_those_of_the_distribution_that_is_drawn_from(sampling: Sampling, rows: int) -> None:
    logits = random_logits(3000, spread=3.0, rows=rows)
    tokens, logprobs = choose(logits, KEYS[:rows], range(rows), sampling)
    expected = log_distribution(logits, sampling).gather(-1, torch.tensor(tokens)[:, None])[:, 0]
    np.testing.assert_allclose(logprobs, expected, atol=2e-5)


def test_a_nucleus_of_more_tokens_than_are_sorted_first_is_found() -> None:
    flat, peaked = torch.zeros(1, 5000), random_logits(5000, spread=4.0)
    flat[0, :100] = -0.5  # whom the likeliest 90 % leave out
    logits, sampling = torch.cat([flat, peaked]), Sampling(top_p=0.5)
    tokens, logprobs = choose(logits, KEYS[:2], [0, 0], sampling)
    expected = log_distribution(peaked, sampling)[0, tokens[1]]
    assert tokens[0] >= 100
    assert logprobs[1] == pytest.approx(float(expected), abs=1e-5)
    # Tokens that tie with the last one pass with it: which of them would be in doubt otherwise.
    assert logprobs[0] == pytest.approx(-math.log(4900), abs=1e-5)


def brute_force_margins(logits: torch.Tensor, keys: list[bytes], sampling: Sampling) -> np.ndarray:
    """float64 [rows, vocabulary]: what each token would have lost, from the definition of both heats."""
    vocabulary = logits.shape[-1]
    width = math.isqrt(vocabulary - 1) + 1
    starts = range(0, vocabulary, width)
    lost = np.empty(logits.shape)
    for row, key in enumerate(keys):
        scaled = logits[row].double().numpy() / sampling.temperature
        noise = gumbel([key], [row], len(starts) + width)[0]
        parts = [scaled[start : start + width] for start in starts]
        blocks = np.array([np.log(np.exp(part).sum()) for part in parts]) + noise[: len(starts)]
        for number, (start, part) in enumerate(zip(starts, parts, strict=True)):
            members = part + noise[len(starts) :][: len(part)]
            lost[row, start : start + width] = blocks.max() - blocks[number] + members.max() - members
    return lost * sampling.temperature


@given(vocabulary=st.integers(2, 130), temperature=st.floats(0.3, 2.0), seed=st.integers(0, 2**31))
@settings(max_examples=40, deadline=None)
def test_margins_are_what_each_token_lost_by_in_both_heats(vocabulary: int, temperature: float, seed: int) -> None:
    sampling, rows = Sampling(temperature=temperature), 3
    logits = random_logits(vocabulary, rows=rows, seed=seed)
    keys = [completion_key(seed.to_bytes(KEY_BYTES, "big"), row, 1) for row in range(rows)]
    chosen, _ = choose(logits, keys, range(rows), sampling)
    expected = brute_force_margins(logits, keys, sampling)
    assert chosen == expected.argmin(-1).tolist()
    seen = np.stack(
        [margins(logits, torch.full((rows,), token), keys, range(rows), sampling) for token in range(vocabulary)], 1
    )
    np.testing.assert_allclose(seen, expected, atol=2e-4)
    assert (seen[range(rows), chosen] == 0).all()
    seen[range(rows), chosen] = np.inf
    assert (seen > 0).all()


@given(
    top_k=st.integers(0, 60),
    top_p=st.floats(0.05, 1.0),
    temperature=st.floats(0.3, 2.0),
    noise=st.floats(0.0, 0.2),
    seed=st.integers(0, 2**31),
)
@settings(max_examples=60, deadline=None)
def test_honest_tokens_lose_little_whatever_the_cut_and_the_numeric_noise(
    top_k: int, top_p: float, temperature: float, noise: float, seed: int
) -> None:
    sampling, rows = Sampling(temperature=temperature, top_k=top_k, top_p=top_p), 6
    theirs = random_logits(60, spread=2.0, rows=rows, seed=seed)
    change = torch.rand(theirs.shape, generator=torch.Generator().manual_seed(seed)) * 2 - 1
    ours = theirs + noise * change
    tokens, _ = choose(theirs, KEYS[:rows], range(rows), sampling)
    lost = margins(ours, torch.tensor(tokens), KEYS[:rows], range(rows), sampling)
    # Each of four terms (own and best rival, in two heats) moves by no more than the noise.
    assert lost.max() <= 4 * noise + 1e-4


@pytest.mark.parametrize("sampling", [Sampling(top_k=10), Sampling(top_p=0.7, temperature=0.7)], ids=str)
def test_a_token_beyond_the_cut_loses_by_what_it_lacks(sampling: Sampling) -> None:
    logits = random_logits(60, spread=2.0).expand(60, -1)
    lost = margins(logits, torch.arange(60), KEYS[:1] * 60, [0] * 60, sampling)
    kept = torch.isfinite(log_distribution(logits[:1], sampling))[0]
    least = logits[0][kept].min()
    near = (logits[0] >= least - SLACK) & ~kept
    far = logits[0] < least - SLACK
    assert near.any()
    assert far.any()
    assert (torch.from_numpy(lost)[far] >= (least - SLACK - logits[0])[far] - 1e-4).all()
    chosen, _ = choose(logits[:1], KEYS[:1], [0], sampling)
    assert lost[chosen[0]] == 0


def test_a_choice_does_not_depend_on_its_batch() -> None:
    logits = random_logits(1003, rows=21)
    together = choose(logits, KEYS[:21], range(21), Sampling(temperature=0.9))
    alone = [choose(logits[row : row + 1], KEYS[row : row + 1], [row], Sampling(temperature=0.9)) for row in range(21)]
    assert together[0] == [token for tokens, _ in alone for token in tokens]
    np.testing.assert_allclose(together[1], [chance for _, chances in alone for chance in chances], atol=1e-6)


def test_logits_in_bfloat16_are_read_as_they_are() -> None:
    logits = random_logits(1003, rows=9).to(torch.bfloat16)
    assert choose(logits, KEYS[:9], range(9), Sampling()) == choose(logits.float(), KEYS[:9], range(9), Sampling())


def test_noise_is_standard_gumbel() -> None:
    noise = np.sort(gumbel(KEYS, [7] * DRAWS, 64).ravel())
    # Kolmogorov and Smirnov's distance, at one in 10^4.
    ranks = (np.arange(noise.size) + 0.5) / noise.size
    assert np.abs(np.exp(-np.exp(-noise)) - ranks).max() < 2.23 / math.sqrt(noise.size)
    assert np.isfinite(noise).all()


def test_neighbouring_keys_positions_and_numbers_are_not_correlated() -> None:
    count = 4096
    one = gumbel(KEYS[:1], [0], count)[0]
    draws = [
        gumbel([completion_key(bytes(KEY_BYTES), 0, 1)], [0], count)[0],
        gumbel(KEYS[1:2], [0], count)[0],
        gumbel(KEYS[:1], [1], count)[0],
        gumbel([completion_key(bytes(31) + b"\1", 0, 0)], [0], count)[0],
        np.roll(one, 1),
        np.roll(one, 98),
    ]
    for other in draws:
        assert abs(np.corrcoef(one, other)[0, 1]) < FOUR_SIGMA / math.sqrt(count)
    by_position = np.array([gumbel(KEYS[:1], [position], 1)[0, 0] for position in range(count)])
    assert abs(np.corrcoef(by_position[1:], by_position[:-1])[0, 1]) < FOUR_SIGMA / math.sqrt(count)


def test_the_noise_of_one_place_for_whoever_implements_it_again() -> None:
    key = completion_key(bytes(range(32)), 3, 5)
    assert key.hex() == "ca23f1a3c2e900cab3dfc548ab383ea8af2ce28abc2298b8e2a17e8e60b29bd6"
    stream = hashlib.shake_128(key + (7).to_bytes(8, "big")).digest(16)
    assert stream.hex() == "b1f80ae93cb781e6999148b6f963c74c"
    np.testing.assert_allclose(
        gumbel([key], [7], 4)[0],
        [2.3649385780807095, 2.254771542573973, 1.0799443271082876, -0.18585529101826592],
        rtol=1e-12,
    )
    # Row of 10 logits, blocks of 4: three block numbers, then four for the members.
    tokens, logprobs = choose(torch.arange(10.0)[None] / 4, [key], [7], Sampling())
    assert (tokens, logprobs) == ([7], [pytest.approx(-1.923041066, abs=1e-6)])


def test_a_draw_seed_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="32 bytes, not 31"):
        completion_key(bytes(31), 0, 0)
    with pytest.raises(ValueError, match="shorter"):
        gumbel(KEYS[:2], [0], 4)
