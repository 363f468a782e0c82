"""A pool in memory for tests of a node's life: peers on a wire, a board of records, a ledger that can be away."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import trio
from eth_account import Account
from eth_account.signers.local import LocalAccount

from dht.records import NodeRecord, RunStateRecord, SignedRecord
from dht.signing import RecordDomain
from node.dhtd_link import NetworkDown
from node.peer_key import make_peer_key
from node.roster import Standing
from node.stream_errors import PeerTimeout, PeerUnreachable, Refusal, RemoteError

MANAGER = Account.from_key(b"\x09" * 32)
DOMAIN = RecordDomain(chain_id=31337, contract=MANAGER.address, salt=b"s" * 32, run_id=b"r" * 32)
RUN_STATE = RunStateRecord(epoch=1, open_step=4, policy_version=2, manifest_hash=b"m" * 32)


def account(number: int) -> LocalAccount:
    """The same wallets in every test."""
    return Account.from_key(bytes([number]) * 32)


def peer_id(number: int) -> str:
    return make_peer_key(bytes([number]) * 32).peer_id


@dataclass
class Wire:
    """Who answers at a peer id, and what went over it."""

    handlers: dict[tuple[str, str], Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]] = field(
        default_factory=dict
    )
    sent: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)
    silent: set[str] = field(default_factory=set)
    """Peer ids that take a request and never answer."""


@dataclass
class WirePeer:
    """What `node.streams.Peer` is to the parts under test; the remote peer id is the authenticated one."""

    wire: Wire
    peer_id: str

    def handle(self, protocol: str, handler: Any, max_bytes: int, **_: Any) -> None:
        self.wire.handlers[self.peer_id, protocol] = handler

    async def request(
        self, multiaddr: str, protocol: str, message: dict[str, Any], timeout_s: float, **_: Any
    ) -> dict[str, Any]:
        to = multiaddr.rsplit("/", 1)[1]
        self.wire.sent.append((self.peer_id, to, message))
        if to in self.wire.silent:
            await trio.sleep(timeout_s)
            raise PeerTimeout(multiaddr, "no reply")
        handler = self.wire.handlers.get((to, protocol))
        if handler is None:
            raise PeerUnreachable(multiaddr, "nobody")
        try:
            return await handler(self.peer_id, message)
        except Refusal as refusal:
            raise RemoteError(multiaddr, refusal.code, refusal.message) from refusal


@dataclass
class Board:
    """The directory: one record a subject, the highest sequence wins."""

    records: dict[str, SignedRecord] = field(default_factory=dict)
    down: bool = False
    sequence: int = 0

    async def nodes(self) -> tuple[SignedRecord, ...]:
        if self.down:
            raise NetworkDown("dhtd is away")
        return tuple(self.records.values())

    def put(self, subject: str, peer: str, role: str, **fields: Any) -> None:
        self.sequence += 1
        content = NodeRecord(
            address=subject, peer_id=peer, roles=(role,), bulk_url="",
            multiaddrs=fields.pop("multiaddrs", (f"/ip4/127.0.0.1/tcp/1/p2p/{peer}",)), **fields,
        )  # fmt: skip
        self.records[subject] = SignedRecord(
            run_id=DOMAIN.run_id, kind="node", key="k", subject=subject, body=b"", sequence=self.sequence,
            expires_unix_s=1, signature=b"", content=content,
        )  # fmt: skip


@dataclass
class MemoryPool:
    """The ledger's side of one pool.

    `deaf` are nodes that take no invite, `fault` what every removal raises, `invite_fault` what every invite does,
    `slow_s` how long the ledger takes to answer. Nobody is listed as a validator.
    """

    active: set[str] = field(default_factory=set)
    barred: set[str] = field(default_factory=set)
    unstaked: set[str] = field(default_factory=set)
    hanging: set[str] = field(default_factory=set)
    deaf: set[str] = field(default_factory=set)
    invited: list[NodeRecord] = field(default_factory=list)
    removed: list[tuple[str, str]] = field(default_factory=list)
    fault: Exception | None = None
    invite_fault: Exception | None = None
    blocked: bool = False
    slow_s: float = 0.0

    async def standing(self, address: str) -> Standing:
        await self._chain()
        return Standing(
            active=address in self.active, barred=address in self.barred, ejected=address in dict(self.removed)
        )

    async def members(self) -> tuple[str, ...]:
        await self._chain()
        return tuple(self.active)

    async def wants(self, node: NodeRecord) -> bool:
        await self._chain()
        return node.address not in self.unstaked and "validator" not in node.roles

    async def invite(self, node: NodeRecord) -> None:
        self.invited.append(node)
        if node.address in self.hanging:
            await trio.sleep(30)
            raise PeerTimeout("there", "no reply")
        if self.invite_fault is not None:
            raise self.invite_fault
        if node.address in self.deaf:
            raise PeerUnreachable("there", "nobody")
        self.active.add(node.address)

    async def remove(self, address: str, reason: str) -> None:
        await self._chain()
        if self.fault is not None:
            raise self.fault
        self.removed.append((address, reason))
        self.active.discard(address)

    async def _chain(self) -> None:
        await trio.sleep(self.slow_s)
        while self.blocked:
            await trio.sleep(1)
