"""Accepted completions of the past, by problem: what a copy is recognised by.

An sqlite file that only the verifier process writes. It keeps the newest work within bounds that do not depend on how
many workers there are. It decides nothing about copying (`verify.copies`), and refuses rejected work: a thief who
records another's file first, and fails, must not become its author.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ledger.database import open_database
from rl.rollouts import Rollout

MAX_PROBLEM_TOKENS = 16_384
"""Tokens kept of one problem, the newest; each completion that is judged is compared with all of them."""
MAX_COMPLETIONS = 200_000
"""Completions kept in all; the oldest go first."""
_MIGRATIONS = (
    """
    CREATE TABLE completions (
        id INTEGER PRIMARY KEY AUTOINCREMENT, run BLOB NOT NULL, problem TEXT NOT NULL, position INTEGER NOT NULL,
        file BLOB NOT NULL, length INTEGER NOT NULL, tokens BLOB NOT NULL);
    CREATE INDEX by_problem ON completions (run, problem, position);
    CREATE INDEX by_file ON completions (run, file);
    """,
)


class EarlierWork:
    """The open index; it is `verify.copies.Earlier`."""

    def __init__(
        self,
        path: Path | None,
        *,
        max_problem_tokens: int = MAX_PROBLEM_TOKENS,
        max_completions: int = MAX_COMPLETIONS,
    ) -> None:
        """Open or create the file (None: in memory). Raises `ledger.errors.DatabaseTooNew`."""
        self._database = open_database(path, _MIGRATIONS)
        self._max_problem_tokens, self._max_completions = max_problem_tokens, max_completions

    def completions(self, run_id: bytes, problem_id: str, *, before: int) -> Sequence[tuple[int, ...]]:
        rows = self._database.execute(
            "SELECT tokens FROM completions WHERE run = ? AND problem = ? AND position < ? ORDER BY position, id",
            (run_id, problem_id, before),
        )
        return [tuple(np.frombuffer(tokens, dtype="<i4").tolist()) for (tokens,) in rows]

    def add(self, run_id: bytes, position: int, file_hash: bytes, rollouts: Sequence[Rollout]) -> None:
        """Remember an accepted submission, recorded at that ledger position. Twice the same is once."""
        with _transaction(self._database) as database:
            known = database.execute(
                "SELECT 1 FROM completions WHERE run = ? AND file = ? LIMIT 1", (run_id, file_hash)
            ).fetchone()
            if known:
                return
            for rollout in rollouts:
                tokens = rollout.completion_ids[: self._max_problem_tokens]
                database.execute(
                    "INSERT INTO completions (run, problem, position, file, length, tokens) VALUES (?, ?, ?, ?, ?, ?)",
                    (run_id, rollout.problem_id, position, file_hash, len(tokens), np.asarray(tokens, "<i4").tobytes()),
                )
            for problem in {rollout.problem_id for rollout in rollouts}:
                self._prune_problem(database, run_id, problem)
            database.execute(
                "DELETE FROM completions WHERE id <= (SELECT max(id) FROM completions) - ?", (self._max_completions,)
            )

    def close(self) -> None:
        self._database.close()

    def _prune_problem(self, database: sqlite3.Connection, run_id: bytes, problem: str) -> None:
        database.execute(
            """
            DELETE FROM completions WHERE id IN (
                SELECT id FROM (
                    SELECT id, sum(length) OVER (ORDER BY position DESC, id DESC) AS kept FROM completions
                    WHERE run = ? AND problem = ?
                ) WHERE kept > ?)
            """,
            (run_id, problem, self._max_problem_tokens),
        )


class _transaction:
    """All of a block's statements or none; the connection is in autocommit mode."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    def __enter__(self) -> sqlite3.Connection:
        self._database.execute("BEGIN IMMEDIATE")
        return self._database

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._database.execute("COMMIT" if kind is None else "ROLLBACK")
