"""What one account has signed and sent, in sqlite: on disk before it is on the wire.

Decides nothing: `ledger.transactions` does. Rows of another scope (chain, salt) or sender are never touched.
"""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass
from pathlib import Path

from ledger.database import LEDGER_MIGRATIONS, open_database

KEPT_ROWS = 1000


@dataclass(slots=True, kw_only=True)
class SentTransaction:
    """A nonce that this account used, with every signed version of its transaction."""

    row_id: int
    nonce: int
    request: str
    """The JSON of the call, gas included."""
    fee_wei: int
    raw: bytes
    """The newest version, as sent."""
    hashes: list[str]
    state: str
    """open, mined or lost."""

    @property
    def wish(self) -> str:
        """The JSON of the call as its sender asked for it, without the gas."""
        return json.dumps({name: value for name, value in json.loads(self.request).items() if name != "gas"})


class TransactionStore:
    """The rows of one scope and sender. Used under the queue's lock."""

    def __init__(self, path: Path | None, *, scope: str, sender: str) -> None:
        """Raises `DatabaseTooNew`."""
        self._key = (scope, sender)
        self._db = open_database(path, LEDGER_MIGRATIONS)

    def close(self) -> None:
        self._db.close()

    def add(self, request: str, nonce: int, fee_wei: int, raw: bytes, transaction_hash: str) -> SentTransaction:
        hashes = [transaction_hash]
        row_id = self._db.execute(
            "INSERT INTO transactions (scope, sender, nonce, request, fee_wei, raw, hashes, state)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, 'open')",
            (*self._key, nonce, request, str(fee_wei), raw, json.dumps(hashes)),
        ).lastrowid
        self._db.execute(
            "DELETE FROM transactions WHERE scope = ? AND sender = ? AND state <> 'open' AND id <= ?",
            (*self._key, row_id - KEPT_ROWS),
        )
        return SentTransaction(
            row_id=row_id, nonce=nonce, request=request, fee_wei=fee_wei, raw=raw, hashes=hashes, state="open"
        )

    def open_rows(self) -> list[SentTransaction]:
        """In the order of nonces."""
        return self._select("state = 'open' ORDER BY nonce")

    def get(self, row_id: int) -> SentTransaction | None:
        return next(iter(self._select("id = ?", row_id)), None)

    def set_state(self, row: SentTransaction, state: str) -> None:
        row.state = state
        self._db.execute("UPDATE transactions SET state = ? WHERE id = ?", (state, row.row_id))

    def replace(self, row: SentTransaction, fee_wei: int, raw: bytes, transaction_hash: str) -> None:
        """A new version of the transaction with a higher fee."""
        row.fee_wei, row.raw = fee_wei, raw
        row.hashes.append(transaction_hash)
        self._db.execute(
            "UPDATE transactions SET fee_wei = ?, raw = ?, hashes = ? WHERE id = ?",
            (str(fee_wei), raw, json.dumps(row.hashes), row.row_id),
        )

    def reopen_from(self, nonce: int) -> None:
        """What counted as mined and has a nonce that the chain does not know as used is open again."""
        self._db.execute(
            "UPDATE transactions SET state = 'open' WHERE scope = ? AND sender = ? AND state = 'mined' AND nonce >= ?",
            (*self._key, nonce),
        )

    def _select(self, condition: str, *values: object) -> list[SentTransaction]:
        rows: list[sqlite3.Row] = self._db.execute(
            "SELECT id, nonce, request, fee_wei, raw, hashes, state FROM transactions"
            f" WHERE scope = ? AND sender = ? AND {condition}",
            (*self._key, *values),
        ).fetchall()
        return [
            SentTransaction(
                row_id=row_id, nonce=nonce, request=request, fee_wei=int(fee), raw=raw, hashes=json.loads(hashes),
                state=state,
            )
            for row_id, nonce, request, fee, raw, hashes, state in rows
        ]  # fmt: skip
