from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import combinations

import pytest

from tests.verify.conftest import RULES
from verify.audit import audit_catch, audited_count, audited_groups, share_needed


def test_every_group_is_audited_where_there_is_no_seed() -> None:
    assert audited_groups(b"", b"f" * 32, 5, 0.2) == (0, 1, 2, 3, 4)


@pytest.mark.parametrize(
    ("share", "groups", "count"), [(0.01, 4, 1), (0.25, 4, 1), (0.26, 4, 2), (0.3, 10, 3), (1, 7, 7)]
)
def test_a_share_is_rounded_up_and_never_nothing(share: float, groups: int, count: int) -> None:
    assert audited_count(share, groups) == count
    chosen = audited_groups(b"s" * 32, b"f" * 32, groups, share)
    assert len(set(chosen)) == count
    assert chosen == tuple(sorted(chosen))
    assert set(chosen) <= set(range(groups))


def test_the_draw_depends_on_block_and_file_and_treats_groups_alike() -> None:
    draws = [audited_groups(n.to_bytes(32, "big"), b"f" * 32, 8, 0.25) for n in range(4000)]
    counts = Counter(group for draw in draws for group in draw)
    assert all(abs(counts[group] - 1000) < 5 * 27.4 for group in range(8))
    others = [audited_groups(n.to_bytes(32, "big"), b"g" * 32, 8, 0.25) for n in range(4000)]
    assert sum(a == b for a, b in zip(draws, others, strict=True)) < 4000 / 28 * 1.5


@pytest.mark.parametrize(("groups", "cheated", "seen"), [(6, 1, 2), (6, 2, 3), (7, 6, 1), (5, 0, 3), (5, 5, 1)])
def test_the_chance_is_that_of_all_draws_counted(groups: int, cheated: int, seen: int) -> None:
    draws = list(combinations(range(groups), seen))
    caught = sum(any(group < cheated for group in draw) for draw in draws) / len(draws)
    assert audit_catch(seen / groups, groups, cheated) == pytest.approx(caught)
    assert audit_catch(seen / groups, groups, cheated, 3) == pytest.approx(1 - (1 - caught) ** 3)


def test_the_share_needed_is_the_least_that_is_sure_enough() -> None:
    assert share_needed(16, 16) == 1 / 16
    assert share_needed(16, 1) == 1.0
    for cheated, submissions in ((4, 1), (2, 5), (1, 20)):
        share = share_needed(16, cheated, submissions)
        assert (
            audit_catch(share, 16, cheated, submissions) >= 0.99 > audit_catch(share - 1 / 16, 16, cheated, submissions)
        )
    with pytest.raises(ValueError, match="where there is none"):
        share_needed(16, 0)


def test_only_audited_groups_cost_a_forward_pass_and_a_cheat_in_them_is_caught(world, honest) -> None:
    third = replace(RULES, audit_share=1 / 3)
    cheat = world.prove([replace(r, logprobs=()) for r in honest])
    cheat = tuple(replace(r, logprobs=(-9.0,) * len(r.logprobs)) if r.group == 1 else r for r in cheat)
    path, claim = world.record(cheat)
    for block in range(12):
        audited = replace(claim, audit_seed=block.to_bytes(32, "big"))
        met = audited_groups(audited.audit_seed, audited.file_hash, 3, 1 / 3) == (1,)
        assert world.finding_of_file(path, audited, rules=third) == ("rejected: logprobs" if met else "accepted")
        assert world.finding_of_file(path, audited) == "rejected: logprobs"
