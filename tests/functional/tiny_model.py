"""A language model made on the spot, small enough for a test and real enough for vLLM: `python tiny_model.py FOLDER`.

A two-layer Llama over bytes that has seen right answers among many wrong ones, as a base model has: it is right some
three times in ten, and reinforcement learning has something to sharpen.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from rl.tasks import load_task

TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
RIGHT = 0.25
SPECIAL = ["<|end|>", "<|system|>", "<|user|>", "<|assistant|>"]


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


def make_tiny_model(folder: Path, *, seed: int = 0, updates: int = 250) -> None:
    """Write the model as a bf16 HF folder; takes a few seconds on one core."""
    torch.manual_seed(seed)
    rng = random.Random(seed)
    tokenizer, task = make_tokenizer(), load_task("digits")
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
    prompts = [
        tokenizer.apply_chat_template(
            [{"role": "user", "content": task.problem(index).prompt}], add_generation_prompt=True, return_dict=False
        )
        for index in range(10)
    ]
    for _ in range(updates):
        rows = []
        for _ in range(32):
            question = rng.randrange(10)
            said = question if rng.random() < RIGHT else rng.randrange(10)
            answer = tokenizer.encode(str(said), add_special_tokens=False)
            rows.append([*prompts[question], *answer, tokenizer.eos_token_id])
        width = max(map(len, rows))
        ids = torch.tensor([[*row, *[tokenizer.pad_token_id] * (width - len(row))] for row in rows])
        labels = torch.full_like(ids, -100)
        for number, row in enumerate(rows):
            labels[number, len(row) - 2 : len(row)] = ids[number, len(row) - 2 : len(row)]
        loss = model(input_ids=ids, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.to(torch.bfloat16).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


if __name__ == "__main__":
    make_tiny_model(Path(sys.argv[1]))
