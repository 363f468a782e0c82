"""Statistics by blocks of the vocabulary are those of whole logits, with their gradients, at any size of block."""

from __future__ import annotations

import math

import pytest
import torch

from rl import head
from rl.head import token_statistics

VOCABULARY, HIDDEN = 300, 24


def plain(
    hidden: torch.Tensor, weight: torch.Tensor, targets: torch.Tensor, temperature: float
) -> tuple[torch.Tensor, torch.Tensor]:
    logs = ((hidden @ weight.T) / temperature).log_softmax(-1)
    return logs.gather(-1, targets[:, None])[:, 0], -(logs.exp() * logs).sum(-1)


def drawn(tokens: int, seed: int, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, ...]:
    """Hidden states, weight, targets, and a weight of each token's log-prob and entropy in the loss.

    Logits are of the order of 2: of larger ones float32 itself, before any softmax, is wrong by more than 1e-6.
    """
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.randn(tokens, HIDDEN, generator=generator, dtype=torch.float64)
    weight = 0.4 * torch.randn(VOCABULARY, HIDDEN, generator=generator, dtype=torch.float64)
    targets = torch.randint(0, VOCABULARY, (tokens,), generator=generator)
    by = torch.randn(2, tokens, generator=generator, dtype=torch.float64)
    return (
        hidden.to(dtype).requires_grad_(),
        weight.to(dtype).requires_grad_(),
        targets,
        by[0].to(dtype),
        by[1].to(dtype),
    )


def relative(value: torch.Tensor, wanted: torch.Tensor) -> float:
    return ((value.double() - wanted).norm() / wanted.norm()).item()


@pytest.mark.parametrize("block_bytes", [1, 4 * 7 * 100, 4 * 7 * 299, 4 * 7 * 300, 1 << 30])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_blocks_of_any_size_give_whole_logits_statistics_and_gradients(
    block_bytes: int, temperature: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(head, "MIN_COLUMNS", 3)
    hidden, weight, targets, by_logprob, by_entropy = drawn(7, seed=block_bytes % 97)
    wide = [tensor.detach().double().requires_grad_() for tensor in (hidden, weight)]
    wanted = plain(*wide, targets, temperature)
    (wanted[0] * by_logprob + wanted[1] * by_entropy).sum().backward()
    got = token_statistics(hidden, weight, targets, temperature=temperature, block_bytes=block_bytes)
    (got[0] * by_logprob + got[1] * by_entropy).sum().backward()
    assert [tensor.dtype for tensor in got] == [torch.float32] * 2
    for value, exact in zip((*got, hidden.grad, weight.grad), (*wanted, wide[0].grad, wide[1].grad), strict=True):
        assert relative(value, exact) < 1e-6


def test_the_gradient_is_the_finite_difference() -> None:
    generator = torch.Generator().manual_seed(1)
    hidden, weight = (torch.randn(n, 3, generator=generator, dtype=torch.float64, requires_grad=True) for n in (4, 70))
    targets = torch.tensor([0, 69, 64, 7])
    assert torch.autograd.gradcheck(
        lambda h, w: token_statistics(h, w, targets, temperature=0.8, block_bytes=1), (hidden, weight)
    )


def test_no_block_of_logits_is_larger_than_said(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    real = head._block

    def watched(*arguments: object) -> torch.Tensor:
        block = real(*arguments)
        seen.append(block.numel() * block.element_size())
        return block

    monkeypatch.setattr(head, "_block", watched)
    hidden, weight, targets, by, _ = drawn(40, seed=2)
    (token_statistics(hidden, weight, targets, block_bytes=20_000)[0] * by).sum().backward()
    assert len(seen) == 2 * 3, "300 columns in blocks of 125, forward and backward"
    assert max(seen) <= 20_000


def test_a_row_without_targets_has_no_statistics_and_no_gradient() -> None:
    hidden, weight, targets, *_ = drawn(0, seed=3)
    logprobs, entropies = token_statistics(hidden, weight, targets)
    assert logprobs.shape == entropies.shape == (0,)
    (logprobs.sum() + entropies.sum()).backward()
    assert not weight.grad.any()


def test_a_certain_token_and_a_uniform_one() -> None:
    sharp = token_statistics(torch.tensor([[200.0]]), torch.tensor([[1.0], [0.0], [-1.0]]), torch.tensor([0]))
    assert [value.item() for value in sharp] == [0.0, 0.0]
    flat = token_statistics(torch.zeros(1, 4), torch.zeros(8, 4), torch.tensor([3]))
    assert [value.item() for value in flat] == pytest.approx([-math.log(8), math.log(8)])


def test_logits_far_apart_in_different_blocks_do_not_overflow() -> None:
    weight = torch.tensor([[-3e4]] * 64 + [[3e4]] + [[0.0]] * 63)
    logprobs, entropies = token_statistics(torch.ones(3, 1), weight, torch.tensor([64, 0, 65]), block_bytes=1)
    assert logprobs.tolist() == [0.0, -6e4, -3e4]
    assert entropies.tolist() == [0.0, 0.0, 0.0]


def test_under_autocast_the_product_is_in_bfloat16_and_the_rest_in_float32() -> None:
    hidden, weight, targets, by_logprob, by_entropy = drawn(9, seed=4)
    with torch.autocast("cpu", torch.bfloat16):
        got = token_statistics(hidden, weight, targets, block_bytes=4 * 9 * 77)
    rounded = [tensor.detach().bfloat16() for tensor in (hidden, weight)]
    wanted = plain(*[tensor.double() for tensor in rounded], targets, 1.0)
    logits = (rounded[0] @ rounded[1].T).double()
    exact = logits.log_softmax(-1).gather(-1, targets[:, None])[:, 0]
    assert got[0].dtype == torch.float32
    torch.testing.assert_close(got[0].double(), exact, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(got[0].double(), wanted[0], rtol=0.02, atol=0.1)
    (got[0] * by_logprob + got[1] * by_entropy).sum().backward()
    assert hidden.grad.dtype == weight.grad.dtype == torch.float32


def test_a_frozen_weight_gets_no_gradient() -> None:
    hidden, weight, targets, *_ = drawn(2, seed=5)
    weight.requires_grad_(False)
    token_statistics(hidden, weight, targets)[0].sum().backward()
    assert weight.grad is None
    assert hidden.grad.abs().sum() > 0


def test_not_a_number_stays_one() -> None:
    hidden, weight, targets, *_ = drawn(4, seed=6)
    with torch.no_grad():
        hidden[1, 0] = math.nan
    logprobs, entropies = token_statistics(hidden, weight, targets, block_bytes=1)
    assert logprobs.isnan().tolist() == entropies.isnan().tolist() == [False, True, False, False]
