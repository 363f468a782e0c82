"""Tokens, registration and stake.

Decides nothing: `StakeToken` and `NodeRegistry` do.
"""

from __future__ import annotations

from collections.abc import Sequence

from ledger.account import Account
from ledger.bindings import binding_tuple
from ledger.chain import Chain
from ledger.types import Binding, Node


class StakeReader(Chain):
    """Who is a node, and what is at stake for it."""

    def node(self, address: str) -> Node:
        """What the registry holds; `registered` is false where it knows nothing of it."""
        staker, matures, stake, unbonding, locked = self._read("NodeRegistry", "getNode", address)
        return Node(
            address=address,
            staker=staker,
            stake_wei=stake,
            unbonding_wei=unbonding,
            locked_wei=locked,
            matures_unix_s=matures,
        )

    def stake_of(self, address: str) -> int:
        """What is at work, in wei."""
        return self.node(address).stake_wei

    def stakes_of(self, addresses: Sequence[str]) -> list[int]:
        """What is at work for each, in wei; 0 for one that is not registered."""
        reads = self._read_many(*(("NodeRegistry", "getNode", address) for address in addresses))
        return [stake for _, _, stake, _, _ in reads]

    def unbonding_s(self) -> int:
        """Seconds that stake on its way out stays within reach of a case."""
        return self._read_once("NodeRegistry", "unbondingS")

    def new_binding(self, node: str, staker: str, lifetime_s: int) -> Binding:
        """What the node signs (`sign_binding`) so that `staker` can register it."""
        return Binding(
            staker=staker,
            node=node,
            nonce=self._read("NodeRegistry", "nonces", node),
            expires_unix_s=self.chain_time_s() + lifetime_s,
        )

    def token_balance(self, address: str) -> int:
        """In wei of the stake token."""
        return self._read("StakeToken", "balanceOf", address)

    def token_supply(self) -> int:
        """In wei; burning lowers it."""
        return self._read("StakeToken", "totalSupply")


class StakeWriter(StakeReader, Account):
    """Each write returns the block it was mined in."""

    def mint(self, to: str, amount_wei: int) -> int:
        """By the token's owner."""
        return self._write("StakeToken", "mint", to, amount_wei).block

    def register(self, binding: Binding, signature: bytes, amount_wei: int) -> int:
        """By the staker that the binding names, who pays the stake. Approves the tokens first.

        Raises `Reverted` with AlreadyRegistered, NotStaker, BindingExpired, BindingNotByNode and so on.
        """
        with self._approved("NodeRegistry", amount_wei):
            bound = binding_tuple(binding, self.deployment)
            return self._write("NodeRegistry", "register", bound, signature, amount_wei).block

    def add_stake(self, node: str, amount_wei: int) -> int:
        """By anyone; it is the staker's from then on. Approves the tokens first."""
        with self._approved("NodeRegistry", amount_wei):
            return self._write("NodeRegistry", "addStake", node, amount_wei).block

    def unbond(self, node: str, amount_wei: int) -> int:
        """By the staker: start taking stake out. Raises `Reverted("StakeTooLow")`."""
        return self._write("NodeRegistry", "unbond", node, amount_wei).block

    def withdraw(self, node: str) -> int:
        """By the staker: what is unbonded, matured and not under a case.

        Raises `Reverted` with ZeroAmount, Unbonding or StakeUnderCase.
        """
        return self._write("NodeRegistry", "withdraw", node).block
