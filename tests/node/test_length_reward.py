"""The length reward from settings to verdict: a worker's engine makes a file, a validator's process judges it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from node.config import parse_config
from node.engine_child import EngineProcess
from node.errors import ConfigError
from node.frames import FrameDecoder, encode_frame
from node.generation import _engine_options
from node.validator import verifier_options
from node.verifier_child import VerifierProcess
from rl.draw import draw_seed
from rl.lengths import draw_targets
from rl.numbers import as_stored
from rl.rollouts import Rollout, read_rollouts, write_rollouts
from rl.tasks import load_task
from verify.rules import Claim

SETTINGS = (
    "task.name=digits",
    "task.max_new_tokens=12",
    "task.length_targets=[2, 6, 12]",
    "task.length_alpha=0.01",
    "rl.groups_per_submission=3",
    "rl.group_size=4",
    "model.compute_type=float32",
    "model.max_model_len=256",
)
CLAIM = Claim(
    run_id=b"r" * 32, worker="0x" + "a1" * 20, step=5, counter=0, file_hash=b"", open_step=5, newest_version=5
)
SEED = draw_seed(CLAIM.run_id, CLAIM.step, CLAIM.worker, CLAIM.counter)


def over_the_pipe(options: dict[str, Any]) -> dict[str, Any]:
    """The options as the child process gets them."""
    (received,) = FrameDecoder().feed(encode_frame(options))
    return received


def made(model: Path, path: Path, *settings: str) -> tuple[Rollout, ...]:
    """A submission by a worker with these settings."""
    config = parse_config("", overrides=(*SETTINGS, *settings))
    engine = EngineProcess(lambda engine, folder: engine)
    engine.prepare(backend="transformers")
    engine.start(**over_the_pipe(_engine_options(config, model, CLAIM.worker)))
    engine.solve(
        path=str(path), step=5, policy_version=5, counter=0, draw_seed=SEED, groups=3, samples=4,
        seeded=config.rl.seeded,
    )  # fmt: skip
    return read_rollouts(path, max_rows=12)


def judging(model: Path, scratch: Path, *settings: str) -> Callable[[tuple[Rollout, ...]], tuple[str, str]]:
    """A validator with these settings: outcome and code of a file of rollouts."""
    config = parse_config("", overrides=(*SETTINGS, *settings))
    verifier = VerifierProcess()
    verifier.start(**over_the_pipe(verifier_options(config)), earlier=None)

    def judge(rollouts: tuple[Rollout, ...]) -> tuple[str, str]:
        path = scratch / "judged.parquet"
        write_rollouts(path, rollouts)
        claim = replace(CLAIM, file_hash=hashlib.sha256(path.read_bytes()).digest())
        said = verifier.judge(path=str(path), claim=asdict(claim), folders={"5": str(model)})
        return said["outcome"], (said["rejection"] or {"code": ""})["code"]

    return judge


@pytest.mark.parametrize("seeded", ["true", "false"])
def test_both_sides_count_the_same_miss(tiny_model: Path, tmp_path: Path, seeded: str) -> None:
    work = made(tiny_model, tmp_path / "work.parquet", f"rl.seeded={seeded}")
    judge = judging(tiny_model, tmp_path, f"rl.seeded={seeded}")
    task, targets = load_task("digits"), draw_targets(SEED, 3, (2, 6, 12))
    problems = {task.problem(index).problem_id: task.problem(index) for index in range(task.size)}
    for rollout in work:
        worth = task.reward(problems[rollout.problem_id], rollout.text, rollout.finish_reason == "eos")
        miss = abs(targets[rollout.group] - len(rollout.completion_ids))
        assert rollout.reward == as_stored(worth - 0.01 * miss)
    assert judge(work) == ("accepted", "")
    assert judge((replace(work[0], reward=as_stored(work[0].reward + 0.01)), *work[1:])) == ("rejected", "reward")


def test_worker_and_validator_of_different_settings_do_not_agree(tiny_model: Path, tmp_path: Path) -> None:
    work = made(tiny_model, tmp_path / "work.parquet")
    assert judging(tiny_model, tmp_path, "task.length_targets=[3, 5, 12]")(work)[1] == "prompt"
    assert judging(tiny_model, tmp_path, "task.length_targets=[12, 6, 2]")(work)[1] == "target-length"
    assert judging(tiny_model, tmp_path, "task.length_alpha=0.02")(work)[1] == "reward"
    bare = made(tiny_model, tmp_path / "bare.parquet", "task.length_targets=[]")
    assert judging(tiny_model, tmp_path)(bare)[1] == "target-length"


@pytest.mark.parametrize(
    ("targets", "told"),
    [
        ("[4, 4]", "names a length twice"),
        ("[4, 13]", "task.max_new_tokens 12 cuts off"),
        ("[0]", "list of integers, at most 64 long, ≥ 1, ≤ 32768"),
        ("[2.5]", "list of integers"),
    ],
)
def test_targets_that_make_no_sense_are_refused(targets: str, told: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_config("", overrides=("task.max_new_tokens=12", f"task.length_targets={targets}"))
    assert told in str(refused.value)


def test_the_settings_survive_the_file() -> None:
    config = parse_config("", overrides=SETTINGS)
    assert parse_config(config.to_toml()) == config
    assert config.task.length_targets == (2, 6, 12)
