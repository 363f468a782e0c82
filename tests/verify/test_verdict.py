"""Which checks are made, in which order, and what is told of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rl.rollouts import Rollout
from rl.tasks import Problem
from tests.verify.conftest import UNSEEDED
from verify.rejection import SENTENCES, UNPUNISHED, Rejection
from verify.verdict import CHECKS, CheckFailed

Rollouts = tuple[Rollout, ...]
NAMES = [check.name for check in CHECKS]


def test_each_check_has_its_own_code_and_each_code_its_check() -> None:
    assert len(set(NAMES)) == len(NAMES)
    assert set(NAMES) == set(SENTENCES)


def test_a_check_needs_only_what_comes_before_it() -> None:
    for place, check in enumerate(CHECKS):
        assert set(check.needs) <= set(NAMES[:place])


def test_what_only_the_ledger_says_comes_first_and_the_forward_pass_last(world, honest: Rollouts) -> None:
    assert NAMES[:4] == ["late", "unavailable", "size", "hash"]
    run_at: list[str] = []
    told: list[str] = []

    class Watched:
        tokenizer, hidden_size, vocab_size = world.policy.tokenizer, world.policy.hidden_size, world.policy.vocab_size
        compute_type = world.policy.compute_type

        def prefill(self, *arguments: object, **options: object) -> object:
            run_at.append(told[-1])
            return world.policy.prefill(*arguments, **options)

    path, claim = world.record(honest)
    verdict = world.judge_file(path, claim, load=Watched(), observe=lambda name, *_: told.append(name))
    assert verdict.outcome == "accepted"
    assert run_at == ["text"], "once, after all that do without, save what a cheat makes costly"
    assert told == NAMES


def test_an_observer_hears_of_each_check_with_its_own_numbers_until_the_first_failure(world, honest: Rollouts) -> None:
    seen = []
    verdict = world.judge(world.edit(honest, 2, reward=0.5), observe=lambda *told: seen.append(told))
    assert [name for name, _, _ in seen] == NAMES[: NAMES.index("reward") + 1]
    assert [name for name, finding, _ in seen if finding is not None] == ["reward"]
    assert seen[-1][1] == verdict.rejection
    facts: dict[str, float] = {}
    for _, _, measured in seen:
        assert not facts.keys() & measured.keys()
        facts |= measured
    assert facts == verdict.facts


def test_a_check_that_is_switched_off_leaves_the_cheat_to_the_next_one(world, honest: Rollouts) -> None:
    cheat = world.edit(honest, 2, reward=float("nan"))
    assert world.finding(cheat) == "rejected: bounds"
    assert world.finding(cheat, without={"bounds"}) == "accepted", "no other check is made of values out of bounds"
    late = replace(honest[0], policy_version=2)
    assert world.finding([replace(r, policy_version=2) for r in honest], without={"stale"}) == "accepted"
    assert world.finding(world.edit(honest, 0, policy_version=late.policy_version)) == "rejected: version"


def test_every_check_that_can_be_made_is_made_of_a_file_with_many_faults(world, honest: Rollouts) -> None:
    cheat = [replace(r, reward=1.0 - r.reward, logprobs=(-3.0,) * len(r.logprobs)) for r in honest]
    found = world.examine(cheat)
    assert list(found) == NAMES
    assert {name for name, detail in found.items() if detail} == {"reward", "logprobs"}
    found = world.examine([replace(r, text="7") for r in cheat])
    assert [name for name in NAMES if name not in found] == ["reward"], "what the text is worth is not asked"
    assert {name for name, detail in found.items() if detail} == {"text", "logprobs"}
    cheat = world.edit(honest, 2, completion_ids=(-1,))
    found = world.examine(cheat)
    assert [name for name, detail in found.items() if detail] == ["bounds", "proof-count"]
    assert "sampling" not in found, "nothing can be said of tokens that do not exist"
    assert "prompt" in found
    assert list(world.examine(honest[:-1])) == NAMES[: NAMES.index("row-count") + 1]


def test_a_prompt_that_is_not_canonical_is_no_reason_to_run_the_policy_on_it(world, honest: Rollouts) -> None:
    found = world.examine([replace(r, prompt_ids=(10**9,)) for r in honest])
    assert [name for name, detail in found.items() if detail] == ["prompt"]


def test_an_unseeded_pool_asks_other_questions(world) -> None:
    honest = world.generate(rules=UNSEEDED, seed=2)
    seeded, unseeded = world.judge(honest), world.judge(honest, rules=UNSEEDED)
    assert (seeded.outcome, unseeded.outcome) == ("rejected", "accepted")
    assert seeded.facts["margin_max"] > 2
    assert "surprise_z" not in seeded.facts
    assert "margin_max" not in unseeded.facts
    assert abs(unseeded.facts["surprise_z"]) < 5


def test_cuts_need_a_seed_and_an_audit_a_share() -> None:
    with pytest.raises(ValueError, match=r"set rl\.seeded"):
        replace(UNSEEDED, top_k=5)
    for share in (0.0, -1.0, 1.1, float("nan")):
        with pytest.raises(ValueError, match="share above 0"):
            replace(UNSEEDED, audit_share=share)


def test_the_failing_check_is_named(world, honest: Rollouts, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_: object, **__: object) -> None:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(type(world.policy), "prefill", crash)
    with pytest.raises(CheckFailed, match="proof-mismatch: RuntimeError: out of memory"):
        world.judge(honest)
    assert set(SENTENCES) > UNPUNISHED


def test_attack_no_text_but_the_tokens_own_reaches_the_reward_function(world, honest: Rollouts) -> None:
    """A text of megabytes, made for what reads it, must not cost more than its comparison."""
    read: list[str] = []

    def score(problem: Problem, text: str, finished: bool) -> float:
        read.append(text)
        return world.task.score(problem, text, finished)

    watched = replace(world, task=replace(world.task, score=score))
    assert watched.finding(world.edit(honest, 0, text="the answer" + " " * 2**20)) == "rejected: text"
    assert "reward" not in watched.examine(world.edit(honest, 0, text="1", reward=1.0))
    assert read == []
    assert watched.finding(honest) == "accepted"
    assert read == [r.text for r in honest]


def test_attack_an_answer_that_cannot_be_scored_hides_no_cheat(world, honest: Rollouts) -> None:
    """A program that sleeps, or a formula without end, leads to no verdict: but not where the tokens are forged."""

    def score(problem: Problem, text: str, finished: bool) -> float:
        if text == "sleep":
            raise TimeoutError("CPU or wall time used up")
        return world.task.score(problem, text, finished)

    row = replace(honest[0], completion_ids=(*(3 + ord(letter) - 32 for letter in "sleep"), 0), text="sleep",
                  finish_reason="eos", reward=1.0)  # fmt: skip
    cheat = world.prove((row, *honest[1:]))
    watched = replace(world, task=replace(world.task, score=score))
    assert watched.finding(cheat) == "rejected: sampling"
    with pytest.raises(CheckFailed, match=r"reward: .*time used up"):
        watched.finding(cheat, without={"sampling"})


def test_evidence_is_the_same_bytes_for_the_same_finding(world, honest: Rollouts) -> None:
    first, second = world.judge(world.edit(honest, 0, reward=-1.0)), world.judge(world.edit(honest, 0, reward=-1.0))
    assert first.evidence() == second.evidence() != world.judge(honest).evidence()
    assert all(type(value) in (int, float) for value in world.judge(honest).facts.values())


def test_codes_fit_the_ledger_and_have_a_sentence() -> None:
    for code, sentence in SENTENCES.items():
        assert len(code.encode("ascii")) <= 32
        assert sentence.endswith(".")
        assert Rejection(code=code, detail="").sentence == sentence
    with pytest.raises(ValueError, match="unknown"):
        Rejection(code="dislike", detail="")
