"""One account's transactions, one at a time, on disk before they are on the wire.

Decides nonces, fees and when a transaction counts as mined, replaced or lost. Every signed transaction is stored first:
after a crash or an outage the next send settles what is open before it takes a new nonce, so there is never a gap. A
call equal to one still open *is* that one: its receipt is returned and nothing is sent twice. Threads and processes
that share the file take turns. Refuses to send what the node says would revert.
"""

from __future__ import annotations

import fcntl
import json
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from eth_account.signers.local import LocalAccount
from eth_utils import to_checksum_address

from ledger.abi import decode_revert
from ledger.errors import ChainUnavailable, InsufficientFunds, LedgerError, NotMined, Reverted, RpcError
from ledger.rpc import Rpc

POLL_S = 0.05
TIP_WEI = 10**9
GAS_MARGIN = 1.3  # the state may change between the estimate and the block
LOST_AFTER_S = 3.0  # a node may count the nonce as used some time before it has the receipt (seen with Anvil)
BUMP = 1.25  # nodes ask for at least 10 % more to replace a transaction
ATTEMPTS = 5
_T = TypeVar("_T")
_SCHEMA = """
CREATE TABLE IF NOT EXISTS transactions (
    id INTEGER PRIMARY KEY, scope TEXT NOT NULL, sender TEXT NOT NULL, nonce INTEGER NOT NULL, request TEXT NOT NULL,
    fee_wei TEXT NOT NULL, raw BLOB NOT NULL, hashes TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('open', 'mined', 'lost')))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """A mined transaction; `contract` is the created one's address, `logs` are as the RPC gives them."""

    block: int
    gas_used: int
    contract: str | None
    logs: tuple[dict, ...]


@dataclass(slots=True, kw_only=True)
class _Row:
    row_id: int
    nonce: int
    request: str
    fee_wei: int
    raw: bytes
    hashes: list[str]


