"""What pools hold for work, and what nodes have earned.

Decides nothing: `Treasury` does.
"""

from __future__ import annotations

from ledger.account import Account
from ledger.chain import Chain


class CreditReader(Chain):
    """All amounts in wei of the stake token."""

    def funds_of(self, pool_id: int) -> int:
        return self._read("Treasury", "fundsOf", pool_id)

    def credit_of(self, node: str) -> int:
        """Earned and not yet claimed, in all pools."""
        return self._read("Treasury", "creditOf", node)

    def units_of(self, pool_id: int, node: str) -> int:
        """Units of verified work."""
        return self._read("Treasury", "unitsOf", pool_id, node)


class CreditWriter(CreditReader, Account):
    """Each write returns the block it was mined in."""

    def fund(self, pool_id: int, amount_wei: int) -> int:
        """By anyone. Approves the tokens first."""
        with self._approved("Treasury", amount_wei):
            return self._write("Treasury", "fund", pool_id, amount_wei).block

    def reclaim(self, pool_id: int) -> int:
        """By the pool's owner, when it has ended and nothing can be judged. Raises `Reverted("StillOwing")`."""
        return self._write("Treasury", "reclaim", pool_id).block

    def claim(self, node: str) -> int:
        """By anyone: pays what the node has earned to its staker. Raises `Reverted("ZeroAmount")`."""
        return self._write("Treasury", "claim", node).block
