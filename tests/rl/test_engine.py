"""The real vLLM engine against transformers: captured states, log-probs, proofs, and a swap of weights under way.

The vocabulary-tied LM head, the prefix cache and the weights' packed copies each once kept the old policy alive after
a swap; the second model differs from the first in every weight, and one prompt is longer than two cache blocks.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from node.config import RunConfig
from node.generation import engine_environment
from tests.functional.tiny_model import make_tiny_model
from tests.rl.tiny_llama import plain_forward
from verify.proofs import BlockErrors, compare_many

ROOT = Path(__file__).resolve().parents[2]
MAX_TOKENS, SAMPLES, TEMPERATURE = 40, 3, 0.8
_RANDOM = random.Random(7)
PROMPTS = [tuple(_RANDOM.randrange(4, 260) for _ in range(length)) for length in (70, 33, 5)]
STAGES = ("first", "reloaded", "swapped", "other seed")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two untrained policies: they hardly ever end by themselves, so completions fill their 40 tokens."""
    root = tmp_path_factory.mktemp("policies")
    for seed, name in ((0, "old"), (1, "new")):
        make_tiny_model(root / name, seed=seed, updates=0)
    return root / "old", root / "new"


@pytest.fixture(scope="module")
def stages(folders: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    scratch = tmp_path_factory.mktemp("engine")
    wanted = {"prompts": PROMPTS, "samples": SAMPLES, "max_tokens": MAX_TOKENS, "temperature": TEMPERATURE}
    (scratch / "requests.json").write_text(json.dumps(wanted))
    settings = RunConfig.model_validate({"worker": {"kv_cache_gib": 1, "threads": 1}})
    script = [sys.executable, str(Path(__file__).with_name("engine_script.py"))]
    done = subprocess.run(
        [*script, *map(str, folders), str(scratch / "requests.json"), str(scratch / "out.json")],
        env=os.environ | {"PYTHONPATH": str(ROOT)} | engine_environment(settings),
        cwd=ROOT,
        timeout=300,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads((scratch / "out.json").read_text())


@pytest.fixture(scope="module")
def models(folders: tuple[Path, Path]) -> dict[str, Any]:
    old, new = (AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval() for folder in folders)
    return {"first": old, "reloaded": old, "swapped": new, "other seed": old}


def completions(stage: dict[str, Any]) -> list[tuple[tuple[int, ...], dict[str, Any], np.ndarray]]:
    """(prompt, completion, its states' bf16 bits [tokens, hidden]) of everything that a stage generated."""
    assert [len(group) for group in stage["groups"]] == [SAMPLES] * len(PROMPTS)
    flat = [(prompt, made) for prompt, group in zip(PROMPTS, stage["groups"], strict=True) for made in group]
    states = [np.asarray(bits, dtype=np.uint16) for bits in stage["states"]]
    return [(prompt, made, bits) for (prompt, made), bits in zip(flat, states, strict=True)]


def as_float(bits: np.ndarray) -> torch.Tensor:
    return torch.from_numpy((bits.astype(np.uint32) << 16).view(np.float32))


@pytest.mark.parametrize("name", STAGES)
@torch.inference_mode()
def test_states_and_logprobs_are_those_of_the_policy_that_was_loaded(
    stages: dict[str, Any], models: dict[str, Any], name: str
) -> None:
    for prompt, made, bits in completions(stages[name]):
        tokens = tuple(made["token_ids"])
        states, logprobs = plain_forward(models[name], prompt, tokens, temperature=TEMPERATURE)
        assert bits.shape == states.shape
        # bfloat16 keeps 8 bits: one rounding apart.
        torch.testing.assert_close(as_float(bits), states, rtol=2**-7, atol=2e-3)
        torch.testing.assert_close(torch.tensor(made["logprobs"]), logprobs, rtol=0, atol=1e-3)


def test_a_swap_reaches_the_model_and_the_tied_head(stages: dict[str, Any], models: dict[str, Any]) -> None:
    assert not stages["reloaded"]["moved"], "equal weights compute the same"
    assert stages["swapped"]["moved"]
    prompt, made, _ = completions(stages["swapped"])[0]
    with torch.inference_mode():
        old = plain_forward(models["first"], prompt, tuple(made["token_ids"]), temperature=TEMPERATURE)[1]
    assert (old - torch.tensor(made["logprobs"])).abs().max() > 0.1, "the two policies can be told apart"


@pytest.mark.parametrize("name", STAGES)
def test_there_is_one_proof_for_each_32_tokens(stages: dict[str, Any], name: str) -> None:
    made = completions(stages[name])
    assert any(len(completion["token_ids"]) == MAX_TOKENS for _, completion, _ in made)
    for _, completion, _ in made:
        count = len(completion["token_ids"])
        assert 1 <= count <= MAX_TOKENS
        assert count == len(completion["logprobs"])
        assert len(completion["proofs"]) == -(-count // 32)
        ended = completion["token_ids"][-1] == 0
        assert completion["finish_reason"] == ("eos" if ended else "length")
        assert ended or count == MAX_TOKENS
        assert 0 not in completion["token_ids"][:-1]


@torch.inference_mode()
def test_proofs_hold_against_a_prefill_by_transformers(stages: dict[str, Any], models: dict[str, Any]) -> None:
    made = completions(stages["swapped"])
    honest, other = (
        [
            plain_forward(model, prompt, tuple(c["token_ids"]))[0].to(torch.bfloat16).view(torch.uint16).numpy()
            for prompt, c, _ in made
        ]
        for model in (models["swapped"], models["first"])
    )
    proofs = [[bytes.fromhex(proof) for proof in c["proofs"]] for _, c, _ in made]
    near = [errors for compared in compare_many(honest, proofs) for errors in compared]
    far = [errors for compared in compare_many(other, proofs) for errors in compared]
    assert all(isinstance(errors, BlockErrors) for errors in (*near, *far))
    assert max(errors.exponent_mismatches for errors in near) < min(errors.exponent_mismatches for errors in far)


def test_two_seeds_and_two_samples_differ(stages: dict[str, Any]) -> None:
    first, other = ([c["token_ids"] for _, c, _ in completions(stages[name])] for name in ("first", "other seed"))
    assert all(a != b for a, b in zip(first, other, strict=True))
    assert len({tuple(tokens) for tokens in first}) == len(first)
