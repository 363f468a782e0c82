"""The verifier process from inside: it tests itself before its first verdict, and knows what it accepted before."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from node.verifier_child import VerifierProcess
from rl.rollouts import write_rollouts
from rl.tasks import load_task
from tests.verify.conftest import CLAIM, UNSEEDED, World, write_checkpoint
from verify.prefill import TransformersPolicy
from verify.self_test import SelfTestFailed

TERMS = {"groups": 3, "samples": 6, "max_new_tokens": 40, "seeded": False}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("policy")
    write_checkpoint(made)
    return made


def started(index: Path | None, **bounds: float) -> VerifierProcess:
    process = VerifierProcess()
    process.start(
        task="arithmetic", rules=TERMS, thresholds=bounds, compute_type="auto", earlier=index and str(index)
    )  # fmt: skip
    return process


def call(process: VerifierProcess, folder: Path, path: Path, *, position: int, worker: str = "a1") -> dict[str, Any]:
    claim = replace(
        CLAIM, file_hash=hashlib.sha256(path.read_bytes()).digest(), position=position, worker="0x" + worker * 20
    )
    return process.judge(path=str(path), claim=asdict(claim), folders={"5": str(folder)})


@pytest.fixture(scope="module")
def file(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    scratch = tmp_path_factory.mktemp("file")
    world = World(folder=folder, policy=TransformersPolicy(folder), task=load_task("arithmetic"), scratch=scratch)
    path = scratch / "honest.parquet"
    write_rollouts(path, world.generate(rules=UNSEEDED))
    return path


def test_work_is_remembered_over_a_restart_and_told_from_its_copy(folder: Path, file: Path, tmp_path: Path) -> None:
    index = tmp_path / "earlier.sqlite"
    assert call(started(index), folder, file, position=8)["outcome"] == "accepted"
    process = started(index)
    assert call(process, folder, file, position=8)["outcome"] == "accepted", "the same entry again, after a restart"
    # The same problems and answers in a later entry: what a copier with the same draw would hand in.
    copied = call(process, folder, file, position=9)
    assert copied["outcome"] == "rejected"
    assert copied["rejection"]["code"] == "copy"


def test_rejected_work_is_not_remembered(folder: Path, file: Path) -> None:
    process = started(None)
    assert call(process, folder, file, position=8, worker="b2")["rejection"]["code"] == "problems"
    assert call(process, folder, file, position=9)["outcome"] == "accepted"


def test_the_pools_own_bounds_hold(folder: Path, file: Path) -> None:
    said = call(started(None, logprob_most=1e-6), folder, file, position=8)
    assert said["outcome"] == "accepted", "this machine's own arithmetic: no gap at all"
    assert said["facts"]["logprob_gap_max"] == 0.0
    assert started(None, exponent_mean=5.0)._rules.thresholds.exponent_mean == 5.0


def test_a_broken_machine_gives_no_verdict_and_is_asked_again(
    folder: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound = torch.nn.functional.scaled_dot_product_attention

    def broken(*tensors: torch.Tensor, **options: Any) -> torch.Tensor:
        return sound(*tensors, **options) * 1.5

    process = started(None)
    with monkeypatch.context() as patch:
        patch.setattr(torch.nn.functional, "scaled_dot_product_attention", broken)
        for _ in range(2):
            with pytest.raises(SelfTestFailed, match=r"no verdict is given. Set model.compute_type"):
                call(process, folder, file, position=8)
    assert call(process, folder, file, position=8)["outcome"] == "accepted"
