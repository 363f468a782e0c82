"""Invites: what a stranger's message must look like, and which of them this node acts upon."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
import trio
import trio.testing
from eth_account import Account
from eth_account.signers.local import LocalAccount

from dht.records import NodeRecord
from ledger.deployment import Deployment
from ledger.errors import InvitesUsedUp, Reverted
from ledger.types import Bar, Binding, Invite, Member, Role
from node.errors import UserError
from node.membership import INVITE_PROTOCOL, Admission, Blacklisted, ManagedPool, ensure_stake, parse_invite
from node.streams import Refusal

ACCOUNT: LocalAccount = Account.from_key(b"\x11" * 32)
NODE, OTHER = "0x" + "11" * 20, "0x" + "22" * 20
GOOD: dict[str, Any] = {
    "node": NODE, "pool_id": 3, "domain_id": 1, "role": 1, "nonce": 0, "expires_unix_s": 1_800_000_000,
    "signature": b"s" * 65,
}  # fmt: skip


def test_an_invite_is_read() -> None:
    invite, signature = parse_invite(GOOD)
    assert invite == Invite(node=NODE, pool_id=3, domain_id=1, role=Role.WORKER, nonce=0, expires_unix_s=1_800_000_000)
    assert type(invite.role) is Role
    assert signature == b"s" * 65


def without(name: str) -> dict[str, Any]:
    return {key: value for key, value in GOOD.items() if key != name}


HOSTILE: dict[str, dict[Any, Any]] = {
    "nothing": {},
    **{f"no {name}": without(name) for name in GOOD},
    "one field more": GOOD | {"note": 1},
    "a field named by a number": GOOD | {1: 1},
    "a number as node": GOOD | {"node": 17},
    "bytes as node": GOOD | {"node": b"\x11" * 20},
    "text as pool": GOOD | {"pool_id": "3"},
    "a float as pool": GOOD | {"pool_id": 3.0},
    "true as nonce": GOOD | {"nonce": True},
    "true as role": GOOD | {"role": True},
    "nothing as expiry": GOOD | {"expires_unix_s": None},
    "a list as nonce": GOOD | {"nonce": [0]},
    "text as signature": GOOD | {"signature": "s" * 65},
    "a long signature": GOOD | {"signature": b"s" * 1025},
    "a negative nonce": GOOD | {"nonce": -1},
    "a pool beyond 64 bits": GOOD | {"pool_id": 2**64},
    "an expiry beyond uint256": GOOD | {"expires_unix_s": 2**300},
    "an unknown role": GOOD | {"role": 4},
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_messages_are_refused(name: str) -> None:
    with pytest.raises(Refusal) as refusal:
        parse_invite(HOSTILE[name])
    assert refusal.value.code == "malformed"


@dataclass
class FakeLedger:
    """A chain with one pool and one node."""

    active: bool = False
    bar: Bar = Bar.NONE
    role: Role = Role.NONE
    stake_wei: int = 0
    locked_wei: int = 0
    balance_wei: int = 0
    refuses: bool = False
    calls: list[tuple[Any, ...]] = field(default_factory=list)

    def member(self, pool_id: int, address: str) -> Member:
        return Member(
            address=address, role=self.role, active=self.active, since_unix_s=0, epoch=0, used=0, bar=self.bar
        )  # fmt: skip

    def join(self, invite: Invite, signature: bytes) -> None:
        if self.refuses:
            raise Reverted("InviteExpired")
        self.calls.append(("join", invite, signature))
        self.active, self.role = True, invite.role

    def node(self, address: str) -> Any:
        return FakeNode(registered=self.stake_wei > 0, stake_wei=self.stake_wei, locked_wei=self.locked_wei)

    def token_balance(self, address: str) -> int:
        return self.balance_wei

    def add_stake(self, node: str, amount_wei: int) -> None:
        self.calls.append(("add_stake", node, amount_wei))

    def new_binding(self, node: str, staker: str, lifetime_s: int) -> Binding:
        return Binding(staker=staker, node=node, nonce=4, expires_unix_s=lifetime_s)

    def register(self, binding: Binding, signature: bytes, amount_wei: int) -> None:
        assert (binding.staker, binding.node, binding.nonce) == (ACCOUNT.address, ACCOUNT.address, 4)
        assert len(signature) == 65
        self.calls.append(("register", ACCOUNT.address, amount_wei))

    @property
    def deployment(self) -> Deployment:
        zero = "0x" + "00" * 20
        return Deployment(
            chain_id=1, salt=bytes(32), token=zero, registry=zero, pools=zero, treasury=zero, runs=zero, court=zero
        )


@dataclass
class FakeNode:
    registered: bool
    stake_wei: int
    locked_wei: int


class FakePeer:
    """Keeps the handler, to be called as a remote peer would."""

    def handle(self, protocol: str, handler: Any, max_bytes: int) -> None:
        assert protocol == INVITE_PROTOCOL
        self.receive = handler


def admission(ledger: FakeLedger) -> tuple[Admission, FakePeer]:
    made, peer = Admission(ledger, address=NODE, pool_id=3, role=Role.WORKER), FakePeer()  # type: ignore[arg-type]
    made.listen(peer)  # type: ignore[arg-type]
    return made, peer


async def test_an_invite_for_this_node_is_taken_to_the_ledger() -> None:
    ledger = FakeLedger()
    made, peer = admission(ledger)
    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(made.wait)
            assert await peer.receive("a stranger", GOOD) == {"joined": True}
    assert ledger.calls == [("join", *parse_invite(GOOD))]


@pytest.mark.parametrize("change", [{"node": OTHER}, {"pool_id": 4}, {"role": 2}, {"role": 0}])
async def test_an_invite_for_anything_else_is_not_mine(change: dict[str, Any]) -> None:
    ledger = FakeLedger()
    _, peer = admission(ledger)
    with pytest.raises(Refusal, match="not-mine"):
        await peer.receive("a stranger", GOOD | change)
    assert ledger.calls == []


async def test_what_the_contract_refuses_does_not_make_a_member() -> None:
    ledger = FakeLedger(refuses=True)
    made, peer = admission(ledger)
    with pytest.raises(Refusal, match=r"not-valid.*InviteExpired"):
        await peer.receive("a stranger", GOOD)
    ledger.refuses = False
    assert await peer.receive("the manager", GOOD) == {"joined": True}
    with trio.fail_after(10):
        await made.wait()


@pytest.mark.parametrize(("bar", "why"), [(Bar.BY_VERDICT, "after a verdict"), (Bar.BY_MANAGER, "manager")])
async def test_a_member_waits_for_nothing_and_a_blacklisted_node_hears_why(bar: Bar, why: str) -> None:
    with trio.fail_after(10):
        await admission(FakeLedger(active=True, role=Role.WORKER))[0].wait()
        with pytest.raises(Blacklisted, match=why) as blacklisted:
            await admission(FakeLedger(bar=bar))[0].wait()
    assert blacklisted.value.exit_code == 4


async def test_an_ejected_node_waits_for_its_next_invite(autojump_clock: trio.testing.MockClock) -> None:
    ledger = FakeLedger()
    made, peer = admission(ledger)
    await peer.receive("the manager", GOOD)
    await made.wait()
    ledger.active = False
    with trio.move_on_after(1000) as waited:
        await made.wait()
    assert waited.cancelled_caught
    await peer.receive("the manager", GOOD)
    with trio.fail_after(10):
        await made.wait()


@pytest.mark.parametrize(
    ("stake_wei", "locked_wei", "balance_wei", "calls"),
    [
        (0, 0, 100, [("register", 100)]),
        (40, 0, 60, [("add_stake", 60)]),
        (100, 0, 0, []),
        (150, 0, 0, []),
        (150, 80, 30, [("add_stake", 30)]),
    ],
)
async def test_the_stake_is_raised_to_the_pools(
    stake_wei: int, locked_wei: int, balance_wei: int, calls: list[tuple[str, int]]
) -> None:
    ledger = FakeLedger(stake_wei=stake_wei, locked_wei=locked_wei, balance_wei=balance_wei)
    await ensure_stake(ledger, ACCOUNT, 100)  # type: ignore[arg-type]
    assert ledger.calls == [(name, ACCOUNT.address, amount_wei) for name, amount_wei in calls]


async def test_missing_tokens_are_named() -> None:
    with pytest.raises(UserError, match="asks for"):
        await ensure_stake(FakeLedger(stake_wei=40, balance_wei=59), ACCOUNT, 100)  # type: ignore[arg-type]


@dataclass
class WornLedger(FakeLedger):
    """A node has come and left 256 times."""

    epoch: int = 0

    def new_invite(self, pool_id: int, node: str, role: Role, lifetime_s: int) -> Invite:
        if self.epoch == 0:
            raise InvitesUsedUp("all 256 invites are used")
        return Invite(node=node, pool_id=pool_id, domain_id=1, role=role, nonce=256, expires_unix_s=lifetime_s)

    def eject(self, pool_id: int, node: str, reason: str) -> None:
        self.calls.append(("eject", pool_id, node, reason))
        self.epoch += 1


class FarPeer:
    """Takes every invite."""

    def __init__(self) -> None:
        self.taken: list[dict[str, Any]] = []

    async def request(self, way: str, protocol: str, message: dict[str, Any], **_: Any) -> dict[str, Any]:
        self.taken.append(message)
        return {"joined": True}


async def test_attack_a_node_uses_up_all_its_invites_and_the_manager_lives_on() -> None:
    ledger, peer = WornLedger(), FarPeer()
    pool = ManagedPool(ledger, peer, ACCOUNT, None, pool_id=3, validators=frozenset())  # type: ignore[arg-type]
    node = NodeRecord(address=NODE, peer_id="peer", roles=("worker",), multiaddrs=("/ip4/127.0.0.1",), bulk_url="")
    await pool.invite(node)
    assert ledger.calls == [("eject", 3, NODE, "invites-used-up")]
    assert [message["nonce"] for message in peer.taken] == [256]
