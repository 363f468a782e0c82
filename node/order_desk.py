"""Where a node takes its manager's orders: checked, noted, obeyed, and written down.

Decides in which order an order is checked and what is written down. It obeys nobody but the manager of the pool that it
is a member of, does nothing beyond the two kinds of order, and leaves a line in `audit.jsonl` for every order that the
manager did sign, obeyed or not; what strangers send is in the log only, so that they cannot fill the disk.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from dht.signing import RecordDomain
from node.log_ring import LogRing
from node.metrics import MetricsLog
from node.orders import ORDER_BYTES, ORDER_REPLY_BYTES, ORDERS_PROTOCOL, Kind, Order, open_order
from node.state import NodeState
from node.streams import Peer, Refusal

log = logging.getLogger(__name__)
AUDIT_FILE = "audit.jsonl"


class OrderDesk:
    """One node's desk. `manager` tells who manages the pool now, `is_member` whether this node belongs to it.

    `clock` is the network's time in unix seconds, which this machine's own need not be.
    """

    def __init__(
        self,
        state: NodeState,
        ring: LogRing,
        *,
        data_dir: Path,
        domain: RecordDomain,
        own_address: str,
        manager: Callable[[], Awaitable[str]],
        is_member: Callable[[], Awaitable[bool]],
        clock: Callable[[], float],
    ) -> None:
        self._state, self._ring, self._domain, self._own_address = state, ring, domain, own_address
        self._manager, self._is_member, self._clock = manager, is_member, clock
        self._audit = MetricsLog(data_dir / AUDIT_FILE)
        self._own_peer = ""
        self.restart_engine: Callable[[], None] | None = None
        """Set by a role that has an engine, while it runs."""

    def listen(self, peer: Peer) -> None:
        """Take orders from now on."""
        self._own_peer = peer.peer_id
        peer.handle(ORDERS_PROTOCOL, self._receive, ORDER_BYTES, max_reply_bytes=ORDER_REPLY_BYTES)

    async def _receive(self, remote: str, message: dict[str, Any]) -> dict[str, Any]:
        manager = await self._manager()
        try:
            order = open_order(
                message,
                domain=self._domain,
                remote=remote,
                own_peer=self._own_peer,
                own_address=self._own_address,
                manager=manager,
                now_unix_s=self._clock(),
            )
        except Refusal as refusal:
            log.warning("an order of peer %s is refused: %s", remote, refusal)
            raise
        try:
            if not await self._is_member():
                raise Refusal("not-a-member", "this node is no member of that manager's pool")
            if not self._state.note_heard("order", manager, "", order.sequence):
                raise Refusal("replayed", f"order {order.sequence} is not newer than the last one")
            reply = self._obey(order)
        except Refusal as refusal:
            self._write_down(order, manager, refusal.code)
            raise
        self._write_down(order, manager, "obeyed")
        return reply

    def _obey(self, order: Order) -> dict[str, Any]:
        if order.kind is Kind.LOGS:
            return {"log": "\n".join(self._ring.last(order.lines))}
        if self.restart_engine is None:
            raise Refusal("no-engine", "no engine runs here that could be started again")
        self.restart_engine()
        return {"restarted": True}

    def _write_down(self, order: Order, manager: str, outcome: str) -> None:
        log.warning("order %d of manager %s, %s: %s", order.sequence, manager, order.kind, outcome)
        self._audit.write("order", manager=manager, peer=order.manager_peer, order=str(order.kind), lines=order.lines,
                          sequence=order.sequence, outcome=outcome)  # fmt: skip
