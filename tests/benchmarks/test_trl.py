"""The comparison with TRL, as far as it goes without TRL: its arithmetic, its processes, and our side of it."""

from __future__ import annotations

import os
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.learning import trl_env
from benchmarks.learning.item_trl import NEEDED_BYTES, OURS, THEIRS, cell, demand_memory, figures, table
from benchmarks.learning.items import NotRun
from benchmarks.learning.pair import SideFailed, in_turn
from benchmarks.learning.trl_cases import GROUP_SIZE, LONG, RECIPE, SHORT, Given, Setting, fixed, right_numbers, tokens
from rl.batch import TrainingGroup
from rl.recipe import Recipe
from rl.trainer import PolicyTrainer
from tests.rl.tiny_llama import VOCABULARY, write_llama

ECHO = (Path(sys.executable), "tests.benchmarks.echo_side")
TINY = Setting(name="tiny", groups=2, prompt=3, shortest=2, longest=5)


def took(cpu_s: float, *, peak: float = 100.0, norm: float = 2.0) -> dict[str, Any]:
    return {"cpu_s": cpu_s, "wall_s": 2 * cpu_s, "peak_mib": peak, "grad_norm": norm}


def rounds(ours: list[float], theirs: list[float], **changes: Any) -> list[dict[str, dict[str, Any]]]:
    return [{OURS: took(a, **changes), THEIRS: took(b, peak=400.0)} for a, b in zip(ours, theirs, strict=True)]


def test_the_first_round_is_left_out_and_ratios_are_within_a_round() -> None:
    found = cell(SHORT, False, 120, rounds([60.0, 1.0, 2.0, 4.0], [1.0, 3.0, 12.0, 16.0]))
    assert found["speed_ratios"] == [3.0, 6.0, 4.0]
    assert found["speed_ratio"] == found["wall_ratio"] == 4.0
    assert found["tokens_per_cpu_s"] == {OURS: 60.0, THEIRS: 10.0}
    assert found["memory_ratio"] == 0.25


def test_sides_that_did_not_do_the_same_work_are_not_compared() -> None:
    with pytest.raises(SideFailed, match="gradient norms"):
        cell(SHORT, False, 120, rounds([1.0, 1.0], [1.0, 1.0], norm=2.2))


def test_the_headline_is_the_least_favourable_cell_without_recomputation() -> None:
    cells = [
        cell(SHORT, False, 10, rounds([1.0, 1.0], [2.0, 2.0])),
        cell(LONG, False, 10, rounds([1.0, 1.0], [5.0, 5.0], peak=300.0)),
        cell(SHORT, True, 10, rounds([1.0, 1.0], [1.0, 1.0], peak=390.0)),
    ]
    found = figures(cells, {})
    assert (found["trl_speed_ratio"], found["trl_memory_ratio"]) == (2.0, 0.75)
    shown = table(cells, {OURS: [0.0] * 8 + [0.5] * 4, THEIRS: [0.1] * 12})
    assert "| short, 10 tokens | yes | 10 | 10 | **1.00** | 400 | 390 | **0.97** |" in shown
    assert "| ours | 0.00 | 0.50 |" in shown


def test_rollouts_are_reproducible_and_of_the_settings_shape() -> None:
    groups = LONG.rollouts(1000)
    assert groups == LONG.rollouts(1000)
    assert groups != LONG.rollouts(1000, seed=1)
    assert [len(group["prompt_ids"]) for group in groups] == [LONG.prompt] * LONG.groups
    lengths = [len(ids) for group in groups for ids in group["completions"]]
    assert len(lengths) == LONG.groups * GROUP_SIZE
    assert LONG.shortest <= min(lengths) < max(lengths) <= LONG.longest


def test_trl_is_given_each_groups_completions_with_their_rewards() -> None:
    groups = TINY.rollouts(VOCABULARY)
    given = Given(groups)
    prompts = [row["prompt"] for row in given.rows() for _ in range(GROUP_SIZE)]
    made = given.rollouts(prompts, trainer=None)
    assert made["completion_ids"] == [ids for group in groups for ids in group["completions"]]
    assert made["prompt_ids"] == [group["prompt_ids"] for group in groups for _ in range(GROUP_SIZE)]
    assert given.rewards(prompts) == [reward for group in groups for reward in group["rewards"]]


