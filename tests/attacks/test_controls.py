"""Honest workers, however short, sure or copied their answers, are accepted by the same checks.

Other arithmetic and other rules are tried in tests/verify/test_honest_work.py.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from tests.attacks.attack import Offer
from tests.attacks.copies import recorded
from tests.attacks.stage import Stage
from tests.attacks.trial import outcome_of
from tests.verify.conftest import CLAIM, RULES, UNSEEDED
from verify.rules import Rules


@pytest.mark.parametrize("tokens", [1, 31, 32, 33, 64])
def test_completions_of_every_length(stage: Stage, tokens: int) -> None:
    rules = replace(RULES, max_new_tokens=tokens)
    rollouts = stage.world.generate(rules=rules)
    full = [r for r in rollouts if len(r.completion_ids) == tokens]
    assert {len(r.proofs) for r in full} == {-(-tokens // 32)}
    assert outcome_of(stage, Offer(content=rollouts, rules=rules)) == "accepted"


@pytest.mark.parametrize("counter", [1, 2, 3, 63])
def test_other_draws(stage: Stage, counter: int) -> None:
    claim = replace(CLAIM, counter=counter, worker="0x" + "c3" * 20)
    assert outcome_of(stage, Offer(content=stage.world.generate(claim=claim), claim=claim)) == "accepted"


@pytest.mark.parametrize("seed", [31, 32, 33])
def test_pools_without_seeds(stage: Stage, seed: int) -> None:
    rollouts = stage.world.generate(rules=UNSEEDED, seed=seed)
    assert outcome_of(stage, Offer(content=rollouts, rules=UNSEEDED)) == "accepted"


@pytest.mark.parametrize("changes", [{"temperature": 1.4}, {"temperature": 0.7, "seeded": False}], ids=str)
def test_pools_with_other_rules(stage: Stage, changes: dict) -> None:
    """What is a cheat where the pool says otherwise is honest where it says so."""
    rules = replace(RULES, **changes)
    assert outcome_of(stage, Offer(content=stage.world.generate(rules=rules), rules=rules)) == "accepted"


def test_decoding_one_at_a_time(stage: Stage) -> None:
    """Proofs and log-probabilities computed row by row, not packed with the others of the group."""
    rollouts = [stage.world.prove((r,))[0] for r in stage.honest]
    assert outcome_of(stage, Offer(content=rollouts)) == "accepted"


def test_a_group_that_is_audited_and_groups_that_are_not(stage: Stage) -> None:
    rules = replace(RULES, audit_share=1 / 3)
    for seed in range(4):
        claim = replace(CLAIM, audit_seed=bytes([seed]) * 32)
        assert outcome_of(stage, Offer(content=stage.honest, rules=rules, claim=claim)) == "accepted"


# --- beside copiers


def test_the_author_of_what_was_copied(stage: Stage) -> None:
    """The copy was recorded later, or in the same block: the author is not its copier."""
    for position in (2, 3):
        offer = Offer(
            content=stage.others,
            rules=UNSEEDED,
            claim=replace(CLAIM, position=2),
            earlier=recorded(stage.others, position),
        )
        assert outcome_of(stage, offer) == "accepted"


def test_independent_work_on_the_same_problems(stage: Stage) -> None:
    offer = Offer(
        content=stage.unseeded, rules=UNSEEDED, claim=replace(CLAIM, position=9), earlier=recorded(stage.others, 3)
    )
    assert outcome_of(stage, offer) == "accepted"


# --- a policy that is sure of itself


def sure(stage: Stage, answer: str, logit: float) -> Stage:
    """A stage whose policy says `answer` and stops, with about that logit over any other token."""
    policy = stage.fresh_policy()
    ids = stage.answer_ids(answer)
    prompts = sorted({r.prompt_ids for r in stage.honest})
    with torch.no_grad():
        heads = torch.zeros_like(policy._model.lm_head.weight)
        for place, token in enumerate(ids):
            rows = [policy._model.model(torch.tensor([[*p, *ids[:place]]])).last_hidden_state[0, -1] for p in prompts]
            mean = torch.stack(rows).mean(0)
            heads[token] += logit * mean / mean.dot(mean)
        policy._model.lm_head.weight = torch.nn.Parameter(heads)
    return Stage(replace(stage.world, policy=policy))


@pytest.mark.parametrize("rules", [RULES, UNSEEDED], ids=["seeded", "unseeded"])
@pytest.mark.parametrize(("answer", "logit"), [("", 30.0), ("12", 30.0), ("12", 12.0), ("I say 12", 30.0)])
def test_the_same_short_answer_from_everybody(stage: Stage, rules: Rules, answer: str, logit: float) -> None:
    """EOS alone, or one answer with or without exceptions, in every completion, as it was in earlier work."""
    certain = sure(stage, answer, logit)
    rollouts = certain.world.generate(rules=rules)
    same = sum(r.completion_ids == stage.answer_ids(answer) for r in rollouts)
    assert same > len(rollouts) / 2
    offer = Offer(content=rollouts, rules=rules, claim=replace(CLAIM, position=9), earlier=recorded(rollouts, 3))
    assert outcome_of(certain, offer) == "accepted"
