"""One account's writes to a deployment: through one queue, each returning once it is mined.

Refuses to write without an account, and to a chain that has not just proven to be the deployment's (id, code, salt).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from eth_account.signers.local import LocalAccount

from ledger.abi import interface
from ledger.chain import Chain
from ledger.deployment import Deployment
from ledger.errors import LedgerError
from ledger.events import Event
from ledger.logs import parse_log
from ledger.transactions import Receipt, TransactionQueue

E = TypeVar("E", bound=Event)


class Account(Chain):
    """`account=None` can only read; `queue_path=None` keeps the transaction queue in memory (lost on restart)."""

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
        self._spending = threading.Lock()
        self._queue = account and TransactionQueue(
            self._rpc,
            account,
            chain_id=deployment.chain_id,
            scope=deployment.salt.hex(),
            guard=self.check,
            path=queue_path,
            timeout_s=timeout_s,
        )

    def close(self) -> None:
        if self._queue:
            self._queue.close()

    def settle(self) -> None:
        """See through what an earlier process sent and did not see mined."""
        self._writer().settle()

    def transfer_eth(self, to: str, amount_wei: int) -> int:
        """Returns the block."""
        return self._writer().send(to, b"", amount_wei).block

    def _writer(self) -> TransactionQueue:
        if not self._queue:
            raise LedgerError("this ledger was opened without an account and cannot write")
        return self._queue

    @property
    def _sender(self) -> LocalAccount:
        self._writer()
        return self.account

    def _write(self, contract: str, function: str, *arguments: object) -> Receipt:
        return self._writer().send(self._addresses[contract], interface(contract).encode(function, *arguments))

    @contextmanager
    def _approved(self, contract: str, amount_wei: int) -> Iterator[None]:
        """Within, `contract` may take `amount_wei` of this account's tokens; threads take turns at it."""
        with self._spending:
            self._write("StakeToken", "approve", self._addresses[contract], amount_wei)
            yield

    @staticmethod
    def _made(receipt: Receipt, kind: type[E]) -> E:
        """The event of this kind that the transaction logged."""
        return next(event for log in receipt.logs if isinstance(event := parse_log(log), kind))
