"""The engine process: from a draw seed to a file of rollouts, each token of which the seed has forced."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from node.cheat_engine import NoisyEngine
from node.engine_child import EngineProcess, choose_backend
from rl.prompts import PromptTooLong
from rl.rollouts import Rollout, read_rollouts
from rl.seeded import Sampling, completion_key, margins
from tests.rl.tiny_llama import plain_forward

SAMPLING = {"temperature": 0.9, "top_k": 0, "top_p": 1.0}
SEED = bytes(range(32))
NOISE = 1e-3
"""Logits by which float32 in another order of summation may move a margin; see tests/rl/test_engine.py."""


def solve(
    model: Path, path: Path, *, seeded: bool = True, wrap: Any = lambda engine, folder: engine, longest: int = 128
) -> list[Rollout]:
    process = EngineProcess(wrap)
    process.prepare(backend="transformers")
    started = process.start(
        folder=str(model),
        task="digits",
        system_prompt=None,
        length_targets=(),
        length_alpha=0.0,
        max_model_len=longest,
        max_new_tokens=6,
        sampling=SAMPLING,
        compute_type="float32",
        seed=1,
    )
    assert started["backend"] == "transformers"
    made = process.solve(
        path=str(path), step=3, policy_version=2, counter=0, draw_seed=SEED, groups=12, samples=8, seeded=seeded
    )
    rollouts = read_rollouts(path, max_rows=96)
    assert made["rollouts"] == len(rollouts) == 96
    return list(rollouts)


@torch.inference_mode()
def lost(model: Path, rollouts: list[Rollout]) -> np.ndarray:
    """Of all tokens in order, by how many logits they lose under the policy and SEED."""
    policy = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32).eval()
    found = []
    for rollout in rollouts:
        ids = rollout.completion_ids
        logits = policy.lm_head(plain_forward(policy, rollout.prompt_ids, ids)[0])
        keys = [completion_key(SEED, rollout.group, rollout.sample)] * len(ids)
        found.append(margins(logits, torch.tensor(ids), keys, range(len(ids)), Sampling(**SAMPLING)))
    return np.concatenate(found)


def test_the_draw_seed_forces_every_token_of_a_submission(tiny_model: Path, tmp_path: Path) -> None:
    assert lost(tiny_model, solve(tiny_model, tmp_path / "honest")).max() < NOISE
    assert (lost(tiny_model, solve(tiny_model, tmp_path / "free", seeded=False)) > 0.1).mean() > 0.2


def test_the_cheat_engine_takes_the_same_noise_with_other_weights(tiny_model: Path, tmp_path: Path) -> None:
    cheated = lost(tiny_model, solve(tiny_model, tmp_path / "cheat", wrap=NoisyEngine))
    assert cheated.max() > 10 * NOISE
    assert (cheated > NOISE).mean() < 0.5, "most tokens are the same: it is the policy that differs, not the noise"


def test_a_prompt_without_room_for_its_answer_is_refused_and_nothing_is_cut(tiny_model: Path, tmp_path: Path) -> None:
    with pytest.raises(PromptTooLong, match="max_model_len 7 must be at least") as fault:
        solve(tiny_model, tmp_path / "cut", longest=7)
    longest = int(str(fault.value).split()[-4])
    with pytest.raises(PromptTooLong):
        solve(tiny_model, tmp_path / "cut", longest=longest - 1)
    assert not (tmp_path / "cut").exists()
    rollouts = solve(tiny_model, tmp_path / "fits", longest=longest)
    assert max(len(rollout.prompt_ids) for rollout in rollouts) + 6 == longest


def test_the_backend_is_vllm_where_it_is_installed() -> None:
    assert choose_backend("auto", vllm_is_installed=True) == "vllm"
    assert choose_backend("auto", vllm_is_installed=False) == "transformers"
    assert choose_backend("transformers", vllm_is_installed=True) == "transformers"
    with pytest.raises(ValueError, match="run scripts/setup"):
        choose_backend("vllm", vllm_is_installed=False)
