"""Answers on disk while they are made: a line a problem, appended, so that a long command goes on where it was stopped.

Decides when what lies there answers the same question (its first line says what was asked, in full), and how much of it
counts: whole parts, since a part is answered in one call. A line that was being written when the process was killed
is dropped. It refuses to mix two questions.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from node.errors import UserError
from node.whole_file import unwritten
from rl import flat_json
from rl.answers import Answers

MAX_LINE_BYTES = 16 << 20


class AnswerFile:
    """An open file of answers; a context. Nobody else can have it open."""

    def __init__(self, path: Path, question: Mapping[str, Any], *, part: int) -> None:
        """Open or make it.

        Args:
            question: what is asked, in JSON's types; what lies there must be answers to exactly this.
            part: problems that are answered in one call.

        Raises UserError.
        """
        self._path = path
        self.answers: list[Answers] = []
        """What is there, in the order in which it was asked."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("a+b")
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as fault:
            self._file.close()
            raise UserError(f"another command is writing {path}", fix="wait for it, or name another file") from fault
        except OSError as fault:
            raise unwritten(path, fault) from fault
        try:
            self._read(json.loads(json.dumps(question)), part)
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def append(self, answers: Sequence[Answers]) -> None:
        """One part more, on disk before this returns. Raises UserError."""
        self._write([asdict(one) for one in answers])
        self.answers += answers

    def _read(self, question: dict[str, Any], part: int) -> None:
        self._file.seek(0)
        ends: list[int] = []
        while (line := self._file.readline(MAX_LINE_BYTES)).endswith(b"\n"):
            document = self._document(line)
            if not ends:
                self._same(document, question)
            else:
                self.answers.append(self._answers(document))
            ends.append(self._file.tell())
        if not ends:
            if self._file.tell():
                raise self._foreign("its first line has no end")
            self._write([question])
            return
        whole = len(self.answers) // part * part
        if len(self.answers) < question["problems"]:
            del self.answers[whole:]
        self._file.truncate(ends[len(self.answers)])
        self._file.seek(0, os.SEEK_END)

    def _document(self, line: bytes) -> dict[str, Any]:
        try:
            document = flat_json.loads(line)
        except ValueError:
            document = None
        if not isinstance(document, dict):
            raise self._foreign("it is no file of answers")
        return document

    def _same(self, found: dict[str, Any], question: dict[str, Any]) -> None:
        others = [f"{key} was {found.get(key)!r}" for key in question if found.get(key) != question[key]]
        if others:
            raise self._foreign("it answers another question: " + ", ".join(others))

    def _answers(self, fields: dict[str, Any]) -> Answers:
        try:
            return Answers(**{k: tuple(v) if isinstance(v, list) else v for k, v in fields.items()})
        except TypeError as fault:
            raise self._foreign("it is no file of answers") from fault

    def _foreign(self, why: str) -> UserError:
        return UserError(
            f"{self._path} cannot be gone on with: {why}", fix="delete it, or name another file with --out"
        )

    def _write(self, documents: Sequence[Mapping[str, Any]]) -> None:
        try:
            self._file.write(b"".join(json.dumps(document).encode() + b"\n" for document in documents))
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as fault:
            raise unwritten(self._path, fault) from fault
