"""What a node must not forget: one sqlite database per data folder, brought up to date step by step.

Decides how sequence numbers survive crashes (reserved on disk in blocks before they are used) and what a manager
remembers of nodes and an operator of orders. It refuses a database of a newer program rather than misread it, and to
give the same number twice. Used from one thread; a write is on the disk when the call returns.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from ledger.database import open_database
from ledger.errors import DatabaseTooNew
from node.errors import UserError
from node.life import REMEMBERED, State

FILE = "state.sqlite"
OLD_SEQUENCE_FILE = "record-sequence"
BLOCK = 1000
"""Numbers reserved at once: one write to disk for so many records."""
MIGRATIONS = (
    """
    CREATE TABLE sequences (name TEXT PRIMARY KEY, reserved INTEGER NOT NULL) WITHOUT ROWID;
    CREATE TABLE heard (
        kind TEXT NOT NULL, address TEXT NOT NULL, peer_id TEXT NOT NULL, sequence INTEGER NOT NULL,
        PRIMARY KEY (kind, address, peer_id)
    ) WITHOUT ROWID;
    CREATE TABLE lives (
        run BLOB NOT NULL, address TEXT NOT NULL, state TEXT NOT NULL, PRIMARY KEY (run, address)
    ) WITHOUT ROWID;
    """,
    """
    CREATE TABLE outbox (
        run BLOB NOT NULL, step INTEGER NOT NULL, counter INTEGER NOT NULL, file TEXT NOT NULL, sha256 BLOB NOT NULL,
        stage TEXT NOT NULL CHECK (stage IN ('made', 'handed over', 'recorded')), PRIMARY KEY (run, step, counter)
    );
    """,
)


class StateTooNew(UserError):
    """The database was written by a newer program."""


class StateDamaged(UserError):
    """The database cannot be read."""


class Counter:
    """Rising integers under one name, over restarts and crashes; the first is at least `start`."""

    def __init__(self, connection: sqlite3.Connection, name: str, start: int) -> None:
        self._connection, self._name = connection, name
        row = connection.execute("SELECT reserved FROM sequences WHERE name = ?", (name,)).fetchone()
        self._next = self._reserved = row[0] if row else start

    def next(self) -> int:
        """The next number."""
        if self._next >= self._reserved:
            self._reserved = self._next + BLOCK
            self._connection.execute("INSERT OR REPLACE INTO sequences VALUES (?, ?)", (self._name, self._reserved))
        self._next += 1
        return self._next - 1


class NodeState:
    """The open database of one node; `run_id` keeps what belongs to one run from another one's in the same folder."""

    def __init__(self, data_dir: Path, run_id: bytes = b"") -> None:
        """Raises StateTooNew, StateDamaged."""
        self.run_id = run_id
        path = data_dir / FILE
        try:
            self.connection = open_database(path, MIGRATIONS)
        except DatabaseTooNew as error:
            raise StateTooNew(
                str(error), fix="start the newer program again, or give this one another --data-dir"
            ) from error
        except sqlite3.DatabaseError as error:
            raise StateDamaged(
                f"{path} cannot be read: {error}",
                fix=f"restore {path.name} from a backup, or move it away to start anew",
            ) from error
        self.connection.execute("PRAGMA synchronous = FULL")
        path.chmod(0o600)
        self._take_over(data_dir / OLD_SEQUENCE_FILE)

    def close(self) -> None:
        """Ends the use of the database."""
        self.connection.close()

    def sequence(self, name: str, *, start: int) -> Counter:
        """The counter called `name`; one at a time of each name."""
        return Counter(self.connection, name, start)

    def note_heard(self, kind: str, address: str, peer_id: str, sequence: int) -> bool:
        """Remembers `sequence`; False (and nothing remembered) unless it is higher than every earlier one."""
        done = self.connection.execute(
            "INSERT INTO heard VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET sequence = excluded.sequence"
            " WHERE excluded.sequence > sequence",
            (kind, address, peer_id, sequence),
        )
        return done.rowcount == 1

    def lives(self) -> dict[str, State]:
        """The remembered states by address."""
        rows = self.connection.execute("SELECT address, state FROM lives WHERE run = ?", (self.run_id,))
        return {address: State(state) for address, state in rows}

    def note_life(self, address: str, state: State) -> None:
        """Remembers a state that the ledger does not tell; any other one is forgotten."""
        if state in REMEMBERED:
            self.connection.execute("INSERT OR REPLACE INTO lives VALUES (?, ?, ?)", (self.run_id, address, state))
        else:
            self.connection.execute("DELETE FROM lives WHERE run = ? AND address = ?", (self.run_id, address))

    def _take_over(self, old: Path) -> None:
        """The record sequence of an earlier version of this program, from its own file."""
        if not old.exists():
            return
        try:
            reserved = int(old.read_text())
        except ValueError as error:
            raise StateDamaged(
                f"{old} is not a sequence number", fix="restore it, or remove it to start anew"
            ) from error
        self.connection.execute(
            "INSERT INTO sequences VALUES ('record', ?)"
            " ON CONFLICT DO UPDATE SET reserved = max(reserved, excluded.reserved)",
            (reserved,),
        )
        old.unlink()
