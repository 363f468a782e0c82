"""Both engines against a plain forward pass, and against each other: states, log-probs, proofs, forced tokens, swaps.

The vocabulary-tied LM head, the prefix cache and the weights' packed copies each once kept the old policy alive after
a swap; the second model differs from the first in every weight, and one prompt is longer than two cache blocks. The
crowd has more completions than an engine decodes at once: they join and leave the batch, and prompts come in parts.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from node.config import RunConfig
from node.generation import engine_environment
from rl.engine import ROWS, OwnSeeds
from rl.growing import BLOCK_TOKENS, Grower, Growing
from rl.seeded import Sampling, completion_key, margins
from tests.functional.tiny_model import make_tiny_model
from tests.rl.engine_script import OTHER_SEED, SEED
from tests.rl.tiny_llama import plain_forward
from verify import proofs as toploc
from verify.proofs import BlockErrors, build_many, build_proofs, compare_many

ROOT = Path(__file__).resolve().parents[2]
BACKENDS = ("vllm", "transformers")
MAX_TOKENS, SAMPLES = 40, 3
SAMPLING = Sampling(temperature=0.8)
CUT = Sampling(temperature=0.8, top_k=9, top_p=0.9)
_RANDOM = random.Random(7)
PROMPTS = [tuple(_RANDOM.randrange(4, 260) for _ in range(length)) for length in (70, 33, 5)]
CROWD = [tuple(_RANDOM.randrange(4, 260) for _ in range(_RANDOM.randrange(1, 200))) for _ in range(27)]
STAGES = ("first", "reloaded", "swapped", "other seed", "unseeded")
SEEDS = dict.fromkeys(("first", "reloaded", "swapped", "crowd", "cut"), SEED) | {"other seed": OTHER_SEED}
NOISE = 1e-3
"""Logits by which float32, summed in another order, may move a margin; in 5,184 tokens of each engine it moved none."""


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two untrained policies: they hardly ever end by themselves, so completions fill their 40 tokens."""
    root = tmp_path_factory.mktemp("policies")
    for seed, name in ((0, "old"), (1, "new")):
        make_tiny_model(root / name, seed=seed, updates=0)
    return root / "old", root / "new"


