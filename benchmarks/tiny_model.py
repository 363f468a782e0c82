"""A language model made on the spot, small enough for a test and real enough for every engine.

A two-layer Llama over bytes that has seen answers, right ones among many wrong ones as a base model has, so that
reinforcement learning has something to sharpen. Decides the model's shape; what it has read is given to it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
SPECIAL = ["<|end|>", "<|system|>", "<|user|>", "<|assistant|>"]
ROWS = 32
"""Read at once."""


def make_tokenizer() -> PreTrainedTokenizerFast:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: number for number, token in enumerate([*SPECIAL, *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(SPECIAL)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|end|>", pad_token="<|end|>")
    fast.chat_template = TEMPLATE
    return fast


def write_tiny_model(
    folder: Path, read: Callable[[random.Random], tuple[str, str]], *, seed: int, updates: int
) -> None:
    """Write the model as a bf16 HF folder; takes a few seconds on one core.

    Args:
        read: draws a question and the answer that the model reads to it; only answers are learnt.
        updates: optimiser steps, each on 32 of them.
    """
    torch.manual_seed(seed)
    rng, tokenizer = random.Random(seed), make_tokenizer()
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=256,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model = LlamaForCausalLM(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(updates):
        rows = []
        for _ in range(ROWS):
            question, answer = read(rng)
            chat = [{"role": "user", "content": question}]
            prompt = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=False)
            said = [*tokenizer.encode(answer, add_special_tokens=False), tokenizer.eos_token_id]
            rows.append((prompt, said))
        width = max(len(prompt) + len(said) for prompt, said in rows)
        ids = torch.full((ROWS, width), tokenizer.pad_token_id)
        labels = torch.full_like(ids, -100)
        for number, (prompt, said) in enumerate(rows):
            end = len(prompt) + len(said)
            ids[number, :end] = torch.tensor([*prompt, *said])
            labels[number, len(prompt) : end] = ids[number, len(prompt) : end]
        loss = model(input_ids=ids, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.to(torch.bfloat16).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
