from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import LlamaForCausalLM

from rl.head import token_statistics
from rl.packing import Group, pack, packed_length, plan_rows, split_by_tokens
from tests.rl.tiny_llama import VOCABULARY, make_llama, plain_forward


@pytest.fixture(scope="module")
def llama() -> LlamaForCausalLM:
    torch.set_num_threads(1)
    return make_llama()


def tokens(longest: int) -> st.SearchStrategy[tuple[int, ...]]:
    return st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=longest).map(tuple)


GROUPS = st.lists(st.tuples(tokens(12), st.lists(tokens(9), min_size=1, max_size=4).map(tuple)), min_size=1, max_size=4)
HARD: list[Group] = [
    ((1, 2, 3), ((4,), (5, 6, 7), (4,), (0,))),
    ((9,), ((0,),)),
    ((1, 2, 3), ((4, 5), (4, 5))),
]


@torch.inference_mode()
def check(llama: LlamaForCausalLM, groups: list[Group]) -> None:
    packed = pack(groups)
    assert len(packed.ids) == len(packed.positions) == sum(packed_length(*group) for group in groups)
    assert packed.allowed.shape == (len(packed.ids),) * 2
    hidden = llama.model(
        input_ids=torch.from_numpy(packed.ids)[None],
        position_ids=torch.from_numpy(packed.positions)[None],
        attention_mask=torch.from_numpy(packed.allowed)[None, None],
        use_cache=False,
    ).last_hidden_state[0, torch.from_numpy(packed.source_rows)]
    logprobs, _ = token_statistics(hidden, llama.lm_head.weight, torch.from_numpy(packed.targets))
    alone = [plain_forward(llama, prompt, completion) for prompt, members in groups for completion in members]
    assert packed.targets.tolist() == [t for _, members in groups for completion in members for t in completion]
    torch.testing.assert_close(hidden, torch.cat([states for states, _ in alone]), rtol=0, atol=1e-5)
    torch.testing.assert_close(logprobs, torch.cat([each for _, each in alone]), rtol=0, atol=1e-5)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(groups=GROUPS)
def test_a_packed_row_computes_what_separate_rows_do(llama: LlamaForCausalLM, groups: list[Group]) -> None:
    check(llama, groups)


def test_completions_of_one_token_and_repeated_groups(llama: LlamaForCausalLM) -> None:
    check(llama, HARD)


@settings(derandomize=True)
@given(groups=GROUPS)
def test_no_token_sees_another_group_or_another_completion(groups: list[Group]) -> None:
    packed = pack(groups)
    at = 0
    for prompt, completions in groups:
        end = at + packed_length(prompt, completions)
        inside = packed.allowed[at:end]
        assert not inside[:, :at].any()
        assert not inside[:, end:].any()
        rows = inside.sum(axis=1)
        assert (rows == packed.positions[at:end] + 1).all(), "as many tokens as come before it in its own sequence"
        at = end
    assert at == len(packed.ids)


@pytest.mark.parametrize("group", [((), ((1,),)), ((1,), ((2,), ()))])
def test_nothing_empty_is_packed(group: Group) -> None:
    with pytest.raises(ValueError, match="empty"):
        pack([group])


@settings(derandomize=True)
@given(groups=GROUPS, limit=st.integers(1, 60))
def test_split_keeps_every_group_once_in_order_within_the_limit(groups: list[Group], limit: int) -> None:
    parts = split_by_tokens(groups, limit)
    sizes = [packed_length(*group) for group in groups]
    assert [index for part in parts for index in part] == list(range(len(groups)))
    assert all(len(part) == 1 or sum(sizes[index] for index in part) <= limit for part in parts)
    for before, after in pairwise(parts):
        assert sum(sizes[index] for index in before) + sizes[after[0]] > limit, "no part could have taken more"


def test_nothing_is_split_into_nothing() -> None:
    assert split_by_tokens([], 10) == []
    assert np.asarray(pack(HARD).ids).dtype == np.int64


@settings(derandomize=True)
@given(groups=GROUPS, limit=st.integers(1, 60))
def test_a_plan_holds_every_completion_once_and_no_row_beyond_its_bound(groups: list[Group], limit: int) -> None:
    plan = plan_rows(groups, limit)
    placed = [(piece.group, number) for row in plan.rows for piece in row for number in piece.completions]
    assert sorted(placed) == [(g, n) for g, (_, completions) in enumerate(groups) for n in range(len(completions))]
    alone = 0
    for row in plan.rows:
        for piece in row:
            prompt, completions = groups[piece.group]
            assert piece.tokens == packed_length(prompt, [completions[number] for number in piece.completions])
            if len(prompt) + len(completions[piece.completions[0]]) - 1 > limit:
                alone += 1
                assert len(row) == len(piece.completions) == 1
        assert sum(piece.tokens for piece in row) <= limit or len(row) == 1
    assert plan.overlong == alone
    assert plan.tokens <= plan.room
    assert plan == plan_rows(groups, limit)


@settings(derandomize=True)
@given(groups=GROUPS, limit=st.integers(30, 60))
def test_no_two_rows_would_fit_into_one(groups: list[Group], limit: int) -> None:
    sizes = sorted(sum(piece.tokens for piece in row) for row in plan_rows(groups, limit).rows)
    assert all(first + second > limit for first, second in pairwise(sizes))


def test_a_group_longer_than_a_row_is_broken_between_completions() -> None:
    groups: list[Group] = [((1,) * 10, ((2,) * 21, (3,) * 11, (4,) * 31, (5,) * 11)), ((6,), ((7, 8),))]
    plan = plan_rows(groups, 40)
    assert [[(piece.group, piece.completions, piece.tokens) for piece in row] for row in plan.rows] == [
        [(0, (2,), 40)], [(0, (0, 1), 40)], [(0, (3,), 20), (1, (0,), 2)],
    ]  # fmt: skip
    assert (plan.overlong, plan.tokens, plan.room) == (0, 102, 120)
    assert plan_rows(groups, 30).overlong == 1
    assert plan_rows(groups[:1], 30).room == 30 + 40 + 30, "the 20 that are left of the group, twice, and one of 40"
    assert plan_rows([((1,), ())], 30).rows == ()
