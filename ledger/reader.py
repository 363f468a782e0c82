"""The ledger, asked: blocking reads and events of one deployment.

Decides which contract answers what, and whether an endpoint serves the deployment at all (`check`). Refuses to take
silence for an answer: a contract without code is `WrongChain`, never "not a member". Safe to share between threads.
Contract errors arrive as `Reverted`, transport faults as `ChainUnavailable`.
"""

from __future__ import annotations

from pathlib import Path

import eth_abi
from eth_utils import keccak

from ledger import types
from ledger.abi import CONTRACTS, decode_revert, interface
from ledger.deployment import Deployment
from ledger.errors import Reverted, RpcError, WrongChain
from ledger.events import EventCursor, parse_log
from ledger.rpc import Rpc

MAX_BLOCKS_PER_READ = 10_000
_PAGE = 1_000


class Reader:
    """Everything one can ask without an account."""

    def __init__(self, rpc_url: str, deployment: Deployment) -> None:
        self.deployment = at = deployment
        self._rpc = Rpc(rpc_url)
        self._addresses = dict(zip(CONTRACTS, (at.token, at.registry, at.pools, at.runs), strict=True))

    def check(self) -> None:
        """Raise `WrongChain` unless the endpoint serves this deployment; to be called at start."""
        expected = self.deployment
        chain_id = int(self._rpc.call("eth_chainId"), 16)
        if chain_id != expected.chain_id:
            raise WrongChain("chain id", expected.chain_id, chain_id)
        salt = self._read("ComputePools", "salt")[0]
        if salt != expected.salt:
            raise WrongChain("deployment salt", f"0x{expected.salt.hex()}", f"0x{salt.hex()}")

    @property
    def block_number(self) -> int:
        return int(self._rpc.call("eth_blockNumber"), 16)

    def chain_time_s(self) -> int:
        """The time the next block would have, in unix seconds; the last one's may be long ago on an idle chain."""
        return int(self._rpc.call("eth_getBlockByNumber", "pending", False)["timestamp"], 16)

    def domain(self, domain_id: int) -> types.Domain:
        """Raises `Reverted("UnknownDomain")`."""
        ((owner, pending), name) = self._read("ComputePools", "getDomain", domain_id)[0]
        return types.Domain(domain_id=domain_id, owner=owner, pending_owner=pending, name=name)

    def pool(self, pool_id: int) -> types.Pool:
        """Raises `Reverted("UnknownPool")`."""
        ((owner, pending), manager, domain, stake, slash, count) = self._read("ComputePools", "getPool", pool_id)[0]
        return types.Pool(
            pool_id=pool_id,
            domain_id=domain,
            owner=owner,
            pending_owner=pending,
            manager=manager,
            min_stake_wei=stake,
            slash_wei=slash,
            member_count=count,
        )

    def member(self, pool_id: int, address: str) -> types.Member:
        """The address's standing; role NONE where it never joined."""
        role, active, ejected, nonce = self._read("ComputePools", "getMember", pool_id, address)[0]
        return types.Member(address=address, role=types.Role(role), active=active, ejected=ejected, nonce=nonce)

    def members(self, pool_id: int) -> tuple[types.Member, ...]:
        """All active members, in no particular order."""
        found: list[str] = []
        while len(page := self._read("ComputePools", "listMembers", pool_id, len(found), _PAGE)[0]) == _PAGE:
            found.extend(page)
        return tuple(self.member(pool_id, address) for address in (*found, *page))

    def node(self, address: str) -> types.Node:
        stake, holds, registered = self._read("NodeRegistry", "getNode", address)[0]
        return types.Node(address=address, registered=registered, stake_wei=stake, holds=holds)

    def stake_of(self, address: str) -> int:
        """In wei."""
        return self.node(address).stake_wei

    def token_balance(self, address: str) -> int:
        """In wei of the stake token."""
        return self._read("StakeToken", "balanceOf", address)[0]

    def token_supply(self) -> int:
        """In wei; burning lowers it."""
        return self._read("StakeToken", "totalSupply")[0]

    def eth_balance(self, address: str) -> int:
        """In wei."""
        return int(self._rpc.call("eth_getBalance", address, "latest"), 16)

    def latest_checkpoint(self, pool_id: int) -> types.Checkpoint | None:
        count = self._read("RunLedger", "checkpointCount", pool_id)[0]
        return self.checkpoint(pool_id, count - 1) if count else None

    def checkpoint(self, pool_id: int, version: int) -> types.Checkpoint | None:
        try:
            manifest_hash, block = self._read("RunLedger", "getCheckpoint", pool_id, version)[0]
        except Reverted as error:
            if error.error_name == "UnknownCheckpoint":
                return None
            raise
        return types.Checkpoint(version=version, manifest_hash=manifest_hash, block=block)

    def submission(self, submission_id: bytes) -> types.Submission | None:
        values = self._read("RunLedger", "getSubmission", submission_id)[0]
        pool_id, node, step, counter, file_hash, block, time_s, outcome = values
        if not any(file_hash):
            return None
        return types.Submission(
            submission_id=submission_id,
            pool_id=pool_id,
            step=step,
            counter=counter,
            node=node,
            file_hash=file_hash,
            block=block,
            time_unix_s=time_s,
            outcome=types.Outcome(outcome),
        )

    def submission_id(self, pool_id: int, step: int, counter: int, node: str) -> bytes:
        """Computed here; equal to `RunLedger.submissionIdOf`."""
        return keccak(eth_abi.encode(["uint256", "uint64", "uint32", "address"], [pool_id, step, counter, node]))

    def run_id(self, pool_id: int) -> bytes:
        """Computed here; equal to `ComputePools.runId`."""
        at = self.deployment
        types_ = ["uint256", "address", "bytes32", "uint256"]
        return keccak(eth_abi.encode(types_, [at.chain_id, at.pools, at.salt, pool_id]))

    def new_invite(self, pool_id: int, node: str, role: types.Role, lifetime_s: int) -> types.Invite:
        """The invite that would let `node` join now; to be signed by the manager with `sign_invite`."""
        return types.Invite(
            node=node,
            pool_id=pool_id,
            domain_id=self.pool(pool_id).domain_id,
            role=role,
            nonce=self.member(pool_id, node).nonce,
            expires_unix_s=self.chain_time_s() + lifetime_s,
        )

    def cursor(self, path: Path, name: str) -> EventCursor:
        """A cursor for this deployment only, starting where the deployment does."""
        return EventCursor(path, name, scope=self.deployment.salt.hex(), start_block=self.deployment.block)

    def events(self, cursor: EventCursor) -> list[types.Event]:
        """Events since the cursor, in order, at most `MAX_BLOCKS_PER_READ` blocks of them.

        Handle them (again, perhaps, after a crash), then `cursor.commit(events[-1].block)`. Empty stretches are
        committed here. Raises `WrongChain` where the chain is shorter than what was handled.
        """
        start, head = cursor.next_block, self.block_number
        if head < start - 1:
            raise WrongChain("chain length", f"at least {start - 1}", head)
        if head < start:
            return []
        end = min(head, start + MAX_BLOCKS_PER_READ - 1)
        at = self.deployment
        logs = self._rpc.call(
            "eth_getLogs",
            {"fromBlock": hex(start), "toBlock": hex(end), "address": [at.registry, at.pools, at.runs]},
        )
        events = [event for log in logs if (event := parse_log(log))]
        if not events:
            cursor.commit(end)
        return sorted(events, key=lambda event: (event.block, event.log_index))

    def _read(self, contract: str, function: str, *arguments: object) -> tuple:
        call = {
            "to": self._addresses[contract],
            "data": f"0x{interface(contract).encode(function, *arguments).hex()}",
        }
        try:
            output = self._rpc.call("eth_call", call, "latest")
        except RpcError as error:
            if error.is_revert:
                raise decode_revert(error.data) from error
            raise
        if output == "0x":
            raise WrongChain(f"code of {contract} at {call['to']}", "present", "none")
        return interface(contract).decode(function, bytes.fromhex(output[2:]))
