"""What a token sees by tiles and by block masks is what `Packed.allowed` says, forward and backward."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.attention.flex_attention import create_mask, flex_attention
from torch.nn.functional import scaled_dot_product_attention
from transformers import LlamaForCausalLM

from rl import attention
from rl.attention import TILED, attention_for, block_mask, implementation_for, tiled_attention, tiles
from rl.head import token_statistics
from rl.packing import Group, pack
from tests.rl.test_packing import GROUPS, HARD
from tests.rl.tiny_llama import make_llama, plain_logprobs

CPU = torch.device("cpu")
LONG: list[Group] = [((1, 2, 3) * 9, tuple(tuple(range(1, 2 + 3 * n)) for n in range(9))), ((4,), ((5, 6), (7,)))]


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(groups=GROUPS, tile_tokens=st.sampled_from((1, 5, 12, 1000)))
def test_tiles_are_the_rows_mask(groups: list[Group], tile_tokens: int) -> None:
    packed = pack(groups)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attention, "TILE_TOKENS", tile_tokens)
        cut = tiles(packed)
    rebuilt = torch.zeros(len(packed.ids), len(packed.ids), dtype=torch.bool)
    at = prompt_at = 0
    for tile in cut:
        if not tile.prompt:
            prompt_at = at
        rebuilt[at : at + tile.tokens, prompt_at : prompt_at + tile.prompt] = tile.mask[:, : tile.prompt]
        rebuilt[at : at + tile.tokens, at : at + tile.tokens] = tile.mask[:, tile.prompt :]
        at += tile.tokens
    assert torch.equal(rebuilt, torch.from_numpy(packed.allowed))


@settings(max_examples=20, deadline=None, derandomize=True)
@given(groups=GROUPS)
def test_the_block_mask_is_the_rows_mask(groups: list[Group]) -> None:
    packed = pack(groups)
    size = len(packed.ids)
    seen = create_mask(block_mask(packed, CPU).mask_mod, None, None, size, size, device="cpu")[0, 0]
    assert torch.equal(seen, torch.from_numpy(packed.allowed))


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("groups", [HARD, LONG], ids=["hard", "long"])
def test_flex_attention_computes_the_same_forward(groups: list[Group]) -> None:
    """Its backward pass does not exist on CPUs, so that only a GPU could show its gradient."""
    packed = pack(groups)
    generator = torch.Generator().manual_seed(1)
    query, key, value = (torch.randn(1, 2, len(packed.ids), 16, generator=generator) for _ in range(3))
    with torch.no_grad():
        flexed = flex_attention(query, key, value, block_mask=block_mask(packed, CPU))
    masked = scaled_dot_product_attention(query, key, value, attn_mask=torch.from_numpy(packed.allowed))
    torch.testing.assert_close(flexed, masked, rtol=0, atol=1e-5)


def weighted(logprobs: torch.Tensor, entropy: torch.Tensor | float = 0.0) -> torch.Tensor:
    """A loss in which every token counts differently."""
    return (logprobs * torch.linspace(-1, 2, len(logprobs)) + entropy).sum() / len(logprobs)


def gradients_of(model: LlamaForCausalLM, loss: torch.Tensor) -> torch.Tensor:
    model.zero_grad()
    loss.backward()
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])


@pytest.mark.parametrize("tile_tokens", [1, 20, 1000])
@pytest.mark.parametrize("groups", [HARD, LONG], ids=["hard", "long"])
def test_a_packed_row_has_the_loss_and_gradient_of_separate_sequences(
    groups: list[Group], tile_tokens: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention, "TILE_TOKENS", tile_tokens)
    model = make_llama()
    expected = weighted(torch.cat(plain_logprobs(model, groups)))
    gradient = gradients_of(model, expected)
    packed = pack(groups)
    model.set_attn_implementation(implementation_for(CPU))
    hidden = model.model(
        input_ids=torch.from_numpy(packed.ids)[None], position_ids=torch.from_numpy(packed.positions)[None],
        use_cache=False, **attention_for(packed, CPU),
    ).last_hidden_state[0, torch.from_numpy(packed.source_rows)]  # fmt: skip
    loss = weighted(token_statistics(hidden, model.lm_head.weight, torch.from_numpy(packed.targets))[0])
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    assert (gradients_of(model, loss) - gradient).norm() <= 1e-5 * gradient.norm()


def test_without_tiles_it_is_one_sequence() -> None:
    model, ids = make_llama(), torch.tensor([[1, 2, 3, 4]])
    with torch.no_grad():
        plain = model(ids).logits
        model.set_attn_implementation(TILED)
        torch.testing.assert_close(model(ids).logits, plain, rtol=0, atol=1e-5)


def test_a_batch_is_refused() -> None:
    states = torch.zeros(2, 1, 3, 4)
    with pytest.raises(ValueError, match="batch of 2"):
        tiled_attention(torch.nn.Identity(), states, states, states, None)
