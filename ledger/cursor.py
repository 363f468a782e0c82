"""How far a reader of events has handled them, on disk.

Refuses to move a cursor back: handling may repeat after a crash (so it must be idempotent), never skip.
"""

from __future__ import annotations

import threading
from pathlib import Path

from ledger.database import LEDGER_MIGRATIONS, open_database


class EventCursor:
    """The next block that the reader called `name` has to handle. `scope` keeps the cursors of deployments apart."""

    def __init__(self, path: Path | None, name: str, *, scope: str = "", start_block: int = 0) -> None:
        """`path=None` keeps it in memory. Raises `DatabaseTooNew`."""
        self._key = (name, scope)
        self._lock = threading.Lock()
        self._db = open_database(path, LEDGER_MIGRATIONS)
        self._db.execute("INSERT OR IGNORE INTO cursors VALUES (?, ?, ?)", (*self._key, start_block))

    @property
    def next_block(self) -> int:
        """The first block not yet committed."""
        with self._lock:
            query = "SELECT next_block FROM cursors WHERE name = ? AND scope = ?"
            return self._db.execute(query, self._key).fetchone()[0]

    def commit(self, block: int) -> None:
        """Everything up to and including `block` has been handled."""
        with self._lock:
            self._db.execute(
                "UPDATE cursors SET next_block = max(next_block, ?) WHERE name = ? AND scope = ?",
                (block + 1, *self._key),
            )

    def close(self) -> None:
        with self._lock:
            self._db.close()
