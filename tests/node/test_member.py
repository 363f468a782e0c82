"""What a member tells of itself, how its manager reaches it, and how it leaves."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from dht.records import NodeRecord
from ledger.errors import Reverted
from ledger.types import Bar, Member, Role
from node.contact import contact_key, open_contact
from node.errors import UserError
from node.intent import Intent, Wish, write_wish
from node.member import Announcement, leave, until_draining
from node.membership import STANDING_LOOK_S, Blacklisted, request_any, serves_workers, until_blacklisted
from node.peer_key import make_peer_key
from node.stream_errors import PeerUnreachable
from node.streams import open_peer
from tests.node.life_bench import DOMAIN, MANAGER, account, peer_id

ADDRESS = account(1).address
AT = f"/ip4/10.0.0.7/tcp/4001/p2p/{peer_id(1)}"


@dataclass
class FakePeer:
    peer_id: str = peer_id(1)
    multiaddrs: tuple[str, ...] = (AT,)


@dataclass
class FakeNetwork:
    """Keeps the record that would be published."""

    record: NodeRecord | None = None
    updates: int = 0
    withdrawn: bool = False

    def announce_node_soon(self, **fields: Any) -> None:
        self.updates += self.record is not None
        self.record = NodeRecord(address=ADDRESS, bulk_url="", **fields)

    def withdraw_node(self) -> None:
        self.withdrawn = True


def manager(number: int, **changes: Any) -> NodeRecord:
    wallet = account(number)
    fields = {"address": wallet.address, "peer_id": peer_id(number), "roles": ("trainer",), "multiaddrs": ("/a",),
              "bulk_url": "", "x25519": bytes(contact_key(wallet, DOMAIN).public_key)}  # fmt: skip
    return NodeRecord(**fields | changes)  # type: ignore[arg-type]


async def test_a_worker_shows_no_address_and_seals_it_anew_for_each_manager() -> None:
    network = FakeNetwork()
    announcement = Announcement(network, FakePeer(), role="worker", address=ADDRESS)  # type: ignore[arg-type]
    announcement.publish()
    assert network.record is not None
    assert (network.record.multiaddrs, network.record.sealed) == ((), b"")
    for number, updates in ((8, 1), (8, 1), (9, 2), (8, 3)):
        await announcement.manager_is(manager(number))
        assert network.updates == updates
        assert open_contact(network.record, contact_key(account(number), DOMAIN)) == (AT,)
        assert network.record.multiaddrs == ()
    await announcement.manager_is(manager(8, multiaddrs=("/b",)))
    await announcement.manager_is(manager(7, x25519=b""))
    assert network.updates == 3, "a manager that only moved, or has no key"


async def test_relays_and_validators_are_there_to_be_dialled() -> None:
    for role in ("relay", "validator"):
        network = FakeNetwork()
        announcement = Announcement(network, FakePeer(), role=role, address=ADDRESS)  # type: ignore[arg-type]
        announcement.publish()
        await announcement.manager_is(manager(9))
        assert network.record is not None
        assert (network.record.multiaddrs, network.record.sealed) == ((AT,), b"")


@dataclass
class FakeLedger:
    roles: dict[str, Role] = field(default_factory=dict)
    refuses: bool = False
    left: int = 0
    bar: Bar = Bar.NONE

    def member(self, pool_id: int, address: str) -> Member:
        role = self.roles.get(address, Role.NONE)
        return Member(
            address=address, role=role, active=role is not Role.NONE, since_unix_s=0, epoch=0, used=0, bar=self.bar
        )

    def may_manage(self, pool_id: int, address: str) -> bool:
        return address == MANAGER.address

    def leave(self, pool_id: int) -> None:
        if self.refuses:
            raise Reverted("Paused")
        self.left += 1
        self.roles.pop(ADDRESS)


async def test_an_unseen_worker_fetches_from_the_manager_and_from_relays_only() -> None:
    roles = {account(n).address: role for n, role in ((1, Role.RELAY), (2, Role.VALIDATOR), (3, Role.WORKER))}
    asked = {n: await serves_workers(FakeLedger(roles), 3, account(n).address)  # type: ignore[arg-type]
             for n in (1, 2, 3, 4, 9)}  # fmt: skip
    assert asked == {1: True, 2: False, 3: False, 4: False, 9: True}


async def test_leaving_is_done_once_and_a_refusal_is_told() -> None:
    ledger, network = FakeLedger({ADDRESS: Role.WORKER}, refuses=True), FakeNetwork()
    with pytest.raises(UserError, match="cannot leave pool 3"):
        await leave(ledger, network, pool_id=3, address=ADDRESS)  # type: ignore[arg-type]
    ledger.refuses = False
    for _ in range(2):
        await leave(ledger, network, pool_id=3, address=ADDRESS)  # type: ignore[arg-type]
    assert (ledger.left, network.withdrawn) == (1, True)


@pytest.mark.parametrize("bar", [Bar.BY_VERDICT, Bar.BY_MANAGER])
@pytest.mark.parametrize("role", [Role.RELAY, Role.VALIDATOR, Role.WORKER, Role.NONE])
async def test_whoever_is_blacklisted_ends_whatever_it_does(
    autojump_clock: trio.testing.MockClock, role: Role, bar: Bar
) -> None:
    """Also one that waits for an invite. The code says so to whoever supervises it."""
    ledger, began_s = FakeLedger({ADDRESS: role}), trio.current_time()

    async def story() -> None:
        await trio.sleep(30)
        ledger.roles.pop(ADDRESS)  # ejected only: it may come back
        await trio.sleep(20)
        ledger.bar = bar

    async with trio.open_nursery() as nursery:
        nursery.start_soon(story)
        with pytest.raises(Blacklisted) as told:
            await until_blacklisted(ledger, 3, ADDRESS)  # type: ignore[arg-type]
    assert told.value.exit_code == 4
    assert 50 <= trio.current_time() - began_s <= 50 + STANDING_LOOK_S


@pytest.mark.parametrize("itself", [True, False])
async def test_a_role_ends_when_its_owner_wants_it_to(
    tmp_path: Path, autojump_clock: trio.testing.MockClock, itself: bool
) -> None:
    """A worker comes to an end by itself, so that nothing is lost; the others are ended."""
    intent, finished = Intent(tmp_path), []

    async def work() -> None:
        while not intent.draining:
            await trio.sleep(1)
        await trio.sleep(100)  # the submission under way
        finished.append(True)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(intent.follow)
        await trio.sleep(5)
        write_wish(tmp_path, Wish.DRAIN)
        await until_draining(intent, work, finishes_itself=lambda: itself)
        nursery.cancel_scope.cancel()
    assert finished == ([True] if itself else [])


async def test_a_node_that_nobody_can_dial_is_reached_by_the_connection_that_it_opened() -> None:
    listen, record = "/ip4/127.0.0.1/tcp/0", NodeRecord(
        address=ADDRESS, peer_id=peer_id(1), roles=("worker",), multiaddrs=(), bulk_url=""
    )  # fmt: skip

    async def echo(remote: str, message: dict[str, Any]) -> dict[str, Any]:
        return {"from": remote}

    async with (
        open_peer(make_peer_key(b"\x09" * 32), listen) as managers,
        open_peer(make_peer_key(b"\1" * 32), listen) as node,
    ):
        for peer in (managers, node):
            peer.handle("/test/echo/1", echo, 1024)

        async def ask() -> dict[str, Any]:
            return await request_any(managers, record, None, "/test/echo/1", {}, timeout_s=20, max_bytes=1024)

        with pytest.raises(PeerUnreachable):
            await ask()
        await node.request(managers.multiaddrs[0], "/test/echo/1", {}, 20)
        assert await ask() == {"from": managers.peer_id}