def test_a_completion_is_paid_for_its_last_number() -> None:
    assert right_numbers(["7", "It is 3 + 4 = 7.", "8", "none"], ["7"] * 4) == [1.0, 1.0, 0.0, 0.0]


def test_sides_step_in_turn_and_only_answers_are_read(tmp_path: Path) -> None:
    case = {"steps": 3, "ends_at": None, "bytes": 64 << 20}
    steps = list(in_turn(case, tmp_path, {"a": ECHO, "b": ECHO}))
    assert [{name: each["step"] for name, each in one.items()} for one in steps] == [{"a": n, "b": n} for n in range(3)]
    assert all(64 < each["peak_mib"] < 512 for one in steps for each in one.values())
    assert all(earlier["a"]["peak_mib"] <= later["a"]["peak_mib"] for earlier, later in pairwise(steps))


def test_a_side_that_ends_early_is_named_with_its_last_words(tmp_path: Path) -> None:
    case = {"steps": 3, "ends_at": 1, "bytes": 0}
    with pytest.raises(
        SideFailed, match=r"b gave no answer and ended with status 1; its last words: not an answer \| out of rollouts"
    ):
        list(in_turn(case, tmp_path, {"b": ECHO}))


def test_a_side_without_memory_is_not_taken_for_a_result(tmp_path: Path) -> None:
    with pytest.raises(SideFailed, match="was there enough memory"):
        list(in_turn({"steps": 1, "ends_at": 0, "bytes": 0, "killed": True}, tmp_path, {"b": ECHO}))
    demand_memory(NEEDED_BYTES)
    with pytest.raises(NotRun, match=r"need 11 GiB of memory and 10\.0 are free"):
        demand_memory(10 << 30)


def test_our_side_trains_as_the_trainer_does(tmp_path: Path) -> None:
    model = write_llama(tmp_path / "model")
    case = fixed(
        TINY, model=str(model), vocabulary=VOCABULARY, compute_type="float32", recompute=False, rounds=2,
        scratch=str(tmp_path),
    )  # fmt: skip
    ours = {OURS: (Path(sys.executable), "benchmarks.learning.own_side")}
    seen = [step[OURS]["grad_norm"] for step in in_turn(case, tmp_path, ours)]
    torch.set_num_threads(1)
    recipe = Recipe(optimizer_steps=1, warmup_steps=0, **RECIPE)
    trainer = PolicyTrainer(model, recipe=recipe, compute_type="float32")
    groups = [
        TrainingGroup(
            problem_id=str(number),
            prompt_ids=tuple(group["prompt_ids"]),
            completions=tuple(map(tuple, group["completions"])),
            rewards=tuple(group["rewards"]),
            behaviour_logprobs=tuple((0.0,) * len(ids) for ids in group["completions"]),
        )
        for number, group in enumerate(TINY.rollouts(VOCABULARY))
    ]
    assert seen == pytest.approx([trainer.step(groups).grad_norm for _ in range(2)], rel=1e-5)
    assert tokens(case) == sum(len(c) for group in groups for c in group.completions)


def test_where_pip_has_no_trl_the_fix_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "empty").mkdir()
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "empty"))
    with pytest.raises(NotRun, match=r"TRL 1\.16\.0 cannot be installed: .*trl==1\.16\.0.* Fix: give pip an index"):
        trl_env.prepare(tmp_path / "env", lambda words: None)
    assert not (tmp_path / "env" / "installed.txt").exists()


def test_an_environment_of_these_versions_is_used_again(tmp_path: Path) -> None:
    pins = trl_env.pins()
    assert pins[0] == "trl==1.16.0"
    assert f"torch=={torch.__version__.partition('+')[0]}" in pins
    (tmp_path / "installed.txt").write_text("\n".join(pins) + "\n")
    assert trl_env.prepare(tmp_path, lambda words: pytest.fail(words)) == tmp_path / "bin" / "python"
