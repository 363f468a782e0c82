"""What a pool's manager may order a node to do, and when an order counts.

An order is EIP-712 data of its own type, signed by the manager's wallet over the run, both peer ids, a sequence number
and an expiry. Pure: bytes, wallets and clock are arguments. It refuses orders of, for, or brought by anybody else, and
those that have run out. That no order works twice is the sequence's doing, whatever any clock says: the expiry only
bounds how late a first delivery may be, so it is judged with tolerance.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from eth_utils import keccak

from dht.records import MAX_INTEGER
from dht.signing import RecordDomain, SignatureInvalid, Signer, recover, sign, typed_hash, word
from node.log_ring import MAX_LINES
from node.stream_errors import Refusal

ORDERS_PROTOCOL = "/intellect-node/orders/1"
ORDER_BYTES = 1024
ORDER_REPLY_BYTES = 256 << 10
ORDER_LIFETIME_S = 60
TOLERANCE_S = 120.0
"""How far the clocks of manager and node may be apart."""
_TYPE = (
    "Order(bytes32 salt,bytes32 runId,string kind,uint64 lines,address node,string nodePeer,string managerPeer,"
    "uint64 sequence,uint64 expires)"
)


class Kind(StrEnum):
    """What can be ordered."""

    LOGS = "logs"
    """Show the last `lines` lines of the log."""
    RESTART_ENGINE = "restart-engine"


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """`lines` is 0 for orders other than LOGS; `manager_peer` is the peer that brings it."""

    kind: Kind
    lines: int
    node: str
    node_peer: str
    manager_peer: str
    sequence: int
    expires_unix_s: int


def sign_order(order: Order, *, domain: RecordDomain, account: Signer) -> dict[str, Any]:
    """The message that carries `order`, signed by the manager's wallet."""
    return {
        "kind": str(order.kind),
        "lines": order.lines,
        "node": order.node,
        "node_peer": order.node_peer,
        "manager_peer": order.manager_peer,
        "sequence": order.sequence,
        "expires_unix_s": order.expires_unix_s,
        "signature": sign(_digest(order, domain), account),
    }


def open_order(
    message: Mapping[str, Any],
    *,
    domain: RecordDomain,
    remote: str,
    own_peer: str,
    own_address: str,
    manager: str,
    now_unix_s: float,
) -> Order:
    """The order in a message of the peer `remote`, if it is `manager`'s and for this node. Raises Refusal."""
    texts, numbers = ("kind", "node", "node_peer", "manager_peer"), ("lines", "sequence", "expires_unix_s")
    if set(message) != {*texts, *numbers, "signature"}:
        raise Refusal("malformed", "an order has exactly its fields and a signature")
    if not all(isinstance(message[name], str) and len(message[name]) <= 128 for name in texts):
        raise Refusal("malformed", "a text of the order is none, or too long")
    if not all(type(message[name]) is int and 0 <= message[name] <= MAX_INTEGER for name in numbers):
        raise Refusal("malformed", "a number of the order is none, or out of range")
    if not isinstance(message["signature"], bytes) or message["kind"] not in iter(Kind):
        raise Refusal("malformed", "an order is for logs or an engine's restart, and signed")
    if message["lines"] > MAX_LINES:
        raise Refusal("malformed", f"at most {MAX_LINES} lines are shown")
    if (message["node"], message["node_peer"]) != (own_address, own_peer):
        raise Refusal("not-mine", "this order is for another node")
    if message["manager_peer"] != remote:
        raise Refusal("not-yours", "this order was signed for another peer than the one that brings it")
    fields = {name: message[name] for name in (*texts, *numbers)}
    order = Order(**fields | {"kind": Kind(fields["kind"])})
    try:
        signer = recover(_digest(order, domain), message["signature"])
    except SignatureInvalid as error:
        raise Refusal("forged", str(error)) from error
    if signer != manager:
        raise Refusal("not-the-manager", "only the manager of this node's pool gives it orders")
    if now_unix_s > order.expires_unix_s + TOLERANCE_S:
        raise Refusal(
            "expired", f"this order ran out {now_unix_s - order.expires_unix_s:.0f} s ago by this node's clock"
        )
    if order.expires_unix_s > now_unix_s + ORDER_LIFETIME_S + TOLERANCE_S:
        raise Refusal("expired", "this order runs out too far in the future by this node's clock")
    return order


def _digest(order: Order, domain: RecordDomain) -> bytes:
    kind, node_peer, manager_peer = (keccak(text=t) for t in (order.kind, order.node_peer, order.manager_peer))
    words = (kind, word(order.lines), word(order.node), node_peer, manager_peer, word(order.sequence))
    return typed_hash(domain, _TYPE, (domain.salt, domain.run_id, *words, word(order.expires_unix_s)))