class TransactionQueue:
    """`scope` tells deployments apart: rows of another chain or salt are left alone. `path=None` keeps it in memory."""

    def __init__(
        self,
        rpc: Rpc,
        account: LocalAccount,
        *,
        chain_id: int,
        scope: str,
        path: Path | None = None,
        timeout_s: float = 120.0,
        bump_after_s: float = 15.0,
    ) -> None:
        self._rpc, self._account, self._chain_id, self._scope = rpc, account, chain_id, f"{chain_id}:{scope}"
        self._timeout_s, self._bump_after_s = timeout_s, bump_after_s
        self._lock = threading.Lock()
        self._lock_path = path.with_name(path.name + ".lock") if path else None
        self._db = sqlite3.connect(path or ":memory:", check_same_thread=False, isolation_level=None, timeout=30)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute(_SCHEMA)

    def close(self) -> None:
        with self._lock:
            self._db.close()

    def send(self, to: str | None, data: bytes, value_wei: int = 0) -> Receipt:
        """Send and wait for the receipt. Raises `Reverted`, `InsufficientFunds`, `ChainUnavailable`, `NotMined`."""
        request = {"from": self._account.address, "data": f"0x{data.hex()}", "value": hex(value_wei)}
        if to:
            request["to"] = to
        with self._turn():
            adopted = self._settle_open(json.dumps(request))
            if adopted:
                return self._finished(request, adopted)
            gas = int(int(self._ask("eth_estimateGas", request), 16) * GAS_MARGIN)
            for _ in range(ATTEMPTS):
                nonce = int(self._ask("eth_getTransactionCount", self._account.address, "pending"), 16)
                row = self._store(request | {"gas": hex(gas)}, nonce, self._fee_wei())
                if receipt := self._settle(row):
                    return self._finished(request, receipt)
        raise LedgerError(f"nonce of {self._account.address} taken {ATTEMPTS} times: another program uses this key")

    def settle(self) -> None:
        """See everything sent earlier through: mined, or lost because its nonce was used otherwise."""
        with self._turn():
            self._settle_open(None)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        with self._lock:
            if self._lock_path is None:
                yield
                return
            with self._lock_path.open("w") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                yield

    def _settle_open(self, wanted: str | None) -> dict | None:
        adopted = None
        query = "SELECT id, nonce, request, fee_wei, raw, hashes FROM transactions"
        where = "WHERE state = 'open' AND scope = ? AND sender = ? ORDER BY nonce"
        for row_id, nonce, request, fee, raw, hashes in self._db.execute(
            f"{query} {where}", (self._scope, self._account.address)
        ).fetchall():
            row = _Row(
                row_id=row_id, nonce=nonce, request=request, fee_wei=int(fee), raw=raw, hashes=json.loads(hashes)
            )
            receipt = self._settle(row)
            plain = {name: value for name, value in json.loads(request).items() if name != "gas"}
            if receipt and json.dumps(plain) == wanted:
                adopted = receipt
        return adopted

    def _settle(self, row: _Row) -> dict | None:
        """The receipt; None where the nonce went to another transaction. Outages are waited out until the timeout."""
        started = sent = time.monotonic()
        taken_since = None
        self._try(self._broadcast, row)
        while True:
            taken, receipt = self._try(self._look, row) or (False, None)
            now = time.monotonic()
            taken_since = (taken_since or now) if taken else None
            if receipt or (taken_since and now - taken_since > LOST_AFTER_S):
                self._close(row, "mined" if receipt else "lost")
                return receipt
            if now - started > self._timeout_s and not taken:
                self._rpc.call("eth_chainId")  # where the chain is away, say so
                raise NotMined(row.hashes[-1], now - started)
            if now - sent > self._bump_after_s and not taken:
                self._bump(row)
                self._try(self._broadcast, row)
                sent = now
            time.sleep(POLL_S)

    def _look(self, row: _Row) -> tuple[bool, dict | None]:
        """Whether the nonce is used, and our receipt where there is one."""
        for transaction_hash in reversed(row.hashes):
            if receipt := self._rpc.call("eth_getTransactionReceipt", transaction_hash):
                return True, receipt
        taken = int(self._rpc.call("eth_getTransactionCount", self._account.address, "latest"), 16) > row.nonce
        return taken, None

    def _try(self, action: Callable[[_Row], _T], row: _Row) -> _T | None:
        """An outage after signing is no failure: the row is on disk and is looked at again."""
        try:
            return action(row)
        except ChainUnavailable:
            return None

    def _broadcast(self, row: _Row) -> None:
        try:
            self._rpc.call("eth_sendRawTransaction", f"0x{row.raw.hex()}")
        except RpcError as error:
            message = error.message.lower()
            if "underpriced" in message:
                self._bump(row)
            elif any(part in message for part in ("already known", "already imported", "nonce too low")):
                return
            elif len(row.hashes) == 1:  # refused for good; a refused replacement leaves the original in the pool
                self._close(row, "lost")
                raise (self._poor() if "insufficient funds" in message else error) from error

    def _close(self, row: _Row, state: str) -> None:
        self._db.execute("UPDATE transactions SET state = ? WHERE id = ?", (state, row.row_id))

    def _bump(self, row: _Row) -> None:
        row.fee_wei = int(row.fee_wei * BUMP) + 1
        tip_wei = int(TIP_WEI * BUMP ** len(row.hashes))
        row.raw, transaction_hash = self._sign(json.loads(row.request), row.nonce, row.fee_wei, tip_wei)
        row.hashes.append(transaction_hash)
        self._db.execute(
            "UPDATE transactions SET fee_wei = ?, raw = ?, hashes = ? WHERE id = ?",
            (str(row.fee_wei), row.raw, json.dumps(row.hashes), row.row_id),
        )

    def _store(self, request: dict, nonce: int, fee_wei: int) -> _Row:
        raw, transaction_hash = self._sign(request, nonce, fee_wei, TIP_WEI)
        text, hashes = json.dumps(request), [transaction_hash]
        row_id = self._db.execute(
            "INSERT INTO transactions (scope, sender, nonce, request, fee_wei, raw, hashes, state)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, 'open')",
            (self._scope, self._account.address, nonce, text, str(fee_wei), raw, json.dumps(hashes)),
        ).lastrowid
        return _Row(row_id=row_id, nonce=nonce, request=text, fee_wei=fee_wei, raw=raw, hashes=hashes)

    def _sign(self, request: dict, nonce: int, fee_wei: int, tip_wei: int) -> tuple[bytes, str]:
        fields = {"type": 2, "chainId": self._chain_id, "nonce": nonce, "maxFeePerGas": fee_wei}
        fields |= {"maxPriorityFeePerGas": min(tip_wei, fee_wei), "gas": int(request["gas"], 16)}
        fields |= {"data": request["data"], "value": int(request["value"], 16), "to": request.get("to", b"")}
        signed = self._account.sign_transaction(fields)
        return bytes(signed.raw_transaction), f"0x{bytes(signed.hash).hex()}"

    def _fee_wei(self) -> int:
        block = self._rpc.call("eth_getBlockByNumber", "latest", False)
        return 2 * int(block.get("baseFeePerGas", "0x0"), 16) + TIP_WEI

    def _ask(self, method: str, *params: object) -> object:
        try:
            return self._rpc.call(method, *params)
        except RpcError as error:
            if error.is_revert:
                raise decode_revert(error.data) from error
            if "insufficient funds" in error.message.lower():
                raise self._poor() from error
            raise

    def _poor(self) -> InsufficientFunds:
        balance = int(self._rpc.call("eth_getBalance", self._account.address, "latest"), 16)
        return InsufficientFunds(self._account.address, balance)

    def _finished(self, request: dict, receipt: dict) -> Receipt:
        if int(receipt["status"], 16) == 0:
            self._ask("eth_call", request, "latest")  # normally reverts again and so gives the reason
            raise Reverted("reverted when mined, would pass now")
        contract = receipt.get("contractAddress")
        return Receipt(
            block=int(receipt["blockNumber"], 16),
            gas_used=int(receipt["gasUsed"], 16),
            contract=to_checksum_address(contract) if contract else None,
            logs=tuple(receipt["logs"]),
        )
