"""Answers on disk: gone on with where a part was whole, and never mixed with those to another question."""

from __future__ import annotations

from pathlib import Path

import pytest

from node.answer_file import AnswerFile
from node.errors import UserError
from rl.answers import Answers

PART = 4
QUESTION = {"format": 1, "task": "ab", "problems": 10, "seed": 0, "targets": (1, 2)}


def one(number: int) -> Answers:
    return Answers(problem_id=f"p{number}", rewards=(1.0, 0.0), tokens=(3, 4), cut=(False, True), target=None)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "new" / "kept.answers.jsonl"
    with AnswerFile(path, QUESTION, part=PART) as file:
        assert file.answers == []
        file.append([one(n) for n in range(4)])
        file.append([one(n) for n in range(4, 8)])
    return path


def reread(path: Path, question: dict[str, object] = QUESTION) -> list[Answers]:
    with AnswerFile(path, question, part=PART) as file:
        return list(file.answers)


def test_what_was_answered_is_there_again(path: Path) -> None:
    assert reread(path) == [one(n) for n in range(8)]
    with AnswerFile(path, QUESTION, part=PART) as file:
        file.append([one(8), one(9)])
    assert reread(path) == [one(n) for n in range(10)], "the last part is whole with two"


@pytest.mark.parametrize("lost", [1, 30, 120, 400])
def test_a_part_that_was_being_written_is_asked_again(path: Path, lost: int) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[:-lost])
    kept = reread(path)
    assert kept == [one(n) for n in range(4)]
    with AnswerFile(path, QUESTION, part=PART) as file:
        file.append([one(n) for n in range(4, 8)])
    assert path.read_bytes() == whole


@pytest.mark.parametrize("change", [{"seed": 1}, {"task": "cd"}, {"targets": (1,)}, {"problems": 11}])
def test_answers_to_another_question_are_refused_and_kept(path: Path, change: dict[str, object]) -> None:
    before = path.read_bytes()
    with pytest.raises(UserError, match=f"another question: {next(iter(change))} was"):
        reread(path, QUESTION | change)
    assert path.read_bytes() == before


@pytest.mark.parametrize("foreign", [b"a note\n", b"a note", b"[1]\n", b'{"format": 1'])
def test_a_file_of_something_else_is_refused_and_kept(tmp_path: Path, foreign: bytes) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(foreign)
    with pytest.raises(UserError, match="cannot be gone on with"):
        reread(path)
    assert path.read_bytes() == foreign


def test_two_commands_do_not_write_one_file(path: Path) -> None:
    with AnswerFile(path, QUESTION, part=PART), pytest.raises(UserError, match="another command is writing"):
        reread(path)


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot write"):
        AnswerFile(tmp_path / "file" / "a.jsonl", QUESTION, part=PART)
