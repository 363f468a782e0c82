"""Databases with a version: brought up to date whole or not at all, and never misread."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from ledger.database import open_database
from ledger.errors import DatabaseTooNew


def test_migrations_run_once_each_and_only_forward(tmp_path: Path) -> None:
    path = tmp_path / "db"
    first = ("CREATE TABLE a (x INTEGER); INSERT INTO a VALUES (1)",)
    open_database(path, first).close()
    both = (*first, "ALTER TABLE a ADD COLUMN y INTEGER NOT NULL DEFAULT 7")
    for _ in range(2):
        with closing(open_database(path, both)) as connection:
            assert connection.execute("SELECT * FROM a").fetchall() == [(1, 7)]
    with pytest.raises(DatabaseTooNew, match="version 2 of its tables, this program knows 1"):
        open_database(path, first)


def test_a_migration_that_fails_leaves_nothing_half_done(tmp_path: Path) -> None:
    path = tmp_path / "db"
    with pytest.raises(sqlite3.OperationalError):
        open_database(path, ("CREATE TABLE a (x INTEGER); CREATE TABLE a (x INTEGER)",))
    with closing(open_database(path, ("CREATE TABLE a (x INTEGER)",))) as connection:
        assert connection.execute("SELECT * FROM a").fetchall() == []
