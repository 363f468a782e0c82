"""Tokens/s and MFU of the trainer's step on a GPU: Qwen-shaped models of random weights, 8,192 packed tokens a row.

Random weights compute as fast as learnt ones. It is the step that a run takes (`PolicyTrainer.step`: forward, loss,
backward, AdamW), with groups whose prompts are short beside their completions, so that rows are nearly all completion.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

from benchmarks.learning.items import Found, NotRun
from benchmarks.learning.mfu import Shape, peak_flops, step_flops
from benchmarks.page import markdown
from rl.batch import TrainingGroup
from rl.recipe import Recipe

TITLE = "the training step on a GPU: tokens/s and MFU"
SHAPES = {
    "0.5B": Shape(
        layers=24, hidden=896, intermediate=4864, heads=14, key_value_heads=2, head_dim=64, vocabulary=151_936
    ),
    "1.5B": Shape(
        layers=28, hidden=1536, intermediate=8960, heads=12, key_value_heads=2, head_dim=128, vocabulary=151_936
    ),
}
"""Of Qwen2.5-0.5B and -1.5B, whose embeddings are tied to the head."""
ROW, PROMPT, COMPLETION, SAMPLES = 8192, 64, 1008, 8
"""Tokens of a row, a prompt and a completion; completions of a group. A group fills a row: 64 + 8 · 1,008 = 8,128."""
GROUPS = 8
WARM, TIMED = 2, 5
"""Steps."""


def run(out: Path, *, quick: bool, say: Callable[[str], None]) -> Found:
    import torch

    if not torch.cuda.is_available():
        raise NotRun("no GPU here; on a machine with one the same command takes some minutes")
    device = torch.cuda.get_device_name()
    figures: dict[str, Any] = {"device": device, "torch": torch.__version__}
    for name, shape in list(SHAPES.items())[: 1 if quick else None]:
        for recompute in (False, True):
            title = f"{name}{', recomputed' if recompute else ''}"
            folder = write_model(out / name, shape)
            figures[title] = measure(folder, shape, device, recompute=recompute, timed=1 if quick else TIMED)
            say(f"{title}: {figures[title]['tokens_per_s']:.0f} tokens/s, MFU {figures[title]['mfu']:.1%}")
    return Found(figures={"gpu": figures}, table=table(figures))


def write_model(folder: Path, shape: Shape) -> Path:
    """A random model of that shape as a bf16 HF folder, unless it is there."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    if not (folder / "config.json").exists():
        torch.manual_seed(0)
        config = Qwen2Config(
            vocab_size=shape.vocabulary,
            hidden_size=shape.hidden,
            intermediate_size=shape.intermediate,
            num_hidden_layers=shape.layers,
            num_attention_heads=shape.heads,
            num_key_value_heads=shape.key_value_heads,
            max_position_embeddings=ROW,
            tie_word_embeddings=True,
        )
        with torch.device("cuda" if torch.cuda.is_available() else "cpu"):
            model = Qwen2ForCausalLM(config).to(torch.bfloat16)
        model.save_pretrained(folder)
    return folder


def make_groups(
    count: int, vocabulary: int, *, prompt: int = PROMPT, completion: int = COMPLETION
) -> list[TrainingGroup]:
    """Groups of random tokens with alternating rewards."""
    rng = Random(0)

    def tokens(many: int) -> tuple[int, ...]:
        return tuple(rng.randrange(vocabulary) for _ in range(many))

    return [
        TrainingGroup(
            problem_id=f"p/{number}",
            prompt_ids=tokens(prompt),
            completions=tuple(tokens(completion) for _ in range(SAMPLES)),
            rewards=tuple(float(sample % 2) for sample in range(SAMPLES)),
            behaviour_logprobs=tuple((-1.0,) * completion for _ in range(SAMPLES)),
        )
        for number in range(count)
    ]


def measure(folder: Path, shape: Shape, device: str, *, recompute: bool, timed: int) -> dict[str, float]:
    """Median of some steps after a few that warm up; tokens are those that are forwarded, prompts among them."""
    import torch

    from rl.trainer import PolicyTrainer

    recipe = Recipe(optimizer_steps=1, warmup_steps=0, micro_batch_tokens=ROW, recompute_activations=recompute)
    torch.cuda.reset_peak_memory_stats()
    trainer = PolicyTrainer(folder, recipe=recipe, compute_type="bfloat16")
    groups = make_groups(GROUPS, shape.vocabulary)
    seconds = []
    for number in range(WARM + timed):
        torch.cuda.synchronize()
        began = time.perf_counter()
        metrics = trainer.step(groups)
        torch.cuda.synchronize()
        if number >= WARM:
            seconds.append(time.perf_counter() - began)
    if metrics.rows != GROUPS:
        raise RuntimeError(f"{GROUPS} groups were packed into {metrics.rows} rows: not what is to be measured")
    took = median(seconds)
    tokens = GROUPS * (PROMPT + SAMPLES * COMPLETION)
    flops = GROUPS * group_flops(shape)
    return {
        "tokens_per_s": tokens / took,
        "mfu": flops / took / peak_flops(device),
        "step_s": took,
        "memory_gib": torch.cuda.max_memory_allocated() / 2**30,
    }


def group_flops(shape: Shape) -> float:
    """Of one group, its prompt computed once: what its completions see of it is counted with each."""
    whole = step_flops(shape, [PROMPT + COMPLETION] * SAMPLES, head_tokens=SAMPLES * COMPLETION)
    again = step_flops(shape, [PROMPT] * (SAMPLES - 1), head_tokens=0)
    return whole - again


def table(figures: Mapping[str, Any]) -> str:
    rows = [
        [
            name,
            f"{one['tokens_per_s']:,.0f}",
            f"{one['mfu']:.1%}",
            f"{one['step_s']:.2f}",
            f"{one['memory_gib']:.0f}",
        ]
        for name, one in figures.items()
        if isinstance(one, Mapping)
    ]
    head = [f"model, on one {figures['device']}", "tokens/s", "MFU", "s a step", "memory, GiB"]
    return markdown(head, rows)
