"""Who takes part in random histories, and how the next act is drawn: mostly legal, sometimes not."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from eth_account import Account
from eth_utils import keccak

from ledger import Deployment
from ledger.rules import Call, Rules
from ledger.rules.call import NOBODY
from ledger.types import Role

ACCOUNTS = [Account.from_key(keccak(text=f"history {i}")) for i in range(15)]
KEYS = {account.address: account for account in ACCOUNTS}
OWNERS, MANAGERS = [a.address for a in ACCOUNTS[:2]], [a.address for a in ACCOUNTS[2:4]]
STAKERS, NODES = [a.address for a in ACCOUNTS[4:6]], [a.address for a in ACCOUNTS[6:14]]
STRANGER = ACCOUNTS[14].address
ANYBODY = [a.address for a in ACCOUNTS]
FUNDS = 200
UNBONDING_S = 300
OTHER_SALT = keccak(text="another deployment")
REASON, EVIDENCE = "abuse", keccak(text="evidence")


@dataclass(frozen=True, slots=True)
class Act:
    """One call: by whom, of which contract's function with which arguments, and the model's way of it."""

    sender: str
    contract: str
    function: str
    arguments: Sequence[Any]
    model: Callable[[Call], None]


@dataclass(frozen=True, slots=True)
class Submitted:
    """A file in a batch, as its worker knows it."""

    pool_id: int
    node: str
    step: int
    first: int
    counter: int
    file_hash: bytes
    leaves: tuple[bytes, ...]


class Draw:
    """Draws from a seed and the model's present state."""

    def __init__(self, seed: int, rules: Rules, deployment: Deployment) -> None:
        self.rng, self.rules, self.deployment = random.Random(seed), rules, deployment
        self.submitted: dict[bytes, Submitted] = {}
        self.present: Callable[[str], Call]
        """What a call by this sender would be now."""
        self.in_court = seed % 2 == 1
        """Whether it is the court that matters in this history."""
        self.harshness = 1 + seed % 3
        """Of five dockets, how many are rejected."""
        self.founding = True
        """Whether a first pool is still being made: then nothing odd is done."""

    @property
    def now_s(self) -> int:
        return self.present(STRANGER).now_s

    def odd(self, share: float = 0.06) -> bool:
        """Whether to do something that is not to be done."""
        return not self.founding and self.rng.random() < share

    def one(self, likely: Sequence[Any], others: Sequence[Any]) -> Any:
        return self.rng.choice(others if not likely or self.odd() else likely)

    def pool_id(self) -> int:
        if self.odd(0.01):
            return 99
        return 1 if self.rng.random() < 0.7 else self.rng.choice(list(self.rules.pools.pools) or [1])

    def manager(self, pool_id: int) -> str:
        pool = self.rules.pools.pools.get(pool_id)
        return self.one([pool.manager] if pool and pool.manager != NOBODY else [], ANYBODY)

    def owner(self, held: Any) -> str:
        return self.one([held.owner] if held else [], ANYBODY)

    def active(self, pool_id: int, role: Role | None = None) -> list[str]:
        members = self.rules.members
        found = [node for node in NODES if members.is_active(pool_id, node)]
        return [node for node in found if role in (None, members.standings[pool_id, node].role)]

    def call(self, contract: str, sender: str, function: str, arguments: Sequence[Any], model: Any) -> Act:
        return Act(sender, contract, function, arguments, model)
