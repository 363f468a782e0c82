"""The members of pools: invited by the manager, free to leave, put out by the manager or a verdict (`ComputePools`)."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from ledger.rules.call import Call, refuse_if
from ledger.rules.pools import Pools
from ledger.rules.stake import Stakes
from ledger.types import Bar, Invite, PoolState, Role


@dataclass(slots=True, kw_only=True)
class Standing:
    """Of one address in one pool."""

    role: Role = Role.NONE
    active: bool = False
    since: int = 0
    epoch: int = 0
    used: int = 0
    bar: Bar = Bar.NONE
    left_at: int = 0


class Members:
    """By pool and address."""

    def __init__(self, pools: Pools, stakes: Stakes, *, salt: bytes) -> None:
        self._pools, self._stakes, self._salt = pools, stakes, salt
        self.standings: defaultdict[tuple[int, str], Standing] = defaultdict(Standing)

    def join(self, call: Call, invite: Invite, salt: bytes, signed_by: str) -> None:
        pool, member = self._pools.pool(invite.pool_id), self.standings[invite.pool_id, invite.node]
        refuse_if(call.sender != invite.node, "NotInvitedNode")
        refuse_if(pool.state is not PoolState.ACTIVE, "WrongState")
        refuse_if(pool.joins_paused, "JoinsArePaused")
        refuse_if(invite.domain_id != pool.domain_id, "InviteWrongDomain")
        refuse_if(invite.role is Role.NONE, "InviteWrongRole")
        refuse_if(salt != self._salt, "InviteWrongDeployment")
        refuse_if(call.now_s > invite.expires_unix_s, "InviteExpired")
        self._check_unused(member, invite.nonce)
        refuse_if(signed_by != pool.manager, "InviteNotByManager")
        refuse_if(self.is_barred(invite.pool_id, invite.node), "AccountBlacklisted")
        self._stakes.require_stake(invite.node, pool.terms.min_stake_wei)
        refuse_if(self.count(invite.pool_id) >= pool.terms.member_limit, "PoolFull")
        refuse_if(member.active, "AlreadyMember")
        if member.role is not invite.role:
            member.since = call.now_s
        member.role, member.active = invite.role, True
        member.used |= 1 << (invite.nonce & 0xFF)

    def leave(self, call: Call, pool_id: int) -> None:
        self._pools.pool(pool_id)
        self._deactivate(call, self.standings[pool_id, call.sender])

    def cancel_invite(self, call: Call, pool_id: int, node: str, nonce: int) -> None:
        self._pools.require_manager(call, pool_id)
        member = self.standings[pool_id, node]
        self._check_unused(member, nonce)
        member.used |= 1 << (nonce & 0xFF)

    def eject(self, call: Call, pool_id: int, node: str) -> None:
        self._pools.require_manager(call, pool_id)
        self._eject(call, pool_id, node)

    def blacklist(self, call: Call, pool_id: int, account: str) -> None:
        self._pools.require_manager(call, pool_id)
        self.standings[pool_id, account].bar = Bar.BY_MANAGER
        self._eject(call, pool_id, account)

    def unblacklist(self, call: Call, pool_id: int, account: str) -> None:
        self._pools.require_manager(call, pool_id)
        self.standings[pool_id, account].bar = Bar.NONE

    def purge(self, call: Call, pool_id: int, node: str) -> None:
        refuse_if(not self.is_barred(pool_id, node), "NotBlacklisted")
        self._eject(call, pool_id, node)

    def punish(self, call: Call, pool_id: int, node: str) -> None:
        """By the court: out, and barred unless the manager has barred it on its own account."""
        member = self.standings[pool_id, node]
        if member.bar is Bar.NONE:
            member.bar = Bar.BY_VERDICT
        self._eject(call, pool_id, node)

    def pardon(self, pool_id: int, node: str) -> None:
        member = self.standings[pool_id, node]
        if member.bar is Bar.BY_VERDICT:
            member.bar = Bar.NONE

    def count(self, pool_id: int, role: Role | None = None) -> int:
        return sum(
            member.active and role in (None, member.role) for (at, _), member in self.standings.items() if at == pool_id
        )

    def is_barred(self, pool_id: int, node: str) -> bool:
        """In this pool or its domain, itself or by its staker."""
        domain = self._pools.domains[self._pools.pool(pool_id).domain_id]
        names = (node, self._stakes.staker_of(node))
        return any(self.standings[pool_id, name].bar is not Bar.NONE or name in domain.blacklist for name in names)

    def is_active(self, pool_id: int, node: str) -> bool:
        return self.standings[pool_id, node].active and not self.is_barred(pool_id, node)

    def is_validator(self, pool_id: int, account: str) -> bool:
        return self.is_active(pool_id, account) and self.standings[pool_id, account].role is Role.VALIDATOR

    def require_member(self, pool_id: int, node: str, role: Role) -> None:
        refuse_if(not self.is_active(pool_id, node), "NotActiveMember")
        refuse_if(self.standings[pool_id, node].role is not role, "WrongRole")
        self._stakes.require_stake(node, self._pools.pool(pool_id).terms.min_stake_wei)

    @staticmethod
    def _check_unused(member: Standing, nonce: int) -> None:
        refuse_if(nonce >> 8 != member.epoch, "InviteVoid")
        refuse_if(member.used >> (nonce & 0xFF) & 1, "InviteUsed")

    def _eject(self, call: Call, pool_id: int, node: str) -> None:
        member = self.standings[pool_id, node]
        self._deactivate(call, member)
        member.epoch += 1
        member.used = 0

    @staticmethod
    def _deactivate(call: Call, member: Standing) -> None:
        if member.active:
            member.active, member.left_at = False, call.now_s
