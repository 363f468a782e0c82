"""One node on the stage, seen from outside: what becomes of it for its manager, what its owner does with its wallet.

What is said on the ledger comes from other tools than the node's and the manager's own processes, as a person's would.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from eth_account.signers.local import LocalAccount

from ledger.client import Ledger
from ledger.invites import sign_invite
from ledger.rpc import Rpc
from ledger.types import Role
from node.intent import Wish, write_wish
from tests.functional.life_stage import Stage

POOL = 1
INVITE_LIFETIME_S = 600


@dataclass
class Subject:
    """`name` in the stage's cast, with a line of its own to the chain."""

    stage: Stage
    name: str
    _walked: int = 0
    """Changes in its life that were waited for, and those before them."""
    _removals: int = 0

    @property
    def account(self) -> LocalAccount:
        return self.stage.cast[self.name].account

    def walks(self, before: str, event: str, state: str) -> None:
        """Until its manager has noted this change, later than the one that was waited for last."""

        def noted() -> bool:
            for at, line in enumerate(self.life()[self._walked :], start=self._walked + 1):
                if (line["before"], line["event"], line["state"]) == (before, event, state):
                    self._walked = at
                    return True
            return False

        self.stage.until(f"{self.name}, {self.account.address}: {before} {event} {state}", noted)

    def life(self) -> list[dict]:
        return [line for line in self.stage.metrics("trainer", "life") if line["node"] == self.account.address]

    def is_let_in(self) -> None:
        """Until it is active, by whichever way it is seen."""
        self.stage.until_state(self.name, "active")
        self._walked = len(self.life())

    def is_taken_out(self) -> None:
        """Until the manager has seen its own removal on the ledger."""
        self._removals += 1
        word = f"{self.account.address} was taken off the ledger"
        self.stage.until(
            f"{self.name} is off the ledger", lambda: self.stage.log("trainer").count(word) >= self._removals
        )

    def falls_silent(self, *, directory: bool = False) -> None:
        """Its process is suspended; with its directory child, so that it can wake without it."""
        self.stage.suspend(self.name)
        if directory:
            for dhtd in self.stage.dhtds(self.name):
                dhtd.send_signal(signal.SIGSTOP)

    def wakes(self, *, directory: bool = True) -> None:
        """Goes on; without its directory child it beats and cannot announce itself."""
        if directory:
            for dhtd in self.stage.dhtds(self.name):
                dhtd.send_signal(signal.SIGCONT)
        self.stage.resume(self.name)

    def ends(self) -> None:
        """For good and at once, with its directory child."""
        if self.stage.nodes[self.name].poll() is None:
            self.stage.kill_dhtd(self.name)
            self.stage.kill(self.name)

    def loses_the_chain(self) -> None:
        self.stage.lines[self.name].cut()

    def has_the_chain_again(self) -> None:
        self.stage.lines[self.name].mend()

    def is_to_drain(self) -> None:
        """Its owner's wish; without the chain it cannot leave, and says so with each heartbeat."""
        self.loses_the_chain()
        write_wish(self.stage.folder / self.name, Wish.DRAIN)

    def starts_unheard(self) -> None:
        """Started anew, it is in the directory and cannot learn whom to beat to: the chain is away by then."""
        self.stage.start(self.name)
        self.stage.until(f"{self.name} starts its directory child", lambda: self.stage.dhtds(self.name) != [])
        self.loses_the_chain()

    def leaves(self) -> None:
        self.stage.leave_by_another_tool(self.name)

    def takes_its_stake_out(self) -> None:
        with self._wallet() as ledger:
            ledger.unbond(self.account.address, ledger.node(self.account.address).stake_wei)

    def joins(self) -> None:
        """With an invite that a person has signed and brought to its owner."""
        with self._wallet() as ledger:
            invite = ledger.new_invite(POOL, self.account.address, Role.RELAY, INVITE_LIFETIME_S)
            ledger.join(invite, sign_invite(invite, ledger.deployment, self.stage.cast["trainer"].account))

    @contextmanager
    def _wallet(self) -> Iterator[Ledger]:
        ledger = Ledger(self.stage.chain_url, self.stage.ledger.deployment, self.account)
        try:
            yield ledger
        finally:
            ledger.close()


@dataclass
class Person:
    """Who has the manager's key beside its process, and the chain in hand."""

    stage: Stage
    _one_at_a_time: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._ledger = Ledger(self.stage.chain_url, self.stage.ledger.deployment, self.stage.cast["trainer"].account)
        self._rpc = Rpc(self.stage.chain_url)

    def ejects(self, subject: Subject) -> None:
        self._ledger.eject(POOL, subject.account.address, "too-slow")

    def bars(self, subject: Subject) -> None:
        self._ledger.blacklist(POOL, subject.account.address, "spam")

    def pardons(self, subject: Subject) -> None:
        self._ledger.unblacklist(POOL, subject.account.address)

    def pardons_and_lets_in(self, subject: Subject) -> None:
        """Both at once, as far as the manager can tell."""
        with self.out_of_the_managers_sight():
            self.pardons(subject)
            subject.joins()
        subject.walks("blacklisted", "pardoned", "waiting")
        subject.walks("waiting", "joined", "active")

    @contextmanager
    def out_of_the_managers_sight(self) -> Iterator[None]:
        """The manager's process is suspended: what happens meanwhile it sees at once, afterwards."""
        with self._one_at_a_time:
            self.stage.suspend("trainer")
            try:
                yield
            finally:
                self.stage.resume("trainer")

    def stops_mining(self) -> None:
        self._rpc.call("evm_setAutomine", False)

    def mines_again(self) -> None:
        self._rpc.call("evm_setAutomine", True)
        self._rpc.call("evm_mine")

    def has_sent(self, subject: Subject) -> bool:
        """Whether a transaction of this node waits to be mined."""
        latest, pending = (
            self._rpc.call("eth_getTransactionCount", subject.account.address, block) for block in ("latest", "pending")
        )
        return int(str(pending), 16) > int(str(latest), 16)
