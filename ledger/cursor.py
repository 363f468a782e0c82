"""How far a reader of events has handled them, and which block that was, on disk.

Refuses to move a cursor back, except by `rewind`, where the chain has: handling may repeat (after a crash, after a
reorganisation; so it must be idempotent), never skip.
"""

from __future__ import annotations

import threading
from pathlib import Path

from ledger.database import LEDGER_MIGRATIONS, open_database

REWIND_BLOCKS = 64
"""Two epochs of Ethereum, after which its blocks are final; what is reorganised deeper is not read again."""
_ONE = "name = ? AND scope = ?"


class EventCursor:
    """The next block that the reader called `name` has to handle. `scope` keeps the cursors of deployments apart."""

    def __init__(self, path: Path | None, name: str, *, scope: str = "", start_block: int = 0) -> None:
        """`path=None` keeps it in memory. Raises `DatabaseTooNew`."""
        self._key, self._start_block = (name, scope), start_block
        self._read: tuple[int, bytes] | None = None
        self._lock = threading.Lock()
        self._db = open_database(path, LEDGER_MIGRATIONS)
        self._db.execute("INSERT OR IGNORE INTO cursors VALUES (?, ?, ?, NULL)", (*self._key, start_block))

    @property
    def next_block(self) -> int:
        """The first block not yet committed."""
        return self.position[0]

    @property
    def position(self) -> tuple[int, bytes | None]:
        """The next block, and the hash of the one before it where that is known."""
        with self._lock:
            return self._db.execute(f"SELECT next_block, block_hash FROM cursors WHERE {_ONE}", self._key).fetchone()

    def read(self, block: int, block_hash: bytes) -> None:
        """The chain has given events up to this block, which has this hash: for when it is committed."""
        with self._lock:
            self._read = (block, block_hash)

    def commit(self, block: int) -> None:
        """Everything up to and including `block` has been handled."""
        with self._lock:
            block_hash = self._read[1] if self._read is not None and self._read[0] == block else None
            self._db.execute(
                f"UPDATE cursors SET next_block = ?, block_hash = ? WHERE {_ONE} AND next_block <= ?",
                (block + 1, block_hash, *self._key, block),
            )

    def rewind(self) -> int:
        """Go back by REWIND_BLOCKS, though not to before the start; the next block then."""
        with self._lock:
            self._read = None
            self._db.execute(
                "UPDATE cursors SET next_block = max(min(next_block, ?), next_block - ?), block_hash = NULL "
                f"WHERE {_ONE}",
                (self._start_block, REWIND_BLOCKS, *self._key),
            )
        return self.next_block

    def close(self) -> None:
        with self._lock:
            self._db.close()
