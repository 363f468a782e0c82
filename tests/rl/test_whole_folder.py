"""A folder is there whole or not at all: after a fault, on a full disk, and beside a process that should be gone."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from safetensors import SafetensorError

from rl.trainer import PolicyTrainer, Recipe
from rl.whole_folder import whole_folder
from tests.rl.test_trainer_state import digest, groups
from tests.rl.tiny_llama import write_llama


@contextmanager
def files_of_at_most(size_bytes: int) -> Iterator[None]:
    """The kernel refuses to write more to a file, as it does where a disk is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def write(folder: Path, text: str) -> None:
    with whole_folder(folder) as partial:
        (partial / "file").write_text(text)


def test_it_replaces_what_was_there(tmp_path: Path) -> None:
    for text in ("old", "new"):
        write(tmp_path / "made", text)
        assert [path.name for path in tmp_path.iterdir()] == ["made"]
        assert (tmp_path / "made" / "file").read_text() == text


def test_a_fault_leaves_what_was_there_and_nothing_else(tmp_path: Path) -> None:
    write(tmp_path / "made", "old")

    def fail() -> None:
        with whole_folder(tmp_path / "made") as partial:
            (partial / "file").write_text("half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert [path.name for path in tmp_path.iterdir()] == ["made"]
    assert (tmp_path / "made" / "file").read_text() == "old"


def test_two_processes_never_write_into_one_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A training process whose node was killed has seconds to leave; its successor may be quicker."""

    def overtaken() -> None:
        with whole_folder(tmp_path / "made") as orphans:
            (orphans / "file").write_text("the orphan's")
            with monkeypatch.context() as another:
                another.setattr("os.getpid", lambda: 1)
                write(tmp_path / "made", "the successor's")
            (orphans / "more").write_text("")

    with pytest.raises(FileNotFoundError):
        overtaken()
    assert [path.name for path in tmp_path.iterdir()] == ["made"]
    assert [path.read_text() for path in (tmp_path / "made").iterdir()] == ["the successor's"]


def test_a_full_disk_costs_neither_the_old_policy_nor_the_old_state(tmp_path: Path) -> None:
    recipe = Recipe(learning_rate=1e-3, warmup_steps=0, optimizer_steps=1)
    trainer = PolicyTrainer(write_llama(tmp_path / "base"), recipe=recipe, compute_type="float32")
    policy, state = tmp_path / "run" / "policy-1", tmp_path / "run" / "state-1"
    trainer.save(policy, step=0, submissions=[])
    trainer.save_state(state, 1)
    before = digest(policy), digest(state)
    trainer.step(groups(0))
    for again in (lambda: trainer.save(policy, step=0, submissions=[]), lambda: trainer.save_state(state, 1)):
        with files_of_at_most(20_000), pytest.raises((SafetensorError, OSError), match="File too large"):
            again()
        assert (digest(policy), digest(state)) == before
        assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["policy-1", "state-1"]
    trainer.save(policy, step=0, submissions=[])
    trainer.save_state(state, 1)
    assert before[0]["model.safetensors"] != digest(policy)["model.safetensors"], "with room it is written"
