"""Whatever row a completion lands in, its numbers land beside its own tokens."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rl.batch import TrainingGroup
from rl.micro_batches import micro_batches
from rl.packing import Group
from tests.rl.test_packing import GROUPS


def training_groups(groups: list[Group]) -> list[TrainingGroup]:
    """Log-probs that say which group, completion and token they are of."""
    return [
        TrainingGroup(
            problem_id=str(g), prompt_ids=prompt, completions=completions, rewards=(0.0,) * len(completions),
            behaviour_logprobs=tuple(
                tuple(-(10_000.0 * g + 100 * n + t) for t in range(len(tokens)))
                for n, tokens in enumerate(completions)
            ),
        )
        for g, (prompt, completions) in enumerate(groups)
    ]  # fmt: skip


@settings(derandomize=True)
@given(groups=GROUPS, limit=st.integers(1, 60))
def test_every_token_is_there_once_with_what_belongs_to_it(groups: list[Group], limit: int) -> None:
    trained = training_groups(groups)
    advantages = [np.arange(len(group.completions)) + 100.0 * g for g, group in enumerate(trained)]
    made = micro_batches(trained, advantages, limit)
    first = np.cumsum([0, *(len(group.completions) for group in trained)])
    seen = []
    for one in made:
        columns = (one.packed.targets, one.advantages, one.behaviour_logprobs, one.sequences, one.lengths)
        for target, advantage, logprob, sequence, length in zip(*columns, strict=True):
            g, n, t = (int(-logprob) // part % whole for part, whole in ((10_000, 100), (100, 100), (1, 100)))
            completion = trained[g].completions[n]
            assert (completion[t], len(completion)) == (target, length)
            assert (advantage, sequence) == (100 * g + n, first[g] + n)
            seen.append((g, n, t))
    tokens = [(g, n, t) for g, group in enumerate(trained) for n, c in enumerate(group.completions)
              for t in range(len(c))]  # fmt: skip
    assert sorted(seen) == tokens
    again = micro_batches(trained, advantages, limit)
    assert [one.sequences.tolist() for one in again] == [one.sequences.tolist() for one in made], "the same each time"


def test_numbers_that_do_not_fit_their_tokens_are_refused() -> None:
    (group,) = training_groups([((1, 2), ((3, 4), (5,)))])
    with pytest.raises(ValueError, match="1 advantages for the 2 completions"):
        micro_batches([group], [np.zeros(1)], 100)
    short = TrainingGroup(
        problem_id="p", prompt_ids=(1,), completions=((3, 4),), rewards=(1.0,), behaviour_logprobs=((-1.0,),)
    )
    with pytest.raises(ValueError, match="1 log-probabilities for 2 tokens"):
        micro_batches([short], [np.zeros(1)], 100)
