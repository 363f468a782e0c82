"""The contracts' logs as typed events, and how far a reader has handled them.

Decides which logs are events of ours and what a cursor remembers. Refuses to move a cursor back: handling may repeat
after a crash (so it must be idempotent), never skip.
"""

from __future__ import annotations

import re
import sqlite3
import threading
from pathlib import Path

from ledger import types
from ledger.abi import decode_log

_EVENTS = {kind.__name__: kind for kind in types.Event.__subclasses__()}
_RENAMED = {"stake": "stake_wei", "amount": "amount_wei", "min_stake": "min_stake_wei", "slash": "slash_wei"}
_PARSED = {"role": types.Role, "outcome": types.Outcome, "reason": types.reason_text}


def parse_log(log: dict) -> types.Event | None:
    """One entry of `eth_getLogs` or of a receipt as an event; None where it is not one that readers act on."""
    topics = [bytes.fromhex(topic[2:]) for topic in log["topics"]]
    decoded = decode_log(topics, bytes.fromhex(log["data"][2:])) if topics else None
    if decoded is None or decoded[0] not in _EVENTS:
        return None
    values = {}
    for name, value in decoded[1].items():
        snake = re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower()
        values[_RENAMED.get(snake, snake)] = _PARSED[snake](value) if snake in _PARSED else value
    return _EVENTS[decoded[0]](block=int(log["blockNumber"], 16), log_index=int(log["logIndex"], 16), **values)


class EventCursor:
    """The next block a named reader has to handle, on disk. `scope` keeps the cursors of deployments apart."""

    def __init__(self, path: Path, name: str, *, scope: str = "", start_block: int = 0) -> None:
        self._key = (name, scope)
        self._lock = threading.Lock()
        self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None, timeout=30)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute(
            "CREATE TABLE IF NOT EXISTS cursors"
            " (name TEXT, scope TEXT, next_block INTEGER NOT NULL, PRIMARY KEY (name, scope))"
        )
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
