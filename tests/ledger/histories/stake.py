"""Registering, and moving stake and credit."""

from __future__ import annotations

from ledger.bindings import binding_tuple, sign_binding
from ledger.types import Binding, PoolState
from tests.ledger.histories.base import (
    ANYBODY,
    KEYS,
    NODES,
    OTHER_SALT,
    OWNERS,
    STAKERS,
    STRANGER,
    Act,
    Draw,
)


class StakeActs(Draw):
    """Acts on NodeRegistry and Treasury."""

    def register(self) -> Act:
        node = self.one([n for n in NODES if n not in self.rules.stakes.nodes], NODES)
        staker = self.rng.choice([node, node, node, *STAKERS])
        sender, signer = self.one([staker], ANYBODY), self.one([node], ANYBODY)
        expires = self.now_s + self.one([0, 1, 50], [-1])
        binding = Binding(
            staker=staker, node=node, nonce=self.rules.stakes.nonces[node] + self.odd(0.03), expires_unix_s=expires
        )
        salt, amount = self.one([self.deployment.salt], [OTHER_SALT]), self.one([10, 15, 20, 40], [0, 9, 10**6])
        signature = sign_binding(binding, self.deployment, KEYS[signer])
        bound = (*binding_tuple(binding, self.deployment)[:4], salt)
        signed_by = signer if salt == self.deployment.salt else STRANGER
        return self.call(
            "NodeRegistry", sender, "register", (bound, signature, amount),
            lambda call: self.rules.stakes.register(call, binding, salt, signed_by, amount),
        )  # fmt: skip

    def add_stake(self) -> Act:
        node, amount = self.rng.choice(NODES), self.rng.choice([0, 1, 5, 10, 20])
        model = self.rules.stakes.add_stake
        return self.call(
            "NodeRegistry", self.rng.choice(ANYBODY), "addStake", (node, amount), lambda c: model(c, node, amount)
        )

    def unbond(self) -> Act:
        node = self.rng.choice(list(self.rules.stakes.nodes) or NODES)
        sender, amount = self.staker(node), self.rng.choice([0, 3, 5, 10, 100])
        model = self.rules.stakes.unbond
        return self.call("NodeRegistry", sender, "unbond", (node, amount), lambda c: model(c, node, amount))

    def withdraw(self) -> Act:
        node = self.one([n for n, held in self.rules.stakes.nodes.items() if held.unbonding], NODES)
        return self.call(
            "NodeRegistry", self.staker(node), "withdraw", (node,), lambda c: self.rules.stakes.withdraw(c, node)
        )

    def staker(self, node: str) -> str:
        held = self.rules.stakes.nodes.get(node)
        return self.one([held.staker] if held else [], ANYBODY)

    def fund(self) -> Act:
        pool_id, amount, model = self.pool_id(), self.one([5, 20, 50], [0, 10**6]), self.rules.treasury.fund
        sender = self.rng.choice(OWNERS)
        return self.call("Treasury", sender, "fund", (pool_id, amount), lambda c: model(c, pool_id, amount))

    def reclaim(self) -> Act:
        pools = self.rules.pools.pools
        pool_id = self.one([i for i, p in pools.items() if p.state is PoolState.ENDED], [self.pool_id()])
        sender, model = self.owner(pools.get(pool_id)), self.rules.treasury.reclaim
        return self.call("Treasury", sender, "reclaim", (pool_id,), lambda c: model(c, pool_id))

    def claim(self) -> Act:
        node = self.one([n for n in NODES if self.rules.treasury.credits[n]], NODES)
        model = self.rules.treasury.claim
        return self.call("Treasury", self.rng.choice(ANYBODY), "claim", (node,), lambda c: model(c, node))
