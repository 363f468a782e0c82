"""What a validator has still to do, on disk: dockets to answer, verdicts to reveal, evidence to hand over, cases.

Decides nothing. A verdict is here before it is committed to on the ledger: after a restart exactly the same one is
revealed, and nobody is judged twice. It is not secret from whoever can read this node's folder.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ledger.database import open_database
from ledger.types import Kind, Outcome, Verdict

MIGRATIONS = (
    """
    CREATE TABLE dockets (
        scope TEXT NOT NULL, docket_id BLOB NOT NULL, kind INTEGER NOT NULL, block INTEGER NOT NULL,
        stage TEXT NOT NULL CHECK (stage IN ('waiting', 'committed', 'done')), look_at_s REAL NOT NULL DEFAULT 0,
        tries INTEGER NOT NULL DEFAULT 0, outcome INTEGER, units INTEGER, reason TEXT, evidence TEXT,
        evidence_hash BLOB, seconds REAL, PRIMARY KEY (scope, docket_id));
    CREATE TABLE cases (
        scope TEXT NOT NULL, docket_id BLOB NOT NULL, until_s REAL NOT NULL, PRIMARY KEY (scope, docket_id));
    """,
    """
    CREATE TABLE shown (
        scope TEXT NOT NULL, docket_id BLOB NOT NULL, validator TEXT NOT NULL, position TEXT NOT NULL,
        PRIMARY KEY (scope, docket_id, validator));
    CREATE TABLE evidence (
        scope TEXT NOT NULL, docket_id BLOB NOT NULL, data TEXT NOT NULL, PRIMARY KEY (scope, docket_id));
    """,
)
MAX_UNSENT = 1000
"""Pieces of evidence that wait for a relay; beyond it the oldest are given up."""
_COLUMNS = "docket_id, kind, block, tries, outcome, units, reason, evidence, evidence_hash, seconds"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A verdict with what it rests on."""

    verdict: Verdict
    evidence: str
    """JSON, whose SHA-256 the verdict names."""
    seconds: float
    """How long the checks took."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A docket that this validator knows of."""

    docket_id: bytes
    kind: Kind
    block: int
    """Of the submission, or of the appeal."""
    tries: int
    """How often its checks were begun and did not end."""
    finding: Finding | None


