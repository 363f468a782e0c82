"""Copied work is known, its author is not accused, and equal short answers are nobody's fault."""

from __future__ import annotations

from dataclasses import replace
from math import exp, log
from pathlib import Path

import numpy as np
import pytest

from rl.rollouts import Rollout
from tests.verify.conftest import UNSEEDED
from verify.chance import FALSE_ALARM
from verify.copies import check_copy, copy_surprise
from verify.earlier import EarlierWork

Rollouts = tuple[Rollout, ...]
RUN = b"r" * 32


@pytest.fixture
def later(claim):
    return replace(claim, worker="0x" + "b2" * 20, position=9)


def indexed(rollouts: Rollouts, *, position: int = 8) -> EarlierWork:
    index = EarlierWork(None)
    index.add(RUN, position, b"1" * 32, rollouts)
    return index


def re_signed(world, rollouts: Rollouts, claim) -> Rollouts:
    """Somebody else's answers to the same problems, proved again: where the dictated problems happen to be the same."""
    own = world.generate(claim=claim, rules=UNSEEDED, seed=7)
    texts = []
    for theirs, mine in zip(rollouts, own, strict=True):
        problem = next(p for p in map(world.task.problem, range(world.task.size)) if p.problem_id == mine.problem_id)
        worth = world.task.reward(problem, theirs.text, theirs.finish_reason == "eos")
        texts.append(
            replace(mine, completion_ids=theirs.completion_ids, text=theirs.text, reward=worth,
                    finish_reason=theirs.finish_reason)
        )  # fmt: skip
    return world.prove(texts)


def for_the_same_problems(rollouts: Rollouts, own: Rollouts) -> Rollouts:
    """What the index would hold, had those rollouts been for these problems."""
    return tuple(replace(r, problem_id=o.problem_id) for r, o in zip(rollouts, own, strict=True))


def test_another_workers_answers_proved_again(world, later) -> None:
    theirs = world.generate(rules=UNSEEDED, seed=3)
    cheat = re_signed(world, theirs, later)
    index = indexed(for_the_same_problems(theirs, cheat))
    assert world.finding(cheat, later, rules=UNSEEDED, earlier=index) == "rejected: copy"
    assert world.finding(cheat, later, rules=UNSEEDED) == "accepted", "nothing else can tell"
    assert world.finding(cheat, later, earlier=index, without={"copy"}) == "rejected: sampling"


def edited(rollout: Rollout, edit: str) -> tuple[int, ...]:
    ids = list(rollout.completion_ids)
    if len(ids) > 12:
        if edit == "two tokens changed":
            ids[3], ids[9] = 3 + (ids[3] - 2) % 95, 3 + (ids[9] - 2) % 95
        elif edit == "a token put in":
            ids = [*ids[:6], 40, *ids[6:-2], ids[-1]]
        elif edit == "the beginning replaced":
            ids[:6] = [50, 51, 52, 53, 54, 55]
    return tuple(ids)


@pytest.mark.parametrize("edit", ["two tokens changed", "a token put in", "the beginning replaced"])
def test_near_copies(world, later, edit: str) -> None:
    theirs = world.generate(rules=UNSEEDED, seed=3)
    changed = [
        replace(r, completion_ids=ids, text=world.policy.tokenizer.decode(list(ids), skip_special_tokens=True))
        for r in theirs
        for ids in [edited(r, edit)]
    ]
    cheat = re_signed(world, tuple(changed), later)
    index = indexed(for_the_same_problems(theirs, cheat))
    assert world.finding(cheat, later, rules=UNSEEDED, earlier=index) == "rejected: copy"


def test_the_author_is_not_accused_whenever_the_copy_was_judged(world, later, claim) -> None:
    theirs = world.generate(rules=UNSEEDED, seed=3)
    own = replace(claim, position=8)
    index = indexed(theirs, position=9)
    assert world.finding(theirs, own, rules=UNSEEDED, earlier=index) == "accepted", "the copy was recorded later"
    index = indexed(theirs, position=8)
    assert world.finding(theirs, own, rules=UNSEEDED, earlier=index) == "accepted", "it is no copy of itself"


def test_honest_work_beside_much_honest_work_is_accepted(world, later) -> None:
    index = EarlierWork(None)
    for seed in range(10, 16):
        index.add(RUN, seed - 10, bytes([seed]) * 32, world.generate(claim=later, rules=UNSEEDED, seed=seed))
    for seed in range(2, 4):
        verdict = world.judge(
            world.generate(claim=later, rules=UNSEEDED, seed=seed), later, rules=UNSEEDED, earlier=index
        )
        assert verdict.outcome == "accepted"
        assert -9 < verdict.facts["copy_log_surprise"] < 0


