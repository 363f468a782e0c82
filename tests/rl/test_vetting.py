"""Bad input: whatever an accepted file holds, each fault has its name and its count, and the sound groups go on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf, nan
from pathlib import Path

import numpy as np
import pytest

from rl.advantage import group_advantages
from rl.batch import StepBatch
from rl.rollouts import Rollout, read_rollouts, write_rollouts
from rl.trainer import PolicyTrainer, Recipe
from rl.vetting import FAULTS, LARGEST_REWARD, Bounds, vet
from tests.rl.tiny_llama import VOCABULARY, write_llama

STEP, COUNTER = 4, 2
BOUNDS = Bounds(asynchrony=2, group_size=3, vocabulary=VOCABULARY, max_tokens=12, max_new_tokens=8)


def rows_of(group: int) -> list[Rollout]:
    """A sound group of three, one of them right; the second completion is an EOS only."""
    return [
        Rollout(
            step=STEP, policy_version=3, counter=COUNTER, group=group, sample=sample, problem_id=f"p{group}",
            prompt_ids=(1, 2, 3), completion_ids=completion, text="", logprobs=(-1.0,) * len(completion),
            finish_reason="eos", reward=float(sample == 0), proofs=(b"p",),
        )
        for sample, completion in enumerate(((4, 5, 0), (0,), (6, 0)))
    ]  # fmt: skip


Spoil = Callable[[list[Rollout]], Sequence[Rollout]]


def one(**changes: object) -> Spoil:
    """The group with its second row changed."""
    return lambda rows: [rows[0], replace(rows[1], **changes), *rows[2:]]


def every(**changes: object) -> Spoil:
    return lambda rows: [replace(row, **changes) for row in rows]


def completion(ids: tuple[int, ...]) -> Spoil:
    return one(completion_ids=ids, logprobs=(-1.0,) * len(ids))


TABLE: list[tuple[str, Spoil, str]] = [
    ("a reward that is NaN", one(reward=nan), "reward"),
    ("an infinite reward", one(reward=-inf), "reward"),
    ("a reward beyond reason", one(reward=2 * LARGEST_REWARD), "reward"),
    ("rewards that are all NaN", every(reward=nan), "reward"),
    ("a group of one", lambda rows: rows[:1], "one-member"),
    ("a group that lacks a member", lambda rows: rows[:2], "group-size"),
    ("a completion twice", lambda rows: [rows[0], rows[0], rows[2]], "repeated-sample"),
    ("rollouts of two policies", one(policy_version=2), "two-policies"),
    ("a stale policy", every(policy_version=STEP - 3), "stale"),
    ("a policy that cannot exist yet", every(policy_version=STEP + 1), "future-policy"),
    ("two prompts for one problem", one(prompt_ids=(1, 2)), "two-prompts"),
    ("a token beyond the vocabulary", completion((VOCABULARY, 0)), "vocabulary"),
    ("a negative token", completion((-1, 0)), "vocabulary"),
    ("a prompt token beyond the vocabulary", every(prompt_ids=(1, 2, VOCABULARY)), "vocabulary"),
    ("a prompt longer than the context", every(prompt_ids=(1,) * 12), "too-long"),
    ("prompt and completion longer than the context", every(prompt_ids=(1,) * 10), "too-long"),
    ("a completion longer than asked for", completion((4,) * 8 + (0,)), "too-long"),
    ("an empty prompt", every(prompt_ids=()), "empty-rollout"),
    ("an empty completion", completion(()), "empty-rollout"),
    ("a log-probability too few", one(logprobs=()), "logprobs"),
    ("a log-probability that is NaN", one(logprobs=(nan,)), "logprobs"),
    ("an infinite log-probability", one(logprobs=(-inf,)), "logprobs"),
    ("a probability above 1", one(logprobs=(0.1,)), "logprobs"),
]


@pytest.mark.parametrize(("spoil", "fault"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_a_group_with_a_fault_is_left_out_and_counted_and_the_others_are_trained(
    tmp_path: Path, spoil: Spoil, fault: str
) -> None:
    """Through a real file, since that is how it comes."""
    path = tmp_path / "file"
    write_rollouts(path, (*rows_of(0), *spoil(rows_of(1)), *rows_of(2)))
    batch = StepBatch(step=STEP, wanted=2, bounds=BOUNDS)
    batch.add(b"s", read_rollouts(path, max_rows=9), counter=COUNTER)
    assert batch.dropped == {fault: 1}
    assert [group.problem_id for group in batch.batch()] == ["p0", "p2"]
    assert batch.rewards == [1.0, 0.0, 0.0] * 2, "what is left out is in no mean"
    assert (batch.seen_groups, batch.no_signal, batch.eos_only) == (2, 0, 2)


@pytest.mark.parametrize(
    ("rows", "counter", "fault"),
    [
        ([], COUNTER, "no-groups"),
        (every(step=STEP - 1)(rows_of(0)), COUNTER, "another-submission"),
        ([*rows_of(0), *every(step=STEP + 1)(rows_of(1))], COUNTER, "another-submission"),
        (rows_of(0), COUNTER + 1, "another-submission"),
    ],
    ids=["empty", "of another step", "of two steps", "handed in a second time"],
)
def test_a_file_of_another_submission_is_left_out_whole(rows: list[Rollout], counter: int, fault: str) -> None:
    batch = StepBatch(step=STEP, wanted=1, bounds=BOUNDS)
    batch.add(b"s", rows, counter=counter)
    assert (batch.dropped, batch.groups, batch.rewards, batch.full) == ({fault: 1}, [], [], False)


def test_every_fault_has_a_row_here_or_is_of_files_that_cannot_be_read() -> None:
    of_files = {"not-served", "unreadable", "no-groups", "another-submission"}
    assert {row[2] for row in TABLE} | of_files == FAULTS.keys()


def test_equal_rewards_are_no_fault_and_teach_nothing() -> None:
    batch = StepBatch(step=STEP, wanted=1, bounds=BOUNDS)
    batch.add(b"s", every(reward=1.0)(rows_of(0)), counter=COUNTER)
    assert (batch.no_signal, batch.dropped, batch.full) == (1, {}, False)


def test_without_bounds_only_what_cannot_be_trained_on_is_a_fault() -> None:
    rows = [*every(policy_version=0, prompt_ids=(10**6,) * 500)(rows_of(0))]
    assert vet(rows, step=STEP, counter=None, bounds=Bounds()).dropped == {}
    assert vet(completion((-1,))(rows), step=STEP, counter=None, bounds=Bounds()).dropped == {"vocabulary": 1}


def test_a_batch_with_eos_only_completions_trains(tmp_path: Path) -> None:
    """Two of three completions end at once: no NaN, and every token has its advantage."""
    batch = StepBatch(step=STEP, wanted=1, bounds=BOUNDS)
    rows = [replace(row, completion_ids=(0,), logprobs=(-1.0,)) if row.sample else row for row in rows_of(0)]
    batch.add(b"s", rows, counter=COUNTER)
    assert batch.eos_only == 2
    assert np.isfinite(group_advantages(np.array(batch.batch()[0].rewards))).all()
    trainer = PolicyTrainer(write_llama(tmp_path / "llama"), recipe=Recipe(), compute_type="float32")
    metrics = trainer.step(batch.batch())
    assert np.isfinite([metrics.loss, metrics.grad_norm, metrics.entropy, metrics.kl_behaviour]).all()
    assert metrics.trained_tokens == 5
    assert metrics.grad_norm > 0