@pytest.fixture(scope="module")
def both(folders: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    return {backend: run_engine(backend, folders, tmp_path_factory.mktemp(backend)) for backend in BACKENDS}


def run_engine(backend: str, folders: tuple[Path, Path], scratch: Path) -> dict[str, Any]:
    wanted = {"prompts": PROMPTS, "crowd": CROWD, "samples": SAMPLES, "max_tokens": MAX_TOKENS}
    (scratch / "requests.json").write_text(json.dumps(wanted | {"sampling": {"temperature": SAMPLING.temperature}}))
    settings = RunConfig.model_validate({"worker": {"kv_cache_gib": 1, "threads": 1}})
    script = [sys.executable, str(Path(__file__).with_name("engine_script.py")), backend]
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


@pytest.fixture(params=BACKENDS)
def stages(both: dict[str, dict[str, Any]], request: pytest.FixtureRequest) -> dict[str, Any]:
    return both[request.param]


@pytest.fixture(scope="module")
def models(folders: tuple[Path, Path]) -> dict[str, Any]:
    old, new = (AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval() for folder in folders)
    return {name: new if name == "swapped" else old for name in (*STAGES, "crowd", "cut")}


def completions(stage: dict[str, Any]) -> Iterator[tuple[tuple[int, ...], tuple[int, int], dict[str, Any]]]:
    """(prompt, its place in the submission, completion) of everything that a stage generated."""
    for number, (prompt, group) in enumerate(zip([*PROMPTS, *CROWD], stage["groups"], strict=False)):
        assert len(group) == SAMPLES
        yield from ((prompt, (number, sample), made) for sample, made in enumerate(group))


def tokens_of(stage: dict[str, Any]) -> list[tuple[int, ...]]:
    return [tuple(made["token_ids"]) for _, _, made in completions(stage)]


def as_float(bits: np.ndarray) -> torch.Tensor:
    return torch.from_numpy((bits.astype(np.uint32) << 16).view(np.float32))


@torch.inference_mode()
def lost(
    model: Any,
    seed: bytes,
    sampling: Sampling,
    prompt: tuple[int, ...],
    place: tuple[int, int],
    tokens: tuple[int, ...],
) -> np.ndarray:
    """By how many logits each token loses, as a validator sees it."""
    logits = model.lm_head(plain_forward(model, prompt, tokens)[0])
    keys = [completion_key(seed, *place)] * len(tokens)
    return margins(logits, torch.tensor(tokens), keys, range(len(tokens)), sampling)


@pytest.mark.parametrize("name", STAGES)
@torch.inference_mode()
def test_states_and_logprobs_are_those_of_the_policy_that_was_loaded(
    stages: dict[str, Any], models: dict[str, Any], name: str
) -> None:
    for prompt, _, made in completions(stages[name]):
        tokens, bits = tuple(made["token_ids"]), np.asarray(made["states"], dtype=np.uint16)
        states, logprobs = plain_forward(models[name], prompt, tokens, temperature=SAMPLING.temperature)
        assert bits.shape == states.shape
        # bfloat16 keeps 8 bits: one rounding apart.
        torch.testing.assert_close(as_float(bits), states, rtol=2**-7, atol=2e-3)
        torch.testing.assert_close(torch.tensor(made["logprobs"]), logprobs, rtol=0, atol=1e-3)


@pytest.mark.parametrize("name", SEEDS)
def test_every_token_is_the_one_that_seed_and_policy_force(
    stages: dict[str, Any], models: dict[str, Any], name: str
) -> None:
    sampling = CUT if name == "cut" else SAMPLING
    made = list(completions(stages[name]))
    assert len(made) == SAMPLES * (len(PROMPTS) + len(CROWD) if name == "crowd" else len(PROMPTS))
    for prompt, place, completion in made:
        tokens = tuple(completion["token_ids"])
        assert lost(models[name], SEEDS[name], sampling, prompt, place, tokens).max() < NOISE


def test_another_seed_would_have_forced_other_tokens(stages: dict[str, Any], models: dict[str, Any]) -> None:
    for prompt, place, completion in completions(stages["first"]):
        tokens = tuple(completion["token_ids"])
        assert (lost(models["first"], OTHER_SEED, SAMPLING, prompt, place, tokens) > 0.1).mean() > 0.1


def test_the_two_engines_differ_only_where_two_tokens_nearly_tie(
    both: dict[str, dict[str, Any]], models: dict[str, Any]
) -> None:
    assert len(CROWD) * SAMPLES > ROWS
    for name, seed in SEEDS.items():
        sampling = CUT if name == "cut" else SAMPLING
        ours, theirs = (list(completions(both[backend][name])) for backend in BACKENDS)
        same = 0
        for (prompt, place, one), (_, _, other) in zip(ours, theirs, strict=True):
            pairs = list(zip(one["token_ids"], other["token_ids"], strict=False))
            agreed = next((at for at, (a, b) in enumerate(pairs) if a != b), len(pairs))
            same += agreed == len(pairs)
            if agreed < len(pairs):
                swapped = (*one["token_ids"][:agreed], other["token_ids"][agreed])
                assert lost(models[name], seed, sampling, prompt, place, swapped)[-1] < NOISE
        assert same >= 0.9 * len(ours)


def test_a_completion_does_not_depend_on_its_neighbours(stages: dict[str, Any]) -> None:
    assert tokens_of(stages["alone"]) == tokens_of(stages["first"])[:SAMPLES]
    assert tokens_of(stages["crowd"])[: SAMPLES * len(PROMPTS)] == tokens_of(stages["first"])
    assert tokens_of(stages["reloaded"]) == tokens_of(stages["first"])


@torch.inference_mode()
def test_cuts_are_kept_and_log_probabilities_are_those_of_what_is_left(
    stages: dict[str, Any], models: dict[str, Any]
) -> None:
    for prompt, _, made in completions(stages["cut"]):
        tokens = tuple(made["token_ids"])
        model = models["cut"]
        scaled = model.lm_head(plain_forward(model, prompt, tokens)[0]) / CUT.temperature
        best, ids = scaled.topk(CUT.top_k, dim=-1)
        likely = best.softmax(-1)
        kept = (likely.cumsum(-1) - likely) < CUT.top_p
        place = ids == torch.tensor(tokens)[:, None]
        assert (place & kept).any(-1).all()
        logprobs = best.masked_fill(~kept, -torch.inf).log_softmax(-1)[place]
        torch.testing.assert_close(torch.tensor(made["logprobs"]), logprobs, rtol=0, atol=1e-3)


def test_a_swap_reaches_the_model_and_the_tied_head(stages: dict[str, Any], models: dict[str, Any]) -> None:
    assert not stages["reloaded"]["moved"], "equal weights compute the same"
    assert stages["swapped"]["moved"]
    prompt, _, made = next(completions(stages["swapped"]))
    with torch.inference_mode():
        old = plain_forward(models["first"], prompt, tuple(made["token_ids"]), temperature=SAMPLING.temperature)[1]
    assert (old - torch.tensor(made["logprobs"])).abs().max() > 0.1, "the two policies can be told apart"


@pytest.mark.parametrize("name", [*STAGES, "crowd"])
def test_proofs_built_while_decoding_are_those_of_the_whole_completion(stages: dict[str, Any], name: str) -> None:
    assert BLOCK_TOKENS == toploc.BLOCK_TOKENS
    made = list(completions(stages[name]))
    assert any(len(completion["token_ids"]) == MAX_TOKENS for _, _, completion in made)
    for _, _, completion in made:
        count = len(completion["token_ids"])
        assert 1 <= count <= MAX_TOKENS
        assert count == len(completion["logprobs"])
        whole = build_proofs(np.asarray(completion["states"], dtype=np.uint16))
        assert [proof.hex() for proof in whole] == completion["proofs"]
        assert len(whole) == -(-count // BLOCK_TOKENS)
        ended = completion["token_ids"][-1] == 0
        assert completion["finish_reason"] == ("eos" if ended else "length")
        assert ended or count == MAX_TOKENS
        assert 0 not in completion["token_ids"][:-1]


@torch.inference_mode()
def test_proofs_hold_against_a_prefill_by_transformers(stages: dict[str, Any], models: dict[str, Any]) -> None:
    made = list(completions(stages["swapped"]))
    honest, other = (
        [
            plain_forward(model, prompt, tuple(c["token_ids"]))[0].to(torch.bfloat16).view(torch.uint16).numpy()
            for prompt, _, c in made
        ]
        for model in (models["swapped"], models["first"])
    )
    proofs = [[bytes.fromhex(proof) for proof in c["proofs"]] for _, _, c in made]
    near = [errors for compared in compare_many(honest, proofs) for errors in compared]
    far = [errors for compared in compare_many(other, proofs) for errors in compared]
    assert all(isinstance(errors, BlockErrors) for errors in (*near, *far))
    assert max(errors.exponent_mismatches for errors in near) < min(errors.exponent_mismatches for errors in far)


def test_two_seeds_two_samples_and_two_calls_differ(stages: dict[str, Any]) -> None:
    different = [tokens_of(stages[name]) for name in ("first", "other seed", "unseeded", "unseeded again")]
    for row in zip(*different, strict=True):
        assert len(set(row)) == len(row)
    assert len(set(different[0])) == len(different[0])


def test_two_engines_that_are_dictated_no_seed_have_their_own() -> None:
    one, other = OwnSeeds(1), OwnSeeds(2)
    assert len({one.next(), one.next(), other.next(), other.next()}) == 4
    assert OwnSeeds(1).next() == OwnSeeds(1).next()


def test_what_the_proof_builder_raises_comes_out_of_the_engine() -> None:
    def broken(_: Sequence[np.ndarray]) -> list[list[bytes]]:
        raise ValueError("no injective modulus")

    grower, one = Grower(broken), Growing(key=bytes(32))
    grower.step([one], torch.zeros(1, 4, dtype=torch.bfloat16), torch.zeros(1, 9))
    with pytest.raises(ValueError, match="no injective modulus"):
        grower.finish([one])


def test_states_are_given_up_as_soon_as_their_proof_is_ordered() -> None:
    grower, one = Grower(build_many), Growing(key=bytes(32))
    for _ in range(BLOCK_TOKENS + 1):
        grower.step([one], torch.ones(1, 4, dtype=torch.bfloat16), torch.zeros(1, 9))
    assert (len(one.tokens), len(one.rows)) == (BLOCK_TOKENS + 1, 1)
    assert grower.finish([one]) == [tuple(build_proofs(np.full((BLOCK_TOKENS + 1, 4), 0x3F80, dtype=np.uint16)))]
