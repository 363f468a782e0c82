"""The members of pools: invited, joined, left, put out.

Decides nothing: `ComputePools` does.
"""

from __future__ import annotations

from collections.abc import Sequence

from ledger.account import Account
from ledger.invites import free_nonce, invite_tuple
from ledger.pools import PoolReader, PoolWriter
from ledger.types import Bar, Invite, Member, Role, reason_bytes

_PAGE = 1_000


class MemberReader(PoolReader):
    """Who is in a pool, and who is kept out."""

    def member(self, pool_id: int, address: str) -> Member:
        """The address's standing; role NONE where it never joined. Raises `Reverted("UnknownPool")`."""
        return self._members(pool_id, [address])[0]

    def members(self, pool_id: int) -> tuple[Member, ...]:
        """All active members, in no particular order."""
        found: list[str] = []
        while len(page := self._read("ComputePools", "listMembers", pool_id, len(found), _PAGE)) == _PAGE:
            found.extend(page)
        return tuple(self._members(pool_id, [*found, *page]))

    def member_count(self, pool_id: int, role: Role) -> int:
        return self._read("ComputePools", "memberCount", pool_id, int(role))

    def kept_out_by(self, pool_ids: Sequence[int], domain_id: int, accounts: Sequence[str]) -> tuple[int, ...]:
        """Which of these pools of a domain bars one of the accounts; 0 stands for the domain itself."""
        places = [(0, "isBlacklistedInDomain", domain_id), *((pool_id, "barOf", pool_id) for pool_id in pool_ids)]
        asked = [(place, ("ComputePools", *read, account)) for place, *read in places for account in accounts]
        barred = self._read_many(*(read for _, read in asked))
        return tuple(dict.fromkeys(place for (place, _), bar in zip(asked, barred, strict=True) if bar))

    def new_invite(self, pool_id: int, node: str, role: Role, lifetime_s: int) -> Invite:
        """The invite that would let `node` join now; to be signed by the manager with `sign_invite`.

        Raises `InvitesUsedUp`.
        """
        return Invite(
            node=node,
            pool_id=pool_id,
            domain_id=self.pool(pool_id).domain_id,
            role=role,
            nonce=free_nonce(self.member(pool_id, node)),
            expires_unix_s=self.chain_time_s() + lifetime_s,
        )

    def _members(self, pool_id: int, addresses: list[str]) -> list[Member]:
        asked = ("getMember", "isActive", "barOf")
        values = self._read_many(*(("ComputePools", name, pool_id, at) for at in addresses for name in asked))
        return [
            Member(
                address=address, role=Role(role), active=active, since_unix_s=since, epoch=epoch, used=used,
                bar=Bar(bar),
            )
            for address, (role, _, since, epoch, used), active, bar in zip(
                addresses, values[::3], values[1::3], values[2::3], strict=True
            )
        ]  # fmt: skip


class MemberWriter(MemberReader, PoolWriter, Account):
    """Each write returns the block it was mined in. `reason` is ASCII, at most 32 bytes."""

    def join(self, invite: Invite, signature: bytes) -> int:
        """By the invited node. Raises `Reverted` with InviteExpired, InviteUsed, InviteNotByManager and so on."""
        return self._write("ComputePools", "join", invite_tuple(invite, self.deployment), signature).block

    def leave(self, pool_id: int) -> int:
        """Always possible."""
        return self._write("ComputePools", "leave", pool_id).block

    def cancel_invite(self, pool_id: int, node: str, nonce: int) -> int:
        """By the manager."""
        return self._write("ComputePools", "cancelInvite", pool_id, node, nonce).block

    def eject(self, pool_id: int, node: str, reason: str) -> int:
        """By the manager; no slash, and the node may be invited again."""
        return self._write("ComputePools", "eject", pool_id, node, reason_bytes(reason)).block

    def blacklist(self, pool_id: int, account: str, reason: str) -> int:
        """By the manager: a node or a staker is out and stays out until `unblacklist`."""
        return self._write("ComputePools", "blacklist", pool_id, account, reason_bytes(reason)).block

    def unblacklist(self, pool_id: int, account: str) -> int:
        """By the manager; also one that a verdict put there."""
        return self._write("ComputePools", "unblacklist", pool_id, account).block

    def purge(self, pool_id: int, node: str) -> int:
        """By anyone: eject a member that, or whose staker, is blacklisted."""
        return self._write("ComputePools", "purge", pool_id, node).block
