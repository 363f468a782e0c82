"""A random Llama in memory or on disk, and the plain forward pass that everything cleverer must equal."""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel

from rl.packing import Group

VOCABULARY = 32


def make_llama(seed: int = 0, *, tied: bool = True) -> LlamaForCausalLM:
    """Two layers, float32, weights that bfloat16 holds exactly; `tied`: embeddings and LM head are one weight."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, head_dim=16, initializer_range=0.2, tie_word_embeddings=tied, eos_token_id=0,
        bos_token_id=None, max_position_embeddings=256,
    )  # fmt: skip
    return LlamaForCausalLM(config).to(torch.bfloat16).float().eval()


def write_llama(folder: Path, seed: int = 0, *, tied: bool = True) -> Path:
    """The same as a bf16 HF folder."""
    make_llama(seed, tied=tied).to(torch.bfloat16).save_pretrained(folder)
    return folder


def plain_forward(
    model: PreTrainedModel, prompt: tuple[int, ...], completion: tuple[int, ...], *, temperature: float = 1.0
) -> tuple[torch.Tensor, torch.Tensor]:
    """Hidden states [tokens, hidden] that the completion's tokens were sampled from, and their log-probs [tokens]."""
    ids = torch.tensor([prompt + completion])
    states = model.model(input_ids=ids, use_cache=False).last_hidden_state[0, len(prompt) - 1 : -1]
    distribution = (model.lm_head(states).float() / temperature).log_softmax(-1)
    return states, distribution.gather(-1, torch.tensor(completion)[:, None])[:, 0]


def plain_logprobs(model: PreTrainedModel, groups: list[Group]) -> list[torch.Tensor]:
    """Log-probs of every completion, one forward pass each, in the groups' order."""
    return [plain_forward(model, prompt, completion)[1] for prompt, members in groups for completion in members]
