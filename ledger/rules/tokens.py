"""Tokens: minted, moved and burnt; nothing is ever lost in between."""

from __future__ import annotations

from collections import Counter

from ledger.rules.call import refuse_if

REGISTRY, TREASURY = "registry", "treasury"
"""Where staked tokens are, and those for work."""


class Tokens:
    """Balances in wei, those of the contracts included."""

    def __init__(self) -> None:
        self.balances: Counter[str] = Counter()
        self.burnt_wei = 0

    @property
    def supply_wei(self) -> int:
        return sum(self.balances.values())

    def mint(self, to: str, amount_wei: int) -> None:
        self.balances[to] += amount_wei

    def require(self, owner: str, amount_wei: int) -> None:
        """The last check of a call that takes tokens."""
        refuse_if(self.balances[owner] < amount_wei, "ERC20InsufficientBalance")

    def move(self, owner: str, to: str, amount_wei: int) -> None:
        self.balances[owner] -= amount_wei
        self.balances[to] += amount_wei

    def burn(self, owner: str, amount_wei: int) -> None:
        self.balances[owner] -= amount_wei
        self.burnt_wei += amount_wei