class Dockets:
    """The entries of one deployment (`scope`)."""

    def __init__(self, path: Path | None, scope: str) -> None:
        """Raises `DatabaseTooNew`."""
        self._db, self._scope = open_database(path, MIGRATIONS), scope

    def close(self) -> None:
        self._db.close()

    def add(self, docket_id: bytes, kind: Kind, block: int) -> None:
        """To be answered; what is known already stays as it is."""
        self._db.execute(
            "INSERT OR IGNORE INTO dockets (scope, docket_id, kind, block, stage) VALUES (?, ?, ?, ?, 'waiting')",
            (self._scope, docket_id, int(kind), block),
        )

    def waiting(self, now_s: float) -> Entry | None:
        """The earliest that is to be looked at now."""
        return next(iter(self.next_up(now_s, 1)), None)

    def next_up(self, now_s: float, count: int) -> list[Entry]:
        """The earliest `count` that are to be looked at now."""
        return self._select("stage = 'waiting' AND look_at_s <= ? ORDER BY block, rowid LIMIT ?", now_s, count)

    def hear(self, docket_id: bytes, validator: str, verdict: Verdict) -> None:
        """Another's verdict, revealed: a docket that waits is looked at anew, for it may be this node's turn."""
        position = f"{verdict.outcome.name.lower()} {verdict.units}"
        known = "SELECT ?, ?, ?, ? FROM dockets WHERE scope = ? AND docket_id = ? AND stage = 'waiting'"
        heard = (self._scope, docket_id, validator, position, self._scope, docket_id)
        self._db.execute(f"INSERT OR IGNORE INTO shown {known}", heard)
        self._update("look_at_s = 0", docket_id)

    def shown(self, docket_id: bytes) -> dict[str, str]:
        """Validator → outcome and units in words, of the verdicts that others have revealed on one that waits."""
        query = "SELECT validator, position FROM shown WHERE scope = ? AND docket_id = ?"
        return dict(self._db.execute(query, (self._scope, docket_id)).fetchall())

    def committed(self) -> list[Entry]:
        """Those whose verdicts are still to be revealed."""
        return self._select("stage = 'committed' AND outcome IS NOT NULL ORDER BY block")

    def look_again(self, docket_id: bytes, at_s: float) -> None:
        self._update("look_at_s = ?", docket_id, at_s)

    def begin_try(self, docket_id: bytes) -> None:
        """Counted before and forgiven after: a file that ends this very process is counted as well."""
        self._update("tries = tries + 1", docket_id)

    def found(self, docket_id: bytes, finding: Finding) -> None:
        verdict = finding.verdict
        self._update(
            "tries = 0, outcome = ?, units = ?, reason = ?, evidence = ?, evidence_hash = ?, seconds = ?",
            docket_id,
            int(verdict.outcome), verdict.units, verdict.reason, finding.evidence, verdict.evidence_hash,
            finding.seconds,
        )  # fmt: skip

    def commit(self, docket_id: bytes) -> None:
        """Its verdict is committed to on the ledger."""
        self._update("stage = 'committed'", docket_id)

    def drop_waiting(self, docket_id: bytes) -> None:
        """Others have decided it; a verdict that was committed to is still revealed."""
        self._update("stage = CASE stage WHEN 'waiting' THEN 'done' ELSE stage END", docket_id)
        self._forget_shown(docket_id)

    def revealed(self, docket_id: bytes) -> None:
        """The ledger has the verdict: what it rests on is to be handed over."""
        self._db.execute(
            "INSERT OR IGNORE INTO evidence SELECT scope, docket_id, evidence FROM dockets"
            " WHERE scope = ? AND docket_id = ? AND evidence IS NOT NULL",
            (self._scope, docket_id),
        )
        self._db.execute(
            "DELETE FROM evidence WHERE scope = ? AND rowid NOT IN"
            " (SELECT rowid FROM evidence WHERE scope = ? ORDER BY rowid DESC LIMIT ?)",
            (self._scope, self._scope, MAX_UNSENT),
        )
        self.done(docket_id)

    def unsent(self) -> list[tuple[bytes, str]]:
        """Evidence that no relay has acknowledged, oldest first: (docket id, text)."""
        query = "SELECT docket_id, data FROM evidence WHERE scope = ? ORDER BY rowid"
        return self._db.execute(query, (self._scope,)).fetchall()

    def sent(self, docket_id: bytes) -> None:
        """A relay keeps the evidence now."""
        self._db.execute("DELETE FROM evidence WHERE scope = ? AND docket_id = ?", (self._scope, docket_id))

    def done(self, docket_id: bytes) -> None:
        """Nothing is left to do; the evidence is forgotten."""
        self._update("stage = 'done', evidence = NULL", docket_id)
        self._forget_shown(docket_id)

    def open_case(self, docket_id: bytes, until_s: float) -> None:
        """Stake is burnt after `until_s`, if somebody asks for it."""
        query = "INSERT OR REPLACE INTO cases (scope, docket_id, until_s) VALUES (?, ?, ?)"
        self._db.execute(query, (self._scope, docket_id, until_s))

    def ripe_cases(self, now_s: float) -> list[bytes]:
        query = "SELECT docket_id FROM cases WHERE scope = ? AND until_s < ?"
        return [docket_id for (docket_id,) in self._db.execute(query, (self._scope, now_s)).fetchall()]

    def close_case(self, docket_id: bytes) -> None:
        self._db.execute("DELETE FROM cases WHERE scope = ? AND docket_id = ?", (self._scope, docket_id))

    def _forget_shown(self, docket_id: bytes) -> None:
        self._db.execute("DELETE FROM shown WHERE scope = ? AND docket_id = ?", (self._scope, docket_id))

    def _update(self, assignment: str, docket_id: bytes, *values: object) -> None:
        query = f"UPDATE dockets SET {assignment} WHERE scope = ? AND docket_id = ?"
        self._db.execute(query, (*values, self._scope, docket_id))

    def _select(self, condition: str, *values: object) -> list[Entry]:
        query = f"SELECT {_COLUMNS} FROM dockets WHERE scope = ? AND {condition}"
        return [_entry(*row) for row in self._db.execute(query, (self._scope, *values)).fetchall()]


def _entry(
    docket_id: bytes,
    kind: int,
    block: int,
    tries: int,
    outcome: int | None,
    units: int,
    reason: str,
    evidence: str,
    evidence_hash: bytes,
    seconds: float,
) -> Entry:
    finding = None
    if outcome is not None:
        verdict = Verdict(outcome=Outcome(outcome), units=units, reason=reason, evidence_hash=evidence_hash)
        finding = Finding(verdict=verdict, evidence=evidence or "", seconds=seconds)
    return Entry(docket_id=docket_id, kind=Kind(kind), block=block, tries=tries, finding=finding)
