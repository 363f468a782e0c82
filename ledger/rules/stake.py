"""Who is a node, who stands behind it, and what it has at stake (`NodeRegistry`)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from ledger.rules.call import NOBODY, Call, refuse_if
from ledger.rules.tokens import REGISTRY, Tokens
from ledger.types import Binding


@dataclass(slots=True, kw_only=True)
class Stake:
    """In wei: at work, on its way out, and what open cases may burn of both."""

    staker: str
    stake: int = 0
    unbonding: int = 0
    locked: int = 0
    matures: int = 0


class Stakes:
    """All nodes."""

    def __init__(self, tokens: Tokens, *, salt: bytes, unbonding_s: int) -> None:
        self._tokens, self._salt, self.unbonding_s = tokens, salt, unbonding_s
        self.nodes: dict[str, Stake] = {}
        self.nonces: Counter[str] = Counter()

    def register(self, call: Call, binding: Binding, salt: bytes, signed_by: str, amount: int) -> None:
        refuse_if(call.sender != binding.staker, "NotStaker")
        refuse_if(binding.node in self.nodes, "AlreadyRegistered")
        refuse_if(salt != self._salt, "BindingWrongDeployment")
        refuse_if(call.now_s > binding.expires_unix_s, "BindingExpired")
        refuse_if(binding.nonce != self.nonces[binding.node], "InvalidAccountNonce")
        refuse_if(signed_by != binding.node, "BindingNotByNode")
        self._check_payment(call, amount)
        self.nonces[binding.node] += 1
        self.nodes[binding.node] = Stake(staker=call.sender)
        self._add(call, binding.node, amount)

    def add_stake(self, call: Call, node: str, amount: int) -> None:
        self.registered(node)
        self._check_payment(call, amount)
        self._add(call, node, amount)

    def unbond(self, call: Call, node: str, amount: int) -> None:
        held = self._as_staker(call, node)
        refuse_if(amount == 0, "ZeroAmount")
        refuse_if(held.stake < amount, "StakeTooLow")
        held.stake -= amount
        held.unbonding += amount
        held.matures = call.now_s + self.unbonding_s

    def withdraw(self, call: Call, node: str) -> None:
        held = self._as_staker(call, node)
        refuse_if(held.unbonding == 0, "ZeroAmount")
        refuse_if(call.now_s < held.matures, "Unbonding")
        amount = min(max(0, held.stake + held.unbonding - held.locked), held.unbonding)
        refuse_if(amount == 0, "StakeUnderCase")
        held.unbonding -= amount
        self._tokens.move(REGISTRY, call.sender, amount)

    def lock(self, node: str, amount: int) -> None:
        self.registered(node).locked += amount

    def unlock(self, node: str, amount: int) -> None:
        self.registered(node).locked -= amount

    def burn(self, node: str, amount: int) -> None:
        """End a lock by burning it, from the stake first, as far as there is any."""
        held = self.registered(node)
        held.locked -= amount
        from_stake = min(amount, held.stake)
        from_unbonding = min(amount - from_stake, held.unbonding)
        held.stake -= from_stake
        held.unbonding -= from_unbonding
        self._tokens.burn(REGISTRY, from_stake + from_unbonding)

    def registered(self, node: str) -> Stake:
        refuse_if(node not in self.nodes, "NotRegistered")
        return self.nodes[node]

    def staker_of(self, node: str) -> str:
        return self.nodes[node].staker if node in self.nodes else NOBODY

    def require_stake(self, node: str, needed: int) -> None:
        held = self.registered(node)
        refuse_if(held.stake < needed + held.locked, "StakeTooLow")

    def _as_staker(self, call: Call, node: str) -> Stake:
        held = self.registered(node)
        refuse_if(call.sender != held.staker, "NotStaker")
        return held

    def _check_payment(self, call: Call, amount: int) -> None:
        refuse_if(amount == 0, "ZeroAmount")
        self._tokens.require(call.sender, amount)

    def _add(self, call: Call, node: str, amount: int) -> None:
        self.nodes[node].stake += amount
        self._tokens.move(call.sender, REGISTRY, amount)
