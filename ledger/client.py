"""The ledger, told: `Reader` plus writes by one account, by subject in the modules named below."""

from __future__ import annotations

from ledger.court import CourtWriter
from ledger.credit import CreditWriter
from ledger.members import MemberWriter
from ledger.reader import Reader
from ledger.stake import StakeWriter


class Ledger(StakeWriter, MemberWriter, CourtWriter, CreditWriter, Reader):
    """Everything one account can ask and do; see `ledger.account` for how it writes."""