def answer(tokens: tuple[int, ...], sample: int = 0) -> Rollout:
    return Rollout(
        step=0, policy_version=0, counter=0, group=0, sample=sample, problem_id="p", prompt_ids=(1,),
        completion_ids=tokens, text="", logprobs=(), finish_reason="eos", reward=0.0, proofs=(),
    )  # fmt: skip


def test_equal_short_answers_of_a_confident_policy_are_no_copies() -> None:
    answers = [answer((4, 5, 0), n) for n in range(64)]
    sure = [np.log(np.array([0.97, 0.98, 0.99], dtype=np.float32))] * 64
    surprises = copy_surprise(answers, sure, [[(4, 5, 0)] * 64] * 64)
    assert check_copy(answers, surprises) is None
    assert sum(surprises) < 2


def test_bettors_have_on_average_no_more_than_before() -> None:
    """Honest samples of a two-token chain, beside earlier samples of the same chain."""
    rng = np.random.default_rng(0)
    odds = np.array([0.6, 0.25, 0.1, 0.05])

    def sample() -> tuple[int, ...]:
        return tuple(rng.choice(4, size=12, p=odds).tolist())

    capitals = []
    for _ in range(4000):
        own = sample()
        logprobs = np.log(odds[list(own)]).astype(np.float32)
        (gained,) = copy_surprise([answer(own)], [logprobs], [[sample() for _ in range(4)]])
        capitals.append(exp(gained))
    assert 0.5 < np.mean(capitals) < 1.0
    assert max(map(log, capitals)) < -log(FALSE_ALARM)


def test_a_copy_pays_what_its_tokens_were_worth() -> None:
    rng = np.random.default_rng(1)
    own = tuple(rng.integers(0, 50, 40).tolist())
    logprobs = np.full(40, -2.0, dtype=np.float32)
    (gained,) = copy_surprise([answer(own)], [logprobs], [[own, tuple(reversed(own))]])
    assert 40 * 1.6 < gained < 40 * 2.0
    assert copy_surprise([answer(own)], [logprobs], [[]]) == (0.0,)
    assert copy_surprise([answer(own)], [logprobs], [[()]]) == (0.0,)
    rejection = check_copy([answer(own)], [gained])
    assert rejection is not None
    assert "group 0, sample 0" in rejection.detail


# --- the index


def test_the_index_keeps_runs_and_positions_apart_and_survives_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "earlier.sqlite"
    index = EarlierWork(path)
    index.add(RUN, 5, b"1" * 32, [answer((1, 2)), answer((3,))])
    index.add(RUN, 5, b"1" * 32, [answer((1, 2)), answer((3,))])
    index.add(RUN, 7, b"2" * 32, [answer((4,))])
    index.add(b"q" * 32, 5, b"1" * 32, [answer((9,))])
    index.close()
    index = EarlierWork(path)
    assert index.completions(RUN, "p", before=5) == []
    assert index.completions(RUN, "p", before=6) == [(1, 2), (3,)]
    assert index.completions(RUN, "p", before=8) == [(1, 2), (3,), (4,)]
    assert index.completions(RUN, "another", before=8) == []
    assert index.completions(b"q" * 32, "p", before=8) == [(9,)]


def test_the_index_keeps_the_newest_within_its_bounds() -> None:
    index = EarlierWork(None, max_problem_tokens=10, max_completions=6)
    for position in range(20):
        index.add(RUN, position, bytes([position]) * 32, [answer((position,) * 4)])
    assert index.completions(RUN, "p", before=99) == [(18,) * 4, (19,) * 4]
    index.add(RUN, 20, bytes([20]) * 32, [answer((7,) * 50)])
    assert index.completions(RUN, "p", before=99) == [(7,) * 10], "a long one is cut, not refused"
    for position in range(21, 40):
        other = replace(answer((position,)), problem_id=f"p{position}")
        index.add(RUN, position, bytes([position]) * 32, [other])
    kept = [position for position in range(21, 40) if index.completions(RUN, f"p{position}", before=99)]
    assert kept == list(range(34, 40))


@pytest.mark.parametrize("logprob", [-99.0, -709.9, -3e38])
def test_attack_a_copied_token_that_is_next_to_impossible_breaks_no_check(honest: Rollouts, logprob: float) -> None:
    tokens = honest[0].completion_ids[:8]
    copied = replace(honest[0], completion_ids=tokens)
    (odds,) = copy_surprise([copied], [np.full(len(tokens), logprob, np.float32)], [[tokens]])
    assert 90 * len(tokens) < odds < 100 * len(tokens)
    assert check_copy([copied], [odds]) is not None
