"""Cheats that only a forward pass gives away: one test each, named for the cheat."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from rl.rollouts import Rollout
from tests.verify.conftest import RULES, UNSEEDED
from verify.prefill import TransformersPolicy

Rollouts = tuple[Rollout, ...]


# --- honest work


def test_honest_work_is_accepted(world, honest: Rollouts) -> None:
    verdict = world.judge(honest)
    assert verdict.outcome == "accepted"
    assert verdict.rejection is None
    assert verdict.facts["exponent_mean"] == verdict.facts["mantissa_mean"] == 0
    assert verdict.facts["tokens"] == sum(len(r.completion_ids) for r in honest)


@pytest.mark.parametrize("seed", range(2, 4))
def test_honest_unseeded_work_with_improbable_endings_is_accepted(world, seed: int) -> None:
    verdict = world.judge(world.generate(rules=UNSEEDED, seed=seed), rules=UNSEEDED)
    assert verdict.outcome == "accepted", verdict
    assert verdict.facts["improbable_endings"] > 0


def test_honest_work_from_an_allowed_older_policy_is_accepted(world) -> None:
    assert world.judge(world.generate(version=3)).outcome == "accepted"


# --- proofs


def constant(proof: bytes) -> bytes:
    return proof[:2] + proof[2:4] + bytes(len(proof) - 4)


@pytest.mark.parametrize(
    "forge",
    [
        lambda proof: b"\xff\xd9" + bytes(len(proof) - 2),
        constant,
        lambda proof: b"\xff\xd9" + b"\x40\x10" + bytes(len(proof) - 4),
        lambda proof: b"\xff\xd9" + (np.random.default_rng(0).integers(0, 65497, 128).astype(">u2").tobytes()),
    ],
    ids=["zero", "constant", "typical value", "random"],
)
def test_invented_proofs(world, honest: Rollouts, forge: Callable[[bytes], bytes]) -> None:
    cheat = [replace(r, proofs=tuple(forge(p) for p in r.proofs)) for r in honest]
    if any(len(p) != 258 for r in cheat for p in r.proofs):
        cheat = [replace(r, proofs=tuple(forge(p)[: len(q)] for p, q in zip(r.proofs, o.proofs, strict=True)))
                 for r, o in zip(cheat, honest, strict=True)]  # fmt: skip
    assert world.finding(cheat) == "rejected: proof-mismatch"


def test_proofs_of_another_prompt(world, honest: Rollouts) -> None:
    moved = world.prove([replace(r, prompt_ids=honest[-1].prompt_ids) for r in honest])
    cheat = [replace(r, proofs=m.proofs) for r, m in zip(honest, moved, strict=True)]
    assert world.finding(cheat) == "rejected: proof-mismatch"


@pytest.mark.parametrize(
    "forge",
    [
        lambda proofs: proofs[:-1],
        lambda proofs: (*proofs, proofs[-1]),
        lambda proofs: (*proofs[:-1], bytes(len(proofs[-1]))),
        lambda proofs: (*proofs[:-1], proofs[-1][:-1]),
        lambda proofs: (*proofs[:-1], proofs[-1] + b"\0"),
        lambda proofs: (*proofs[:-1], b""),
    ],
    ids=["one missing", "one too many", "a null proof", "257 bytes", "259 bytes", "an empty proof"],
)
def test_miscounted_or_malformed_proofs(world, honest: Rollouts, forge: Callable) -> None:
    assert world.finding(world.edit(honest, 4, proofs=forge(honest[4].proofs))) == "rejected: proof-count"


def test_two_proofs_swapped(world, honest: Rollouts) -> None:
    row = next(n for n, r in enumerate(honest) if len(r.completion_ids) > 34)
    first, second = honest[row].proofs
    assert world.finding(world.edit(honest, row, proofs=(second, first))) == "rejected: proof-mismatch"


# Two tiny layers hardly feel int8; its figures on a real model are in test_thresholds.
def quantised(bits: int) -> Callable[[torch.Tensor], torch.Tensor]:
    def change(weight: torch.Tensor) -> torch.Tensor:
        scale = weight.abs().amax(1, keepdim=True) / (2 ** (bits - 1) - 1)
        return (weight / scale).round() * scale

    return change


def noisy(share: float) -> Callable[[torch.Tensor], torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    return lambda weight: weight * (1 + share * torch.randn(weight.shape, generator=generator))


def low_rank(weight: torch.Tensor) -> torch.Tensor:
    generator = torch.Generator().manual_seed(4)
    a, b = (torch.randn(n, 4, generator=generator) for n in weight.shape)
    return weight + 0.02 * a @ b.T


@pytest.mark.parametrize(
    "change",
    [quantised(6), quantised(4), noisy(0.05), noisy(0.1), low_rank],
    ids=["int6", "int4", "noise of 5 %", "noise of 10 %", "an adapter left out"],
)
def test_other_weights(world, change: Callable[[torch.Tensor], torch.Tensor]) -> None:
    assert world.finding(world.generate(policy=world.variant(change))) == "rejected: proof-mismatch"


def test_tokens_rewritten_after_proving(world, honest: Rollouts) -> None:
    cheat = []
    for rollout in honest:
        ids = tuple(3 + token % 90 if n % 3 else token for n, token in enumerate(rollout.completion_ids[:-1]))
        ids += rollout.completion_ids[-1:]
        text = world.policy.tokenizer.decode(list(ids), skip_special_tokens=True)
        problem = world.task.problem(
            [world.task.problem(n).problem_id for n in range(world.task.size)].index(rollout.problem_id)
        )
        reward = world.task.reward(problem, text, rollout.finish_reason == "eos")
        cheat.append(replace(rollout, completion_ids=ids, text=text, reward=reward))
    assert world.finding(cheat) == "rejected: proof-mismatch"


# --- sampling


def stop_early(logits: torch.Tensor, index: int, generator: torch.Generator) -> torch.Tensor:
    return torch.multinomial(logits.softmax(-1), 1, generator=generator)[:, 0] * (index != 2)


def with_one_early_stop(world, honest: Rollouts) -> Rollouts:
    ids = (*honest[0].completion_ids[:2], 0)
    text = world.policy.tokenizer.decode(list(ids), skip_special_tokens=True)
    single = replace(honest[0], completion_ids=ids, text=text, finish_reason="eos", reward=0.0)
    return world.prove((single, *honest[1:]))


def test_stopping_early_by_an_unlikely_eos(world) -> None:
    generator = torch.Generator().manual_seed(5)
    cheat = world.generate(pick=lambda logits, index: stop_early(logits, index, generator))
    assert world.finding(cheat) == "rejected: sampling"
    assert world.finding(cheat, rules=UNSEEDED) == "rejected: termination"
    always = replace(RULES, count_endings=True)
    assert world.finding(cheat, rules=always, without={"sampling"}) == "rejected: termination"


def test_one_unlikely_eos_gives_a_seeded_worker_away_and_nobody_else(world, honest: Rollouts) -> None:
    cheat = with_one_early_stop(world, honest)
    assert world.finding(cheat) == "rejected: sampling"
    assert world.finding(cheat, rules=UNSEEDED) == "accepted"


def test_copies_of_one_answer(world, honest: Rollouts) -> None:
    cheat = [replace(honest[n - n % 6], sample=r.sample) for n, r in enumerate(honest)]
    assert world.finding(cheat) == "rejected: duplicates"


def test_greedy_decoding(world) -> None:
    cheat = world.generate(pick=lambda logits, _: logits.argmax(-1))
    assert world.finding(cheat) == "rejected: duplicates"
    assert world.finding(cheat, without={"duplicates"}) == "rejected: sampling"
    assert world.finding(cheat, rules=UNSEEDED, without={"duplicates"}) == "rejected: distribution"


def test_another_temperature_than_the_pools(world) -> None:
    for temperature in (0.7, 1.4):
        cheat = world.prove(world.generate(rules=replace(RULES, temperature=temperature)))
        assert world.finding(cheat) == "rejected: sampling"


def test_a_top_k_of_ones_own(world) -> None:
    cheat = world.prove(world.generate(rules=replace(RULES, top_k=5)))
    assert world.finding(cheat) == "rejected: sampling"
    assert world.finding(cheat, rules=UNSEEDED) == "rejected: distribution"


def test_the_best_of_two_for_every_answer(world, claim) -> None:
    first, second = world.generate(), world.generate(claim=replace(claim, counter=1))
    longest = [max(pair, key=lambda r: len(set(r.completion_ids))) for pair in zip(first, second, strict=True)]
    cheat = [
        replace(f, completion_ids=r.completion_ids, text=r.text, finish_reason=r.finish_reason, reward=f.reward)
        for f, r in zip(first, longest, strict=True)
    ]
    assert world.finding(world.prove(cheat), without={"reward"}) == "rejected: sampling"


def test_one_token_edited(world, honest: Rollouts) -> None:
    row = next(n for n, r in enumerate(honest) if len(r.completion_ids) == 40)
    ids = list(honest[row].completion_ids)
    ids[20] = 3 + (ids[20] - 2) % 95
    text = world.policy.tokenizer.decode(ids, skip_special_tokens=True)
    cheat = world.prove(world.edit(honest, row, completion_ids=tuple(ids), text=text))
    assert world.finding(cheat, without={"reward"}) == "rejected: sampling"


def test_anothers_seed(world, claim) -> None:
    cheat = world.generate(claim=replace(claim, worker="0x" + "b2" * 20))
    same = [replace(r, problem_id=h.problem_id, prompt_ids=h.prompt_ids) for r, h in zip(cheat, world.generate(),
                                                                                         strict=True)]  # fmt: skip
    assert world.finding(world.prove(same), without={"reward"}) == "rejected: sampling"


def test_log_probabilities_that_were_made_up(world, honest: Rollouts) -> None:
    for wrong in (0.0, -1.0):
        cheat = [replace(r, logprobs=(wrong,) * len(r.logprobs)) for r in honest]
        assert world.finding(cheat) == "rejected: logprobs"


# --- honest work of other arithmetic and other rules


@pytest.mark.parametrize("pair", [("float32", "bfloat16"), ("bfloat16", "float32"), ("float32", "float32")])
def test_honest_work_is_accepted_in_every_pair_of_arithmetics(world, checkpoint, pair: tuple[str, str]) -> None:
    decode, prefill = (TransformersPolicy(checkpoint, compute_dtype=kind) for kind in pair)
    verdict = world.judge(world.generate(policy=decode), load=prefill)
    assert verdict.outcome == "accepted", verdict
    assert verdict.facts["margin_max"] < 0.8


@pytest.mark.parametrize("rule", [{"temperature": 0.7}, {"top_k": 5}, {"top_p": 0.8}, {"top_k": 8, "top_p": 0.9}])
def test_honest_work_is_accepted_under_every_rule(world, checkpoint, rule: dict) -> None:
    rules = replace(RULES, **rule)
    honest = world.generate(rules=rules, policy=TransformersPolicy(checkpoint, compute_dtype="float32"))
    verdict = world.judge(honest, rules=rules)
    assert verdict.outcome == "accepted", verdict
    assert world.finding(world.prove(world.generate()), rules=rules) == "rejected: sampling"
