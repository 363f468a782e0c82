"""How a machine becomes a member: stake, be found, be invited by the pool's manager, join on the ledger.

A node joins nothing but the pool it was started for, in the role it was started in; whether an invite is genuine,
unused and in time is the contract's to say. The manager's side invites only whom the ledger shows staked, validators
only if their owner listed them, and never a node that, or whose staker, is blacklisted anywhere in the pool's domain.
One that was only ejected may come back.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from typing import Any, NoReturn

import trio
from eth_account.signers.local import LocalAccount
from nacl.public import PrivateKey

from dht.records import NodeRecord
from ledger.bindings import sign_binding
from ledger.client import Ledger
from ledger.errors import InvitesUsedUp, Reverted
from ledger.invites import sign_invite
from ledger.types import Bar, Invite, Member, Role
from node.chain import on_chain
from node.contact import ContactInvalid, ways_to
from node.errors import UserError
from node.roster import Standing
from node.show import tokens
from node.streams import Peer, PeerUnreachable, Refusal

log = logging.getLogger(__name__)
INVITE_PROTOCOL = "/intellect-node/invite/1"
INVITE_BYTES = 4096
INVITE_LIFETIME_S = 120
BINDING_LIFETIME_S = 600
INVITE_TIMEOUT_S = 30.0
REMIND_S = 60.0
STANDING_LOOK_S = 5.0
ROLES = {"worker": Role.WORKER, "validator": Role.VALIDATOR, "relay": Role.RELAY}


class Blacklisted(UserError):
    """The pool has put this node out for good, by a verdict or by its manager's will."""

    exit_code = 4


async def ensure_stake(ledger: Ledger, account: LocalAccount, min_stake_wei: int) -> None:
    """Register this node as its own staker with the pool's stake, or raise its stake to that, whoever staked it.

    What open cases may burn does not count. Raises UserError where tokens are missing.
    """
    address = account.address
    node = await on_chain(ledger.node, address)
    missing_wei = min_stake_wei + node.locked_wei - node.stake_wei
    if node.registered and missing_wei <= 0:
        return
    balance_wei = await on_chain(ledger.token_balance, address)
    if balance_wei < missing_wei:
        raise UserError(
            f"{address} holds {tokens(balance_wei)} stake tokens, the pool asks for {tokens(missing_wei)} more",
            fix=f"send stake tokens to {address}, then start again",
        )
    # The registry takes no empty stake; a pool that asks for none is joined with the smallest one.
    missing_wei = max(missing_wei, 1)
    if node.registered:
        await on_chain(ledger.add_stake, address, missing_wei)
    else:
        binding = await on_chain(ledger.new_binding, address, address, BINDING_LIFETIME_S)
        signature = await trio.to_thread.run_sync(sign_binding, binding, ledger.deployment, account)
        await on_chain(ledger.register, binding, signature, missing_wei)
    log.info("staked %s tokens", tokens(missing_wei))


def parse_invite(message: Mapping[str, Any]) -> tuple[Invite, bytes]:
    """The invite and signature in a peer's message. Raises Refusal."""
    wanted = {"node": str, "pool_id": int, "domain_id": int, "role": int, "nonce": int, "expires_unix_s": int}
    if set(message) != {*wanted, "signature"} or not isinstance(message["signature"], bytes):
        raise Refusal("malformed", "an invite has exactly the fields of the contract and a signature")
    if any(type(message[name]) is not kind for name, kind in wanted.items()) or len(message["signature"]) > 1024:
        raise Refusal("malformed", "an invite's field has another type")
    numbers = [message[name] for name, kind in wanted.items() if kind is int]
    if not all(0 <= number < 2**64 for number in numbers) or message["role"] not in iter(Role):
        raise Refusal("malformed", "a number of the invite is out of range")
    fields = {name: message[name] for name in wanted}
    return Invite(**fields | {"role": Role(message["role"])}), message["signature"]


