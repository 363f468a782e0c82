"""One deployment of the contracts, asked over JSON-RPC: calls, logs, time, and whether it is there at all.

Refuses to take silence for an answer: a contract without code is `WrongChain`, never "not a member". Safe to share
between threads. Contract errors arrive as `Reverted`, transport faults as `ChainUnavailable`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import eth_abi
from eth_utils import keccak

from ledger.abi import CONTRACTS, decode_revert, interface, topics_of
from ledger.cursor import EventCursor
from ledger.deployment import CONTRACT_FIELDS, Deployment
from ledger.errors import ChainBehind, RpcError, WrongChain
from ledger.events import Event
from ledger.logs import parse_log
from ledger.rpc import Rpc

log = logging.getLogger(__name__)
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
        block_hash = self._hash_of(number)
        if block_hash is None:
            raise WrongChain("chain length", f"at least {number}", self.block_number)
        return block_hash

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

    def events(self, cursor: EventCursor, *kinds: type[Event]) -> list[Event]:
        """Events since the cursor, of these kinds or all, in order, at most `MAX_BLOCKS_PER_READ` blocks of them.

        Handle them (again, perhaps: after a crash, or where the chain was reorganised, see EventCursor.rewind), then
        `cursor.commit(events[-1].block)`. Empty stretches are committed here. Raises `ChainBehind` where the endpoint
        knows fewer blocks than were handled, `WrongChain` where it serves another deployment.
        """
        (start, handled_hash), head = cursor.position, self.block_number
        if head == start - 1:
            return []
        self.check()
        if head < start:
            raise ChainBehind(self._rpc.url, start - 1, head)
        if handled_hash is not None and (found := self._hash_of(start - 1)) != handled_hash:
            if found is None:
                raise ChainBehind(self._rpc.url, start - 1, head)
            handled, start = start - 1, cursor.rewind()
            log.warning("block %d is another one than was handled: the chain was reorganised, and is read again from "
                        "block %d on", handled, start)  # fmt: skip
        end = min(head, start + MAX_BLOCKS_PER_READ - 1)
        topics = topics_of(kind.__name__ for kind in kinds)
        # Together, for of several nodes behind one address another may not know the last blocks, and say "no events".
        block, logs = self._rpc.call_together(
            ("eth_getBlockByNumber", hex(end), False),
            ("eth_getLogs", self._query(start, end, None, *([topics] if kinds else []))),
        )
        if block is None:
            raise ChainBehind(self._rpc.url, start - 1, head)
        hashes = {int(log["blockNumber"], 16): _bytes(log["blockHash"]) for log in logs} | {end: _bytes(block["hash"])}
        events = _parsed(logs)
        if events:
            cursor.read(events[-1].block, hashes[events[-1].block])
        else:
            cursor.read(end, hashes[end])
            cursor.commit(end)
        return events

    def _hash_of(self, number: int) -> bytes | None:
        """None where the endpoint does not know the block."""
        block = self._rpc.call("eth_getBlockByNumber", hex(number), False)
        return None if block is None else _bytes(block["hash"])

    def _events(
        self, start: int, end: int, contract: str | None = None, *topics: str | list[str] | None
    ) -> list[Event]:
        """Events of these blocks, inclusive, in order; of one contract, with these topics where they are given.

        A list of topics means any of them.
        """
        return _parsed(self._rpc.call("eth_getLogs", self._query(start, end, contract, *topics)))

    def _query(
        self, start: int, end: int, contract: str | None = None, *topics: str | list[str] | None
    ) -> dict[str, Any]:
        addresses = [self._addresses[contract]] if contract else list(self._addresses.values())
        query: dict[str, Any] = {"fromBlock": hex(start), "toBlock": hex(end), "address": addresses}
        return query | ({"topics": list(topics)} if topics else {})

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


def _parsed(logs: Sequence[dict[str, Any]]) -> list[Event]:
    events = [event for log in logs if (event := parse_log(log))]
    return sorted(events, key=lambda event: (event.block, event.log_index))


def _bytes(digits: str) -> bytes:
    return bytes.fromhex(digits.removeprefix("0x"))
