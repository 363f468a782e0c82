"""Cheats that the file itself gives away: one test each, named for the cheat."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rl.rollouts import Rollout, write_rollouts
from verify.rejection import SENTENCES, Rejection
from verify.rules import Claim
from verify.verdict import CheckFailed

Rollouts = tuple[Rollout, ...]


# --- endings


def test_text_going_on_after_eos(world, honest: Rollouts) -> None:
    row = next(n for n, r in enumerate(honest) if r.finish_reason == "length")
    ids = (*honest[row].completion_ids[:9], 0, *honest[row].completion_ids[10:])
    assert world.finding(world.edit(honest, row, completion_ids=ids)) == "rejected: ending"


def test_a_cut_completion_sold_as_finished(world, honest: Rollouts) -> None:
    row = next(n for n, r in enumerate(honest) if r.finish_reason == "length")
    assert world.finding(world.edit(honest, row, finish_reason="eos")) == "rejected: ending"


def test_a_completion_cut_short(world, honest: Rollouts) -> None:
    row = next(n for n, r in enumerate(honest) if r.finish_reason == "length")
    short = {"completion_ids": honest[row].completion_ids[:39], "logprobs": honest[row].logprobs[:39]}
    assert world.finding(world.edit(honest, row, **short)) == "rejected: ending"


# --- problems, copies


def test_easy_problems_instead_of_the_dictated_ones(world, honest: Rollouts) -> None:
    easy = world.task.problem(0).problem_id
    cheat = [replace(r, problem_id=easy) if r.group == 1 else r for r in honest]
    assert world.finding(cheat) == "rejected: problems"


def test_a_problem_id_of_another_environment(world, honest: Rollouts) -> None:
    cheat = world.edit(honest, 0, problem_id=honest[0].problem_id.replace("arithmetic/", "digits/"))
    assert world.finding(cheat) == "rejected: problems"


def test_the_right_problems_in_another_order(world, honest: Rollouts) -> None:
    moved = [replace(r, group=r.group ^ 1) if r.group < 2 else r for r in honest]
    assert world.finding(sorted(moved, key=lambda r: (r.group, r.sample))) == "rejected: problems"
    assert world.finding(moved) == "rejected: row-count"


def test_a_picked_counter(world, claim: Claim) -> None:
    far = replace(claim, counter=64)
    assert world.finding(world.generate(claim=far), far) == "rejected: problems"


def test_another_workers_file(world, honest: Rollouts, claim: Claim) -> None:
    assert world.finding(honest, replace(claim, worker="0x" + "b2" * 20)) == "rejected: problems"


def test_a_file_of_another_run_or_pool(world, honest: Rollouts, claim: Claim) -> None:
    assert world.finding(honest, replace(claim, run_id=b"q" * 32)) == "rejected: problems"


def test_the_own_file_of_an_earlier_step_or_counter(world, honest: Rollouts, claim: Claim) -> None:
    assert world.finding(honest, replace(claim, step=6)) == "rejected: problems"
    assert world.finding(honest, replace(claim, counter=1)) == "rejected: problems"


def test_a_prompt_with_an_extra_token(world) -> None:
    assert world.finding(world.generate(prompt_prefix=(1,))) == "rejected: prompt"


# --- scalars


@pytest.mark.parametrize("reward", [float("nan"), float("inf"), -1.0, 1e9, 1.0001])
def test_impossible_rewards(world, honest: Rollouts, reward: float) -> None:
    assert world.finding(world.edit(honest, 2, reward=reward)) == "rejected: bounds"


def test_a_reward_for_a_wrong_answer(world, honest: Rollouts) -> None:
    assert world.finding(world.edit(honest, 2, reward=1.0 - honest[2].reward)) == "rejected: reward"


@pytest.mark.parametrize("token", [-1, 98, 2**31 - 1])
def test_token_ids_outside_the_vocabulary(world, honest: Rollouts, token: int) -> None:
    cheat = world.edit(honest, 2, completion_ids=(token, *honest[2].completion_ids[1:]))
    assert world.finding(cheat) == "rejected: bounds"


@pytest.mark.parametrize(
    "changes",
    [
        {"completion_ids": (), "logprobs": (), "proofs": ()},
        {"completion_ids": (5,) * 41, "logprobs": (-1.0,) * 41},
        {"logprobs": ()},
        {"logprobs": (float("-inf"),), "completion_ids": (0,)},
        {"logprobs": (float("nan"),), "completion_ids": (0,)},
        {"logprobs": (0.5,), "completion_ids": (0,)},
        {"finish_reason": "stop"},
    ],
)
def test_values_out_of_bounds(world, honest: Rollouts, changes: dict) -> None:
    assert world.finding(world.edit(honest, 1, **changes)) == "rejected: bounds"


def test_a_policy_that_does_not_exist_yet(world, honest: Rollouts) -> None:
    for version in (6, -1, 2**62):
        assert world.finding([replace(r, policy_version=version) for r in honest]) == "rejected: version"


def test_several_policies_in_one_file(world, honest: Rollouts) -> None:
    assert world.finding(world.edit(honest, 1, policy_version=4)) == "rejected: version"


def test_a_text_that_is_not_what_the_tokens_say(world, honest: Rollouts) -> None:
    row = next(n for n, r in enumerate(honest) if r.finish_reason == "length")
    assert world.finding(world.edit(honest, row, text="The answer is 7.")) == "rejected: text"


# --- files


def test_rows_missing_or_added(world, honest: Rollouts) -> None:
    assert world.finding(honest[:-1]) == "rejected: row-count"
    assert world.finding(()) == "rejected: row-count"
    assert world.finding((*honest, honest[0])) == "rejected: schema"


def test_a_file_changed_after_its_hash_was_recorded(world, honest: Rollouts, claim: Claim, tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_rollouts(path, honest)
    assert world.finding_of_file(path, replace(claim, file_hash=bytes(32))) == "rejected: hash"


@pytest.mark.parametrize("kind", ["empty", "text", "footer cut off", "a column more", "another type", "zstd"])
def test_files_that_are_not_the_agreed_parquet(
    world, honest: Rollouts, claim: Claim, tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "file"
    write_rollouts(path, honest)
    whole, table = path.read_bytes(), pq.read_table(path)
    if kind == "a column more":
        pq.write_table(table.append_column("extra", pa.array([0] * len(honest))), path)
    elif kind == "another type":
        pq.write_table(table.set_column(0, "step", table["step"].cast(pa.int32())), path)
    elif kind == "zstd":
        pq.write_table(table, path, compression="ZSTD")
    else:
        path.write_bytes({"empty": b"", "text": b"step\n5\n", "footer cut off": whole[:-9]}[kind])
    digest = hashlib.sha256(path.read_bytes()).digest()
    code = "size" if kind == "empty" else "schema"
    assert world.finding_of_file(path, replace(claim, file_hash=digest)) == f"rejected: {code}"


# --- no credit, no punishment


def test_stale_late_and_unavailable_work_is_not_punished(world, honest: Rollouts, claim: Claim) -> None:
    assert world.finding([replace(r, policy_version=2) for r in honest]) == "late: stale"
    assert world.finding(honest, replace(claim, open_step=6)) == "late: late"
    assert world.finding_of_file(None, claim) == "late: unavailable"


def test_a_crash_in_a_checker_is_no_verdict(world, honest: Rollouts, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_: object, **__: object) -> None:
        raise MemoryError("no room")

    monkeypatch.setattr(type(world.policy), "prefill", crash)
    with pytest.raises(CheckFailed, match="MemoryError: no room"):
        world.judge(honest)


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