class Admission:
    """This node's way into one pool in one role."""

    def __init__(self, ledger: Ledger, *, address: str, pool_id: int, role: Role) -> None:
        self._ledger, self._address, self._pool_id, self._role = ledger, address, pool_id, role
        self._joined = trio.Event()
        self.joined = False
        """Whether `wait` has found this node to be a member."""

    def listen(self, peer: Peer) -> None:
        """Take invites from now on; to be called before the node announces itself."""
        peer.handle(INVITE_PROTOCOL, self._receive, INVITE_BYTES)

    async def wait(self) -> None:
        """Until this node is a member. Raises Blacklisted."""
        while True:
            joined = self._joined
            # Asked again each time: a join whose receipt was lost on the way counts as well.
            member = await on_chain(self._ledger.member, self._pool_id, self._address)
            raise_if_blacklisted(member, self._pool_id)
            if member.active and member.role is self._role:
                log.info("a member of pool %d", self._pool_id)
                self.joined = True
                return
            log.info("no invite yet; pool %d's trainer must run and take a %s", self._pool_id, self._role.name.lower())
            with trio.move_on_after(REMIND_S):
                await joined.wait()

    async def _receive(self, remote: str, message: dict[str, Any]) -> dict[str, Any]:
        invite, signature = parse_invite(message)
        if (invite.node, invite.pool_id, invite.role) != (self._address, self._pool_id, self._role):
            raise Refusal("not-mine", "this invite is for another node, pool or role")
        try:
            await on_chain(self._ledger.join, invite, signature)
        except Reverted as refused:
            log.warning("an invite from %s is not valid: %s", remote, refused)
            raise Refusal("not-valid", str(refused)) from refused
        log.info("joined pool %d as %s", self._pool_id, self._role.name.lower())
        self._joined.set()
        self._joined = trio.Event()
        return {"joined": True}


async def serves_workers(ledger: Ledger, pool_id: int, address: str) -> bool:
    """Whether a worker that stays unseen fetches from this address: managers and the pool's relays only."""
    member = await on_chain(ledger.member, pool_id, address)
    return (member.active and member.role is Role.RELAY) or await on_chain(ledger.may_manage, pool_id, address)


async def belongs(ledger: Ledger, pool_id: int, address: str) -> bool:
    """Whether the ledger shows this address as an active member, or as one that may manage the pool."""
    member = await on_chain(ledger.member, pool_id, address)
    return member.active or await on_chain(ledger.may_manage, pool_id, address)


async def until_blacklisted(ledger: Ledger, pool_id: int, address: str) -> NoReturn:
    """Watch the node's standing, whatever its role does meanwhile. Raises Blacklisted."""
    while True:
        raise_if_blacklisted(await on_chain(ledger.member, pool_id, address), pool_id)
        await trio.sleep(STANDING_LOOK_S)


def raise_if_blacklisted(member: Member, pool_id: int) -> None:
    """Raise Blacklisted if so; one that was ejected and no more waits for another invite."""
    if member.bar is Bar.BY_VERDICT:
        raise Blacklisted(
            f"pool {pool_id} has ejected and blacklisted this node after a verdict",
            fix="`intellect-node explain ADDRESS` says why, and until when the node or its staker can `appeal`",
        )
    if member.bar is Bar.BY_MANAGER:
        raise Blacklisted(
            f"the manager of pool {pool_id} has blacklisted this node",
            fix="ask the pool's manager; nobody else can let it in again",
        )


