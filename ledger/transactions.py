"""One account's transactions, one at a time, on disk before they are on the wire.

Decides nonces, fees and when a transaction counts as mined, replaced or lost. Every signed transaction is stored first:
after a crash or an outage the next send settles what is open before it takes a new nonce, so there is never a gap. What
a reorganisation, or a chain restarted from an older state, took back is sent again under its nonce. A call equal to one
still open, or to one whose sender was told `NotMined`, *is* that one: its receipt is returned and nothing is sent
twice. Threads and processes that share the file take turns. Refuses to send what the node says would revert, and
anything at all where `guard` raises: the chain may have become another one.
"""

from __future__ import annotations

import fcntl
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from eth_account.signers.local import LocalAccount
from eth_utils import to_checksum_address

from ledger.abi import decode_revert
from ledger.errors import ChainUnavailable, InsufficientFunds, LedgerError, NotMined, Reverted, RpcError
from ledger.rpc import Rpc
from ledger.transaction_store import SentTransaction, TransactionStore

POLL_S = 0.05
TIP_WEI = 10**9
GAS_MARGIN = 1.3  # the state may change between the estimate and the block
LOST_AFTER_S = 3.0  # a node may count the nonce as used some time before it has the receipt (seen with Anvil)
BUMP = 1.25  # nodes ask for at least 10 % more to replace a transaction
BUMPS_AT_ONCE = 8
ATTEMPTS = 5
ORPHAN_S = 600.0
"""How long a sender that was told `NotMined` may take to ask again for the same."""
KNOWN = ("already known", "already imported", "nonce too low")
TOO_CHEAP = ("underpriced", "max fee per gas less than block base fee", "fee cap", "feetoolow")


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """A mined transaction; `contract` is the created one's address, `logs` are as the RPC gives them."""

    block: int
    contract: str | None
    logs: tuple[dict, ...]


