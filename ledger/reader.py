"""The ledger, asked: blocking reads and events of one deployment, by subject in the modules named below."""

from __future__ import annotations

from ledger.court import CourtReader
from ledger.credit import CreditReader
from ledger.members import MemberReader
from ledger.stake import StakeReader


class Reader(StakeReader, MemberReader, CourtReader, CreditReader):
    """Everything one can ask without an account."""
