"""The contracts' rules as a small state machine in Python: pure, without a chain, with the same error names.

It is their documentation, and one half of a test: random histories must end alike here and on a real chain. Decides
what every call does and refuses what the contracts refuse, in their order. Time, block and sender are in `Call`. Who is
drawn for a panel hangs on a block's hash, so that the seed made of it is an argument too. Signatures are given by who
signed, amounts are wei that do not overflow, and tokens are approved without bound.
"""

from __future__ import annotations

from ledger.rules.call import Call, Refused
from ledger.rules.court import Court
from ledger.rules.members import Members
from ledger.rules.pools import Pools
from ledger.rules.runs import Runs
from ledger.rules.stake import Stakes
from ledger.rules.tokens import Tokens
from ledger.rules.treasury import Treasury

__all__ = ["Call", "Refused", "Rules"]


class Rules:
    """One deployment: every contract's state, wired together."""

    def __init__(self, *, salt: bytes, unbonding_s: int) -> None:
        self.tokens = Tokens()
        self.stakes = Stakes(self.tokens, salt=salt, unbonding_s=unbonding_s)
        self.pools = Pools(self.stakes)
        self.members = Members(self.pools, self.stakes, salt=salt)
        self.runs = Runs(self.pools, self.members)
        self.treasury = Treasury(self.tokens, self.stakes, self.pools)
        self.court = Court(self.pools, self.members, self.stakes, self.runs, self.treasury)
