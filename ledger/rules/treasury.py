"""What pools hold for work, and what nodes have earned (`Treasury`)."""

from __future__ import annotations

from collections import Counter

from ledger.rules.call import Call, refuse_if
from ledger.rules.pools import Pools
from ledger.rules.stake import Stakes
from ledger.rules.tokens import TREASURY, Tokens
from ledger.types import PoolState


class Treasury:
    """What was earned is set aside at once: no owner can take it back."""

    def __init__(self, tokens: Tokens, stakes: Stakes, pools: Pools) -> None:
        self._tokens, self._stakes, self._pools = tokens, stakes, pools
        self.funds: Counter[int] = Counter()
        self.credits: Counter[str] = Counter()
        self.units: Counter[tuple[int, str]] = Counter()

    def fund(self, call: Call, pool_id: int, amount: int) -> None:
        self._pools.pool(pool_id)
        refuse_if(amount == 0, "ZeroAmount")
        self._tokens.require(call.sender, amount)
        self.funds[pool_id] += amount
        self._tokens.move(call.sender, TREASURY, amount)

    def reclaim(self, call: Call, pool_id: int) -> None:
        pool = self._pools.pool(pool_id)
        refuse_if(call.sender != pool.owner, "NotPoolOwner")
        refuse_if(pool.state is not PoolState.ENDED, "WrongState")
        # The last submission can be judged for so long, appealed, and the appeal judged.
        until = pool.ended_at + pool.terms.verdict_s + 2 * pool.terms.challenge_s
        refuse_if(call.now_s <= until, "StillOwing")
        amount = self.funds[pool_id]
        refuse_if(amount == 0, "ZeroAmount")
        self.funds[pool_id] = 0
        self._tokens.move(TREASURY, call.sender, amount)

    def claim(self, call: Call, node: str) -> None:
        """By anyone, to the node's staker."""
        amount = self.credits[node]
        refuse_if(amount == 0, "ZeroAmount")
        self.credits[node] = 0
        self._tokens.move(TREASURY, self._stakes.staker_of(node), amount)

    def credit(self, pool_id: int, node: str, units: int) -> None:
        """By the court: paid as far as the pool's funds go; the units count in any case."""
        amount = min(units * self._pools.pool(pool_id).terms.unit_price_wei, self.funds[pool_id])
        self.units[pool_id, node] += units
        self.funds[pool_id] -= amount
        self.credits[node] += amount
