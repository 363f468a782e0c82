"""Advantages and batches: what an accepted submission contributes to a step."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from rl.advantage import group_advantages
from rl.batch import TRAINED_ON, StepBatch, read_trained_on
from rl.rollouts import Rollout


def rollout(problem: str, reward: float, *, sample: int = 0, version: int = 3) -> Rollout:
    return Rollout(
        step=4, policy_version=version, counter=0, group=ord(problem[0]), sample=sample, problem_id=problem,
        prompt_ids=(1, 2), completion_ids=(5, 6 + sample, 0), text="", logprobs=(-1.0, -0.5, -0.1 * sample),
        finish_reason="eos", reward=reward, proofs=(b"p",),
    )  # fmt: skip


def group(problem: str, *rewards: float) -> list[Rollout]:
    return [rollout(problem, reward, sample=sample) for sample, reward in enumerate(rewards)]


def test_advantages_of_one_right_and_one_wrong() -> None:
    np.testing.assert_allclose(group_advantages(np.array([1.0, 0.0])), [2**-0.5, -(2**-0.5)], rtol=1e-12)


def test_advantages_have_mean_zero_and_unbiased_deviation_one() -> None:
    rewards = np.random.default_rng(1).normal(size=9)
    advantages = group_advantages(rewards)
    assert advantages.mean() == pytest.approx(0, abs=1e-12)
    assert advantages.std(ddof=1) == pytest.approx(1)
    np.testing.assert_allclose(group_advantages(3 * rewards + 5), advantages, rtol=1e-9)


@pytest.mark.parametrize("rewards", [[], [1.0], [0.1] * 3, [0.0, 0.0], [1.0] * 16])
def test_a_group_without_a_difference_has_no_advantage(rewards: list[float]) -> None:
    assert group_advantages(np.array(rewards)).tolist() == [0.0] * len(rewards)


@pytest.mark.parametrize("rewards", [[1.0, float("nan")], [float("inf"), 0.0], [[1.0, 0.0]]])
def test_rewards_that_are_no_numbers_are_refused(rewards: list[float]) -> None:
    with pytest.raises(ValueError, match="finite"):
        group_advantages(np.array(rewards))


def test_permuting_a_group_permutes_its_advantages() -> None:
    rewards = np.array([1.0, 0.0, 0.0, 0.5, 1.0])
    order = [3, 0, 4, 2, 1]
    np.testing.assert_allclose(group_advantages(rewards[order]), group_advantages(rewards)[order], rtol=1e-12)


def test_a_submission_counts_once() -> None:
    batch = StepBatch(step=4, wanted=2)
    for _ in range(3):
        batch.add(b"one", group("a", 1, 0))
    assert (len(batch.groups), batch.seen_groups, batch.rewards, batch.full) == (1, 1, [1, 0], False)
    batch.add(b"two", group("a", 1, 0))
    assert (len(batch.groups), batch.full) == (2, True), "another worker's group of that problem is another group"


def test_groups_are_formed_by_problem_whatever_the_order_of_rows() -> None:
    rows = [*group("a", 1, 0, 0), *group("b", 0, 1, 1), *group("c", 0, 0, 1)]
    ordered = StepBatch(step=4, wanted=3)
    ordered.add(b"s", rows)
    assert [g.rewards for g in ordered.batch()] == [(1, 0, 0), (0, 1, 1), (0, 0, 1)]
    for seed in range(20):
        shuffled = StepBatch(step=4, wanted=3)
        shuffled.add(b"s", random.Random(seed).sample(rows, len(rows)))
        assert shuffled.batch() == ordered.batch(), "to the last number"


def test_two_workers_with_the_same_problem_are_two_groups_whatever_the_order_of_rows() -> None:
    first, second = [*group("a", 1, 0), *group("b", 1, 0)], [*group("a", 0, 1), *group("b", 0, 0)]
    for seed in range(10):
        rng, batch = random.Random(seed), StepBatch(step=4, wanted=3)
        for name, rows in ((b"one", first), (b"two", second)):
            batch.add(name, rng.sample(rows, len(rows)))
        assert [(g.problem_id, g.rewards) for g in batch.batch()] == [("a", (1, 0)), ("b", (1, 0)), ("a", (0, 1))]


def test_groups_that_teach_nothing_are_dropped_but_count_in_the_reward() -> None:
    batch = StepBatch(step=4, wanted=1)
    batch.add(b"s", [*group("all right", 1, 1), *group("none", 0, 0), *group("some", 1, 0)])
    assert [g.problem_id for g in batch.groups] == ["some"]
    assert (batch.seen_groups, len(batch.rewards), np.mean(batch.rewards)) == (3, 6, 0.5)
    assert batch.lengths == [3] * 6
    assert batch.full
    assert batch.no_signal == 2
    assert not batch.dropped, "to teach nothing is no fault"


def test_without_the_filter_groups_that_teach_nothing_take_a_place() -> None:
    batch = StepBatch(step=4, wanted=2, online_filter=False)
    batch.add(b"s", [*group("all right", 1, 1), *group("some", 1, 0)])
    assert [g.problem_id for g in batch.batch()] == ["all right", "some"]
    assert (batch.no_signal, batch.used()) == (1, (b"s",))
    assert not group_advantages(np.array(batch.batch()[0].rewards)).any()


def test_a_file_that_is_not_to_be_had_is_counted_once_and_may_still_come() -> None:
    batch = StepBatch(step=4, wanted=1)
    for _ in range(2):
        batch.refuse(b"s", "not-served")
    batch.add(b"s", group("a", 1, 0))
    batch.refuse(b"s", "not-served")
    assert batch.dropped == {"not-served": 1}
    assert batch.full


def test_a_full_batch_is_exactly_what_was_wanted_the_earliest_first() -> None:
    batch = StepBatch(step=4, wanted=2)
    with pytest.raises(ValueError, match="0 of 2 groups"):
        batch.batch()
    for number in range(3):
        batch.add(bytes([number]), group(f"p{number}", 1, 0))
    assert [g.problem_id for g in batch.batch()] == ["p0", "p1"]


def test_policy_versions_are_remembered() -> None:
    batch = StepBatch(step=4, wanted=2)
    for problem, version in (("a", 2), ("b", 4)):
        batch.add(problem.encode(), [rollout(problem, n, sample=n, version=version) for n in (0, 1)])
    assert batch.versions == {2, 4}


@pytest.mark.parametrize("seed", range(20))
def test_a_batch_follows_from_the_order_of_outcomes_and_again_from_what_it_used(seed: int) -> None:
    """Events that come twice, later ones, and when one looks change nothing: two trainers train on the same groups."""
    rng = random.Random(seed)
    accepted = [
        (number.to_bytes(32, "big"), [r for g in range(3) for r in group(f"{number}/{g}", *rng.choices((0, 1), k=2))])
        for number in range(30)
    ]
    batch = StepBatch(step=4, wanted=8)
    for submission_id, rollouts in accepted:
        batch.add(submission_id, rollouts)
        if batch.full:
            break
    assert batch.full, f"seed {seed}"
    late = StepBatch(step=4, wanted=8)
    for submission_id, rollouts in accepted:
        for _ in range(rng.randint(1, 2)):
            late.add(submission_id, rollouts)
    assert late.batch() == batch.batch(), f"seed {seed}"
    assert late.used() == batch.used(), f"seed {seed}"
    again = StepBatch(step=4, wanted=8)
    for submission_id in batch.used():
        again.add(submission_id, dict(accepted)[submission_id])
    assert again.batch() == batch.batch(), f"seed {seed}"


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"step": 1}', '{"step": "1", "submissions": []}', '{"step": 1, "submissions": 7}',
             '{"step": 1, "submissions": ["zz"]}', '{"step": 1, "submissions": ["00"]}',
             '{"step": 1, "submissions": [1]}'],
)  # fmt: skip
def test_a_policy_that_does_not_say_what_it_was_trained_on(tmp_path: Path, text: str) -> None:
    (tmp_path / TRAINED_ON).write_text(text)
    assert read_trained_on(tmp_path) is None
