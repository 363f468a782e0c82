"""SQLite files with a version: opened, brought up to date, or refused.

Decides how a database is opened (write-ahead log, so that readers and the writer do not wait for each other) and that
`PRAGMA user_version` counts the migrations that ran. Refuses a file that a newer program wrote.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

from ledger.errors import DatabaseTooNew

BUSY_TIMEOUT_S = 30.0
LEDGER_MIGRATIONS = (
    """
    CREATE TABLE IF NOT EXISTS transactions (
        id INTEGER PRIMARY KEY, scope TEXT NOT NULL, sender TEXT NOT NULL, nonce INTEGER NOT NULL,
        request TEXT NOT NULL, fee_wei TEXT NOT NULL, raw BLOB NOT NULL, hashes TEXT NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('open', 'mined', 'lost')));
    CREATE TABLE IF NOT EXISTS cursors
        (name TEXT, scope TEXT, next_block INTEGER NOT NULL, PRIMARY KEY (name, scope));
    """,
    """
    CREATE INDEX open_transactions ON transactions (scope, sender, state, nonce);
    """,
    """
    ALTER TABLE cursors ADD COLUMN block_hash BLOB;
    """,
)
"""Of the file that the transaction queue and the event cursors share."""


def open_database(path: Path | None, migrations: Sequence[str]) -> sqlite3.Connection:
    """The database at `path` (None: in memory), with all of `migrations` applied, each in a transaction of its own.

    In autocommit mode, to be shared between threads under the caller's lock. Migrations are never edited, only added.
    Raises `DatabaseTooNew`.
    """
    database = sqlite3.connect(
        path or ":memory:", check_same_thread=False, isolation_level=None, timeout=BUSY_TIMEOUT_S
    )
    try:
        database.execute("PRAGMA journal_mode = WAL")
        _migrate(database, path, migrations)
    except BaseException:
        database.close()
        raise
    return database


def _migrate(database: sqlite3.Connection, path: Path | None, migrations: Sequence[str]) -> None:
    while True:
        # Another process may be at it: the version counts only under the lock.
        database.execute("BEGIN IMMEDIATE")
        try:
            version = database.execute("PRAGMA user_version").fetchone()[0]
            if version > len(migrations):
                raise DatabaseTooNew(str(path), version, len(migrations))
            if version < len(migrations):
                for statement in filter(str.strip, migrations[version].split(";")):
                    database.execute(statement)
                database.execute(f"PRAGMA user_version = {version + 1}")
        except BaseException:
            database.execute("ROLLBACK")
            raise
        database.execute("COMMIT")
        if version == len(migrations):
            return