class ManagedPool:
    """The manager's side of one pool: `node.overseer.Pool` on the ledger, invites by way of a peer."""

    def __init__(
        self,
        ledger: Ledger,
        peer: Peer,
        account: LocalAccount,
        key: PrivateKey,
        *,
        pool_id: int,
        validators: frozenset[str],
    ) -> None:
        """`key` opens sealed contacts; `validators` are the only ones that are taken as such."""
        self._ledger, self._peer, self._account, self._key = ledger, peer, account, key
        self._pool_id, self._validators = pool_id, validators
        self._domain_pools: set[int] = set()
        self._looked_to_block = 0
        self._kept_out: dict[str, tuple[int, ...]] = {}
        self._epochs: dict[str, int] = {}
        """Of each member when it was last seen active: it has grown where the node did not leave but was ejected."""

    async def standing(self, address: str) -> Standing:
        """See overseer.Pool."""
        member = await on_chain(self._ledger.member, self._pool_id, address)
        return self._told(member)

    async def members(self) -> tuple[str, ...]:
        """See overseer.Pool."""
        found = await on_chain(self._ledger.members, self._pool_id)
        for member in found:
            self._told(member)
        return tuple(member.address for member in found)

    async def wants(self, node: NodeRecord) -> bool:
        """See overseer.Pool."""
        role = next((ROLES[name] for name in node.roles if name in ROLES), None)
        if role is None or (role is Role.VALIDATOR and node.address not in self._validators):
            return False
        pool = await on_chain(self._ledger.pool, self._pool_id)
        staked = await on_chain(self._ledger.node, node.address)
        if staked.stake_wei - staked.locked_wei < pool.terms.min_stake_wei:
            return False
        kept_out = await self._kept_out_by(pool.domain_id, node.address, staked.staker)
        if kept_out and kept_out != self._kept_out.get(node.address):
            where = ", ".join(f"pool {pool_id}" if pool_id else "the domain itself" for pool_id in kept_out)
            log.warning("%s is not invited by itself: it or its staker is barred in %s of domain %d; a person may "
                        "invite it", node.address, where, pool.domain_id)  # fmt: skip
        self._kept_out[node.address] = kept_out
        return not kept_out

    async def invite(self, node: NodeRecord) -> None:
        """See overseer.Pool."""
        role = next(ROLES[name] for name in node.roles if name in ROLES)
        send = partial(
            send_invite, self._ledger, self._peer, self._account, node, pool_id=self._pool_id, role=role, key=self._key
        )
        try:
            await send()
        except InvitesUsedUp as used_up:
            # It came and left that often. An ejection opens the next epoch, also of one that is no member.
            log.warning("%s", used_up)
            await on_chain(self._ledger.eject, self._pool_id, node.address, "invites-used-up")
            await send()

    async def _kept_out_by(self, domain_id: int, *accounts: str) -> tuple[int, ...]:
        """Where in this pool's domain one of them is barred: changing the pool is no way around it."""
        head = await on_chain(lambda: self._ledger.block_number)
        made = partial(self._ledger.pools_made, domain_id, since_block=self._looked_to_block)
        self._domain_pools.update(await on_chain(made))
        self._looked_to_block = head + 1
        return await on_chain(self._ledger.kept_out_by, sorted(self._domain_pools), domain_id, accounts)

    def _told(self, member: Member) -> Standing:
        if member.active:
            self._epochs[member.address] = member.epoch
        ejected = not member.active and member.epoch > self._epochs.get(member.address, member.epoch)
        return Standing(active=member.active, barred=member.bar is not Bar.NONE, ejected=ejected)

    async def remove(self, address: str, reason: str) -> None:
        """See overseer.Pool."""
        await trio.to_thread.run_sync(self._ledger.eject, self._pool_id, address, reason)


async def send_invite(
    ledger: Ledger,
    peer: Peer,
    account: LocalAccount,
    node: NodeRecord,
    *,
    pool_id: int,
    role: Role,
    key: PrivateKey | None = None,
) -> None:
    """Sign an invite as the pool's manager and hand it to the node, which joins before it answers.

    It goes to the node's open address, the one sealed to `key`, or over a connection that the node has opened. Raises
    StreamError where it cannot be reached or refuses.
    """
    invite = await on_chain(ledger.new_invite, pool_id, node.address, role, INVITE_LIFETIME_S)
    message = {name: getattr(invite, name) for name in Invite.__dataclass_fields__} | {"role": int(role)}
    message["signature"] = await trio.to_thread.run_sync(sign_invite, invite, ledger.deployment, account)
    await request_any(peer, node, key, INVITE_PROTOCOL, message, timeout_s=INVITE_TIMEOUT_S, max_bytes=INVITE_BYTES)
    log.info("invited %s as %s", node.address, role.name.lower())


async def request_any(
    peer: Peer,
    node: NodeRecord,
    key: PrivateKey | None,
    protocol: str,
    message: dict[str, Any],
    *,
    timeout_s: float,
    max_bytes: int,
) -> dict[str, Any]:
    """The node's reply, by the first way to it that works. Raises StreamError."""
    try:
        ways = ways_to(node, key)
    except ContactInvalid as error:
        raise PeerUnreachable(node.address, str(error)) from error
    for way in ways[:-1]:
        try:
            return await peer.request(way, protocol, message, timeout_s=timeout_s, max_bytes=max_bytes)
        except PeerUnreachable as fault:
            log.info("%s: trying another way: %s", node.address, fault)
    return await peer.request(ways[-1], protocol, message, timeout_s=timeout_s, max_bytes=max_bytes)
