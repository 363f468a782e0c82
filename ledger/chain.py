"""One deployment of the contracts, asked over JSON-RPC: calls, logs, time, and whether it is there at all.

Refuses to take silence for an answer: a contract without code is `WrongChain`, never "not a member". Safe to share
between threads. Contract errors arrive as `Reverted`, transport faults as `ChainUnavailable`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import eth_abi
from eth_utils import keccak

from ledger.abi import CONTRACTS, decode_revert, interface
from ledger.cursor import EventCursor
from ledger.deployment import CONTRACT_FIELDS, Deployment
from ledger.errors import RpcError, WrongChain
from ledger.events import Event
from ledger.logs import parse_log
from ledger.rpc import Rpc

MAX_BLOCKS_PER_READ = 10_000
NEXT_BLOCK = "pending"
"""What a call would meet if it were mined now; an idle chain's last block may be long ago."""


class Chain:
    """The endpoint and the deployment that it should serve."""

    def __init__(self, rpc_url: str, deployment: Deployment) -> None:
        self.deployment = deployment
        self._rpc = Rpc(rpc_url)
        self._fixed: dict[tuple[Any, ...], Any] = {}
        addresses = [getattr(deployment, field) for field in CONTRACT_FIELDS]
        self._addresses = dict(zip(CONTRACTS, addresses, strict=True))

    def check(self) -> None:
        """Raise `WrongChain` unless the endpoint serves this deployment."""
        expected = self.deployment
        chain_id = int(self._rpc.call("eth_chainId"), 16)
        if chain_id != expected.chain_id:
            raise WrongChain("chain id", expected.chain_id, chain_id)
        salt = self._read("ComputePools", "salt")
        if salt != expected.salt:
            raise WrongChain("deployment salt", f"0x{expected.salt.hex()}", f"0x{salt.hex()}")

    @property
    def block_number(self) -> int:
        return int(self._rpc.call("eth_blockNumber"), 16)

    def chain_time_s(self) -> int:
        """The time the next block would have, in unix seconds."""
        return int(self._rpc.call("eth_getBlockByNumber", NEXT_BLOCK, False)["timestamp"], 16)

    def block_hash(self, number: int) -> bytes:
        """Of a block that is there: 32 bytes. Raises `WrongChain` where the chain is shorter."""
        block = self._rpc.call("eth_getBlockByNumber", hex(number), False)
        if block is None:
            raise WrongChain("chain length", f"at least {number}", self.block_number)
        return bytes.fromhex(block["hash"].removeprefix("0x"))

    def eth_balance(self, address: str) -> int:
        """In wei."""
        return int(self._rpc.call("eth_getBalance", address, "latest"), 16)

    def run_id(self, pool_id: int) -> bytes:
        """Computed here; equal to `ComputePools.runId`."""
        at = self.deployment
        types = ["uint256", "address", "bytes32", "uint256"]
        return keccak(eth_abi.encode(types, [at.chain_id, at.pools, at.salt, pool_id]))

    def cursor(self, path: Path | None, name: str) -> EventCursor:
        """A cursor for this deployment only, starting where the deployment does. `path=None` keeps it in memory."""
        return EventCursor(path, name, scope=self.deployment.salt.hex(), start_block=self.deployment.block)

    def events(self, cursor: EventCursor) -> list[Event]:
        """Events since the cursor, in order, at most `MAX_BLOCKS_PER_READ` blocks of them.

        Handle them (again, perhaps, after a crash), then `cursor.commit(events[-1].block)`. Empty stretches are
        committed here. Raises `WrongChain` where the chain is shorter than what was handled, or another one.
        """
        start, head = cursor.next_block, self.block_number
        if head < start - 1:
            raise WrongChain("chain length", f"at least {start - 1}", head)
        if head < start:
            return []
        self.check()
        end = min(head, start + MAX_BLOCKS_PER_READ - 1)
        events = self._events(start, end)
        if not events:
            cursor.commit(end)
        return events

    def _events(self, start: int, end: int, contract: str | None = None, *topics: str | None) -> list[Event]:
        """Events of these blocks, inclusive, in order; of one contract, with these topics where they are given."""
        addresses = [self._addresses[contract]] if contract else list(self._addresses.values())
        query: dict[str, Any] = {"fromBlock": hex(start), "toBlock": hex(end), "address": addresses}
        logs = self._rpc.call("eth_getLogs", query | ({"topics": list(topics)} if topics else {}))
        events = [event for log in logs if (event := parse_log(log))]
        return sorted(events, key=lambda event: (event.block, event.log_index))

    def _read(self, contract: str, function: str, *arguments: object) -> Any:
        """What a function returns: its one value, or the tuple of them."""
        return self._read_many((contract, function, *arguments))[0]

    def _read_once(self, *read: Any) -> Any:
        """`_read` of what can never change."""
        if read not in self._fixed:
            self._fixed[read] = self._read(*read)
        return self._fixed[read]

    def _read_many(self, *reads: tuple[Any, ...]) -> list[Any]:
        """Several reads, each (contract, function, *arguments), in one request."""
        calls = [self._call(*read) for read in reads]
        outputs = self._eth_call([(call, "latest") for call in calls])
        results = []
        for (contract, function, *_), call, output in zip(reads, calls, outputs, strict=True):
            if output == "0x":
                raise WrongChain(f"code of {contract} at {call['to']}", "present", "none")
            values = interface(contract).decode(function, bytes.fromhex(output[2:]))
            results.append(values[0] if len(values) == 1 else values)
        return results

    def _try(self, contract: str, function: str, *arguments: object, sender: str | None = None) -> None:
        """Raise what a call by `sender` in the next block would revert with."""
        call = self._call(contract, function, *arguments) | ({"from": sender} if sender else {})
        self._eth_call([(call, NEXT_BLOCK)])

    def _call(self, contract: str, function: str, *arguments: object) -> dict[str, str]:
        data = interface(contract).encode(function, *arguments)
        return {"to": self._addresses[contract], "data": f"0x{data.hex()}"}

    def _eth_call(self, calls: Sequence[tuple[dict[str, str], str]]) -> list[Any]:
        try:
            return self._rpc.call_many("eth_call", *calls)
        except RpcError as error:
            if error.is_revert:
                raise decode_revert(error.data) from error
            raise
