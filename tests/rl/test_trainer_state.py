"""Stopping between two steps changes nothing, and a state that does not fit is refused before it does harm."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from rl.batch import TrainingGroup
from rl.recipe import Recipe
from rl.state_files import FACTS, TENSORS, StateInvalid, largest_state_bytes
from rl.trainer import PolicyTrainer
from tests.rl.tiny_llama import VOCABULARY, write_llama

ROOT = Path(__file__).resolve().parents[2]
RECIPE = Recipe(learning_rate=1e-3, warmup_steps=5, optimizer_steps=2, grad_norm_clip=1.0)
SEED = 11
WORKER = """
import sys
from pathlib import Path
from tests.rl.test_trainer_state import resume, train
base, out, state, first, last = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]), int(sys.argv[5])
train(resume(base, Path(state), first) if state else resume(base, None, first), out, first, last)
"""


def groups(step: int) -> list[TrainingGroup]:
    """Four groups of three completions; the same for the same step."""
    rng = np.random.default_rng([SEED, step])
    return [
        TrainingGroup(
            problem_id=f"{step}/{number}",
            prompt_ids=tuple(rng.integers(1, VOCABULARY, 4).tolist()),
            completions=tuple(tuple(rng.integers(1, VOCABULARY, 3).tolist()) for _ in range(3)),
            rewards=(1.0, 0.0, float(number % 2)),
            behaviour_logprobs=((-2.0,) * 3,) * 3,
        )
        for number in range(4)
    ]


def resume(policy: Path, state: Path | None, version: int) -> PolicyTrainer:
    torch.set_num_threads(1)
    trainer = PolicyTrainer(policy, recipe=RECIPE, compute_type="float32")
    if state is not None:
        trainer.load_state(state, version)
    return trainer


def train(trainer: PolicyTrainer, out: Path, first: int, last: int) -> None:
    for step in range(first, last):
        trainer.step(groups(step))
        trainer.save(out / f"policy-{step + 1}", step=step, submissions=[f"{step:02x}"])
    trainer.save_state(out / f"state-{last}", last)


def in_a_process(policy: Path, out: Path, state: Path | str, first: int, last: int) -> None:
    argv = [sys.executable, "-c", WORKER, str(policy), str(out), str(state), str(first), str(last)]
    subprocess.run(argv, cwd=ROOT, check=True, env={"OMP_NUM_THREADS": "1", "PATH": "/usr/bin:/bin"})


def digest(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_llama(tmp_path_factory.mktemp("llama"))


@pytest.fixture
def kept(base: Path, tmp_path: Path) -> Path:
    """Policy 1 and state 1, just made."""
    train(resume(base, None, 0), tmp_path, 0, 1)
    return tmp_path


def test_four_steps_are_two_steps_a_stop_and_two_steps_in_a_new_process(base: Path, tmp_path: Path) -> None:
    straight, halved = tmp_path / "straight", tmp_path / "halved"
    in_a_process(base, straight, "", 0, 4)
    in_a_process(base, halved, "", 0, 2)
    in_a_process(halved / "policy-2", halved, halved / "state-2", 2, 4)
    for name in ("policy-3", "policy-4", "state-4"):
        assert digest(straight / name) == digest(halved / name), f"{name}, seed {SEED}"


def test_without_its_state_a_restart_is_another_training(base: Path, kept: Path) -> None:
    train(resume(kept / "policy-1", kept / "state-1", 1), kept / "with", 1, 2)
    train(resume(kept / "policy-1", None, 1), kept / "without", 1, 2)
    files = [digest(kept / name / "policy-2")["model.safetensors"] for name in ("with", "without")]
    assert files[0] != files[1], "else the test above would show nothing"


def test_no_half_state_and_none_larger_than_said(base: Path, kept: Path) -> None:
    state, policy = kept / "state-1", kept / "policy-1"
    assert sorted(path.name for path in kept.iterdir()) == ["policy-1", "state-1"]
    size_bytes = sum(path.stat().st_size for path in state.iterdir())
    assert size_bytes <= largest_state_bytes(sum(path.stat().st_size for path in policy.iterdir()))


def rewrite(change: Callable[[dict[str, torch.Tensor]], object]) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        tensors = {name: tensor.clone() for name, tensor in load_file(folder / TENSORS).items()}
        change(tensors)
        save_file(tensors, folder / TENSORS)

    return apply


def say(**facts: object) -> Callable[[Path], None]:
    honest = {"format": 2, "version": 1, "updates": 2}
    return lambda folder: (folder / FACTS).write_text(json.dumps(honest | facts))


NAME = "model.norm.weight"
DAMAGE = {
    "another version": (say(version=2), "policy 2"),
    "a negative count": (say(updates=-1), "out of range"),
    "a count that is none": (say(updates=True), "out of range"),
    "another format": (say(format=1), "format"),
    "no JSON": (lambda folder: (folder / FACTS).write_text("{"), "cannot be read"),
    "huge JSON": (lambda folder: (folder / FACTS).write_text(" " * 10_000), "larger"),
    "no tensors": (lambda folder: (folder / TENSORS).write_bytes(b"\xff" * 64), "cannot be read"),
    "no file": (lambda folder: (folder / TENSORS).unlink(), "cannot be read"),
    "a tensor missing": (rewrite(lambda t: t.pop(f"exp_avg/{NAME}")), "not this model's"),
    "a tensor too many": (rewrite(lambda t: t.update(more=torch.zeros(1))), "not this model's"),
    "another shape": (rewrite(lambda t: t.update({f"exp_avg/{NAME}": torch.zeros(1)})), "another shape"),
    "another type": (rewrite(lambda t: t.update({f"exp_avg/{NAME}": torch.zeros(32).double()})), "another shape"),
    "other weights": (rewrite(lambda t: t[f"weight/{NAME}"].mul_(1.1)), "are not those of policy 1"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_state_that_does_not_fit_is_refused_and_changes_nothing(kept: Path, damage: str) -> None:
    apply, message = DAMAGE[damage]
    apply(kept / "state-1")
    trainer = resume(kept / "policy-1", None, 1)
    before = {name: tensor.clone() for name, tensor in trainer._model.state_dict().items()}
    with pytest.raises(StateInvalid, match=message):
        trainer.load_state(kept / "state-1", 1)
    assert all(torch.equal(tensor, before[name]) for name, tensor in trainer._model.state_dict().items())
    assert not trainer._optimizer.state
