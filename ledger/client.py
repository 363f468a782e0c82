"""The ledger, told: `Reader` plus writes by one account.

Every write goes through one `TransactionQueue`, returns once mined and, where not said otherwise, gives the block.
Refuses to write before the chain has proven to be the deployment's own (chain id, code, salt), and without an account.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TypeVar

from eth_account.signers.local import LocalAccount

from ledger import types
from ledger.abi import interface
from ledger.deployment import Deployment
from ledger.errors import LedgerError, Reverted
from ledger.events import parse_log
from ledger.invites import invite_tuple
from ledger.reader import Reader
from ledger.transactions import Receipt, TransactionQueue

_E = TypeVar("_E", bound=types.Event)


class Ledger(Reader):
    """`account=None` makes a reader; `queue_path=None` keeps the transaction queue in memory (lost on restart)."""

    def __init__(
        self,
        rpc_url: str,
        deployment: Deployment,
        account: LocalAccount | None = None,
        queue_path: Path | None = None,
        *,
        timeout_s: float = 120.0,
    ) -> None:
        super().__init__(rpc_url, deployment)
        self.account = account
        self._checked = threading.Event()
        self._queue = account and TransactionQueue(
            self._rpc,
            account,
            chain_id=deployment.chain_id,
            scope=deployment.salt.hex(),
            path=queue_path,
            timeout_s=timeout_s,
        )

    def close(self) -> None:
        if self._queue:
            self._queue.close()

    def settle(self) -> None:
        """See through what an earlier process sent and did not see mined."""
        self._writer().settle()

    def mint(self, to: str, amount_wei: int) -> int:
        """By the token's owner."""
        return self._write("StakeToken", "mint", to, amount_wei).block

    def transfer_tokens(self, to: str, amount_wei: int) -> int:
        return self._write("StakeToken", "transfer", to, amount_wei).block

    def transfer_eth(self, to: str, amount_wei: int) -> int:
        return self._writer().send(to, b"", amount_wei).block

    def register(self, amount_wei: int) -> int:
        """Approve and stake, as a new node. Raises `Reverted("AlreadyRegistered")`."""
        return self._stake("register", amount_wei)

    def add_stake(self, amount_wei: int) -> int:
        return self._stake("addStake", amount_wei)

    def unstake(self, amount_wei: int) -> int:
        """Raises `Reverted("StakeHeld")` while a member of a pool or with unjudged submissions."""
        return self._write("NodeRegistry", "unstake", amount_wei).block

    def create_domain(self, name: str) -> int:
        """Returns the domain's id."""
        return self._created(self._write("ComputePools", "createDomain", name), types.DomainCreated).domain_id

    def create_pool(self, domain_id: int, manager: str, min_stake_wei: int, slash_wei: int) -> int:
        """By the domain's owner, who will own the pool. Returns the pool's id."""
        receipt = self._write("ComputePools", "createPool", domain_id, manager, min_stake_wei, slash_wei)
        return self._created(receipt, types.PoolCreated).pool_id

    def offer_domain(self, domain_id: int, to: str) -> int:
        """First step of a change of owner; the new one then calls `accept_domain`."""
        return self._write("ComputePools", "offerDomain", domain_id, to).block

    def accept_domain(self, domain_id: int) -> int:
        return self._write("ComputePools", "acceptDomain", domain_id).block

    def offer_pool(self, pool_id: int, to: str) -> int:
        """First step of a change of owner; the new one then calls `accept_pool`."""
        return self._write("ComputePools", "offerPool", pool_id, to).block

    def accept_pool(self, pool_id: int) -> int:
        return self._write("ComputePools", "acceptPool", pool_id).block

    def set_manager(self, pool_id: int, manager: str) -> int:
        """By the pool's owner; the old manager's open invites become void."""
        return self._write("ComputePools", "setManager", pool_id, manager).block

    def join(self, invite: types.Invite, signature: bytes) -> int:
        """By the invited node. Raises `Reverted` with InviteExpired, InviteUsed, InviteNotByManager and so on."""
        return self._write("ComputePools", "join", invite_tuple(invite, self.deployment), signature).block

    def leave(self, pool_id: int) -> int:
        return self._write("ComputePools", "leave", pool_id).block

    def revoke_invites(self, pool_id: int, node: str) -> int:
        """By the manager."""
        return self._write("ComputePools", "revokeInvites", pool_id, node).block

    def eject(self, pool_id: int, node: str, reason: str) -> int:
        """By the manager; no slash. `reason` is ASCII, at most 32 bytes."""
        return self._write("ComputePools", "eject", pool_id, node, types.reason_bytes(reason)).block

    def announce_checkpoint(self, pool_id: int, version: int, manifest_hash: bytes) -> int:
        """By the manager. Announcing the same version and hash again is no error."""
        try:
            return self._write("RunLedger", "announceCheckpoint", pool_id, version, manifest_hash).block
        except Reverted as error:
            done = self.checkpoint(pool_id, version) if error.error_name == "WrongVersion" else None
            if done and done.manifest_hash == manifest_hash:
                return done.block
            raise

    def submit(self, pool_id: int, step: int, counter: int, file_hash: bytes) -> bytes:
        """By a worker. Returns the submission's id; submitting the same file again is no error."""
        submission_id = self.submission_id(pool_id, step, counter, self._sender())
        try:
            self._write("RunLedger", "submit", pool_id, step, counter, file_hash)
        except Reverted as error:
            done = self.submission(submission_id) if error.error_name == "AlreadySubmitted" else None
            if not done or done.file_hash != file_hash:
                raise
        return submission_id

    def give_verdict(self, submission_id: bytes, outcome: types.Outcome, reason: str, evidence_hash: bytes) -> int:
        """By a validator; final. Raises `Reverted("AlreadyJudged")` where another was first."""
        code = types.reason_bytes(reason)
        return self._write("RunLedger", "giveVerdict", submission_id, int(outcome), code, evidence_hash).block

    def close_unjudged(self, submission_id: bytes) -> int:
        """By anyone, one day after the submission: closes it as late."""
        return self._write("RunLedger", "closeUnjudged", submission_id).block

    def _sender(self) -> str:
        return self._writer() and self.account.address

    def _writer(self) -> TransactionQueue:
        if not self._queue:
            raise LedgerError("this ledger was opened without an account and cannot write")
        if not self._checked.is_set():
            self.check()
            self._checked.set()
        return self._queue

    def _stake(self, function: str, amount_wei: int) -> int:
        self._write("StakeToken", "approve", self.deployment.registry, amount_wei)
        return self._write("NodeRegistry", function, amount_wei).block

    def _created(self, receipt: Receipt, kind: type[_E]) -> _E:
        return next(event for log in receipt.logs if isinstance(event := parse_log(log), kind))

    def _write(self, contract: str, function: str, *arguments: object) -> Receipt:
        return self._writer().send(self._addresses[contract], interface(contract).encode(function, *arguments))
