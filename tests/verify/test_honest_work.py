"""Honest work is accepted, whatever arithmetic and rule it was made with."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rl.rollouts import Rollout
from tests.verify.conftest import RULES, UNSEEDED
from verify.prefill import TransformersPolicy

Rollouts = tuple[Rollout, ...]


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