class TransactionQueue:
    """`scope` tells deployments apart: rows of another chain or salt are left alone. `path=None` keeps it in memory."""

    def __init__(
        self,
        rpc: Rpc,
        account: LocalAccount,
        *,
        chain_id: int,
        scope: str,
        guard: Callable[[], None] = lambda: None,
        path: Path | None = None,
        timeout_s: float = 120.0,
        bump_after_s: float = 15.0,
    ) -> None:
        """`guard` raises `WrongChain` where nothing must be sent."""
        self._rpc, self._account, self._chain_id, self._guard = rpc, account, chain_id, guard
        self._timeout_s, self._bump_after_s = timeout_s, bump_after_s
        self._lock = threading.Lock()
        self._lock_path = path.with_name(path.name + ".lock") if path else None
        self._store = TransactionStore(path, scope=f"{chain_id}:{scope}", sender=account.address)
        self._orphans: dict[int, float] = {}
        """Rows whose sender was told `NotMined` or that the chain is away → when that was last so."""

    def close(self) -> None:
        with self._lock:
            self._store.close()

    def send(self, to: str | None, data: bytes, value_wei: int = 0) -> Receipt:
        """Send and wait for the receipt.

        Raises `Reverted`, `InsufficientFunds`, `ChainUnavailable`, `NotMined`, `WrongChain`.
        """
        request = {"from": self._account.address, "data": f"0x{data.hex()}", "value": hex(value_wei)}
        if to:
            request["to"] = to
        wish = json.dumps(request)
        with self._turn():
            earlier = self._claimable(wish)
            self._settle_open()
            if receipt := self._adopt(wish, earlier):
                return self._finished(request, receipt)
            gas = int(int(self._ask("eth_estimateGas", request, "pending"), 16) * GAS_MARGIN)
            for _ in range(ATTEMPTS):
                nonce = int(self._ask("eth_getTransactionCount", self._account.address, "pending"), 16)
                row = self._sign_new(request | {"gas": hex(gas)}, nonce)
                if receipt := self._settle(row):
                    return self._finished(request, receipt)
        raise LedgerError(f"nonce of {self._account.address} taken {ATTEMPTS} times: another program uses this key")

    def settle(self) -> None:
        """See everything sent earlier through: mined, or lost because its nonce was used otherwise."""
        with self._turn():
            self._settle_open()

    @contextmanager
    def _turn(self) -> Iterator[None]:
        with self._lock:
            if self._lock_path is None:
                yield
                return
            with self._lock_path.open("w") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                yield

    def _claimable(self, wish: str) -> list[int]:
        """Rows that are this wish, sent earlier and never answered for."""
        fresh = time.monotonic() - ORPHAN_S
        self._orphans = {row_id: since for row_id, since in self._orphans.items() if since > fresh}
        rows = [*(self._store.get(row_id) for row_id in self._orphans), *self._store.open_rows()]
        return list(dict.fromkeys(row.row_id for row in rows if row and row.wish == wish))

    def _adopt(self, wish: str, earlier: list[int]) -> dict | None:
        for row_id in earlier:
            row = self._store.get(row_id)
            receipt = row and row.state == "mined" and self._receipt(row)
            if receipt or not row or row.state == "lost":
                self._orphans.pop(row_id, None)
            if receipt:
                return receipt
        return None

    def _settle_open(self) -> None:
        self._guard()
        # A used nonce stays used; one that the chain no longer knows as used was taken back.
        self._store.reopen_from(self._nonces_used())
        for row in self._store.open_rows():
            self._settle(row)

    def _settle(self, row: SentTransaction) -> dict | None:
        """The receipt; None where the nonce went to another transaction. Outages are waited out until the timeout."""
        try:
            receipt = self._wait(row)
        except LedgerError:
            if row.state == "open":
                self._orphans[row.row_id] = time.monotonic()
            raise
        self._store.set_state(row, "mined" if receipt else "lost")
        if row.row_id in self._orphans:
            self._orphans[row.row_id] = time.monotonic()
        return receipt

    def _wait(self, row: SentTransaction) -> dict | None:
        started = sent = time.monotonic()
        taken_since, unsent = None, True
        while True:
            taken = False
            try:
                if unsent:
                    self._broadcast(row)
                    unsent = False
                if receipt := self._receipt(row):
                    return receipt
                taken = self._nonces_used() > row.nonce
            except ChainUnavailable:
                unsent = True  # a node that was away may have forgotten what it was sent
            now = time.monotonic()
            taken_since = (taken_since or now) if taken else None
            if taken_since and now - taken_since > LOST_AFTER_S:
                return None
            if now - started > self._timeout_s and not taken:
                self._rpc.call("eth_chainId")  # where the chain is away, say so
                raise NotMined(row.hashes[-1], now - started)
            if now - sent > self._bump_after_s and not taken and not unsent:
                sent, unsent = now, True
                self._bump(row)
            time.sleep(POLL_S)

    def _receipt(self, row: SentTransaction) -> dict | None:
        for transaction_hash in reversed(row.hashes):
            if receipt := self._rpc.call("eth_getTransactionReceipt", transaction_hash):
                return receipt
        return None

    def _nonces_used(self) -> int:
        return int(self._rpc.call("eth_getTransactionCount", self._account.address, "latest"), 16)

    def _broadcast(self, row: SentTransaction) -> None:
        self._guard()
        for _ in range(BUMPS_AT_ONCE):
            try:
                self._rpc.call("eth_sendRawTransaction", f"0x{row.raw.hex()}")
                return
            except RpcError as error:
                message = error.message.lower()
                if any(part in message for part in KNOWN):
                    return
                if not any(part in message for part in TOO_CHEAP):
                    return self._refused(row, error)
                self._bump(row)

    def _refused(self, row: SentTransaction, error: RpcError) -> None:
        """A refused replacement leaves the original in the pool; what the node does not know after all was not sent."""
        if len(row.hashes) > 1 or self._rpc.call("eth_getTransactionByHash", row.hashes[0]):
            return
        self._store.set_state(row, "lost")
        raise (self._poor() if "insufficient funds" in error.message.lower() else error) from error

    def _bump(self, row: SentTransaction) -> None:
        try:
            fee_wei = max(int(row.fee_wei * BUMP) + 1, self._fee_wei())
        except ChainUnavailable:
            return
        tip_wei = int(TIP_WEI * BUMP ** len(row.hashes))
        self._store.replace(row, fee_wei, *self._sign(json.loads(row.request), row.nonce, fee_wei, tip_wei))

    def _sign_new(self, request: dict, nonce: int) -> SentTransaction:
        fee_wei = self._fee_wei()
        raw, transaction_hash = self._sign(request, nonce, fee_wei, TIP_WEI)
        return self._store.add(json.dumps(request), nonce, fee_wei, raw, transaction_hash)

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
            self._ask("eth_call", request, receipt["blockNumber"])  # normally reverts again and so gives the reason
            raise Reverted("reverted when mined, would pass now")
        contract = receipt.get("contractAddress")
        return Receipt(
            block=int(receipt["blockNumber"], 16),
            contract=to_checksum_address(contract) if contract else None,
            logs=tuple(receipt["logs"]),
        )
