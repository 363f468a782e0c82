"""A member's life in one pool, whatever its role: announce, wait for the invite, beat, work, and leave when told to.

Decides what runs beside the role and when the role ends: whoever is blacklisted ends, whatever its role. A worker's
address goes to its manager alone, sealed anew whenever the manager or its key changes; other roles are there to be
dialled. It refuses to leave before the role has finished what it began.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

import trio

from dht.records import NodeRecord
from ledger.client import Ledger
from ledger.errors import Reverted
from ledger.types import Role
from node import membership, relay, validator, worker
from node.chain import on_chain
from node.contact import seal_contact
from node.errors import UserError
from node.intent import Intent
from node.log_ring import LogRing
from node.network import Network
from node.order_desk import OrderDesk
from node.place import Place
from node.policies import Policies
from node.preflight import check_before_download
from node.pulse import Pulse
from node.streams import Peer

log = logging.getLogger(__name__)


class Announcement:
    """This node's record: open for those who serve, sealed for workers."""

    def __init__(self, network: Network, peer: Peer, *, role: str, address: str) -> None:
        self._network, self._peer, self._role, self._address = network, peer, role, address
        self._sealed_to = b""

    def publish(self) -> None:
        """The first record, in a moment; a worker's is without any address yet."""
        open_ = () if self._role == "worker" else self._peer.multiaddrs
        self._network.announce_node_soon(peer_id=self._peer.peer_id, roles=(self._role,), multiaddrs=open_)

    async def manager_is(self, manager: NodeRecord) -> None:
        """Seals this worker's address to the manager, where that has changed."""
        if self._role != "worker" or manager.x25519 in (b"", self._sealed_to):
            return
        sealed = seal_contact(self._peer.multiaddrs, address=self._address, x25519=manager.x25519)
        self._network.announce_node_soon(peer_id=self._peer.peer_id, roles=(self._role,), multiaddrs=(), sealed=sealed)
        self._sealed_to = manager.x25519
        log.info("this node's address is sealed to manager %s", manager.address)


async def live(place: Place, ring: LogRing) -> None:
    """Until cancelled, or until the node has left by its owner's wish. Raises Blacklisted, UserError."""
    role, address, pool_id = place.role, place.address, place.pool_id
    ledger, peer, network = place.ledger, place.peer, place.network
    intent, announcement = Intent(place.data_dir), Announcement(network, peer, role=role, address=address)

    async def manager() -> str:
        return (await on_chain(ledger.pool, pool_id)).manager

    async def is_member() -> bool:
        return (await on_chain(ledger.member, pool_id, address)).active

    pulse = Pulse(
        peer,
        network,
        account=place.account,
        domain=place.domain,
        manager=manager,
        sequence=place.state.sequence("heartbeat", start=int(network.clock.now_s() * 1000)),
        heartbeat_s=place.config.network.heartbeat_s,
        mode=intent.look,  # not `mode`: one that has slept would be taken for working, and invited
        on_manager=announcement.manager_is,
    )
    intent.on_change = pulse.beat_soon
    desk = OrderDesk(
        place.state, ring, data_dir=place.data_dir, domain=place.domain, own_address=address, manager=manager,
        is_member=is_member, clock=network.clock.now_s,
    )  # fmt: skip
    admission = membership.Admission(ledger, address=address, pool_id=pool_id, role=Role[role.upper()])
    admission.listen(peer)
    desk.listen(peer)
    serves = role == "relay" or place.config.worker.serve
    policies = Policies(
        ledger, network, place.metrics, pool_id=pool_id, serve=serves, by_delta=place.config.network.deltas
    )

    async def work() -> None:
        await admission.wait()
        place.metrics.write("joined", role=role, address=address)
        await check_before_download(place.config, ledger, network)
        match role:
            case "relay":
                await relay.run(place, policies)
            case "validator":
                await validator.run(place, policies, desk)
            case "worker":
                await worker.run(place, policies, admission, intent, pulse, desk)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(intent.follow)
        announcement.publish()
        nursery.start_soon(pulse.run)
        nursery.start_soon(membership.until_blacklisted, ledger, pool_id, address)
        await until_draining(intent, work, finishes_itself=lambda: role == "worker" and admission.joined)
        await leave(ledger, network, pool_id=pool_id, address=address)
        intent.fulfilled()
        nursery.cancel_scope.cancel()


async def until_draining(
    intent: Intent, work: Callable[[], Awaitable[None]], *, finishes_itself: Callable[[], bool]
) -> None:
    """`work`, ended when the node is to leave, unless it then comes to an end by itself."""
    async with trio.open_nursery() as nursery:

        async def stop() -> None:
            await intent.wait_draining()
            if not finishes_itself():
                nursery.cancel_scope.cancel()

        nursery.start_soon(stop)
        await work()
        nursery.cancel_scope.cancel()


async def leave(ledger: Ledger, network: Network, *, pool_id: int, address: str) -> None:
    """Off the ledger and out of the directory. Raises UserError where the ledger refuses."""
    network.withdraw_node()
    if (await on_chain(ledger.member, pool_id, address)).active:
        try:
            await on_chain(ledger.leave, pool_id)
        except Reverted as refused:
            if (await on_chain(ledger.member, pool_id, address)).active:
                raise UserError(
                    f"cannot leave pool {pool_id}: {refused}", fix="cure what it says, then drain again"
                ) from (refused)
    log.info("left pool %d", pool_id)
