"""Joining, leaving and being put out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ledger.invites import invite_tuple, sign_invite
from ledger.types import Invite, Role, reason_bytes
from tests.ledger.histories.base import (
    ANYBODY,
    KEYS,
    NODES,
    OTHER_SALT,
    REASON,
    STAKERS,
    STRANGER,
    Act,
    Draw,
)


class MemberActs(Draw):
    """Acts on the members of ComputePools."""

    def join(self) -> Act:
        members, pool_id = self.rules.members, self.pool_id()
        outside = [n for n in self.rules.stakes.nodes if not members.standings[pool_id, n].active]
        node = self.one(outside, NODES)
        standing, pool = members.standings[pool_id, node], self.rules.pools.pools.get(pool_id)
        free = [i for i in range(8) if not standing.used >> i & 1]
        nonce = standing.epoch * 256 + self.one(free[:1], range(4)) + self.odd(0.03) * 256
        role = self.rng.choice([Role.WORKER, Role.VALIDATOR, Role.VALIDATOR, Role.RELAY] + [Role.NONE] * self.odd())
        if self.founding:
            role = Role.WORKER if len(self.active(pool_id)) < 2 else Role.VALIDATOR
        invite = Invite(
            node=node, pool_id=pool_id, domain_id=(pool.domain_id if pool else 1) + self.odd(0.02), role=role,
            nonce=nonce, expires_unix_s=self.now_s + self.one([0, 1, 50], [-1]),
        )  # fmt: skip
        salt, signer = self.one([self.deployment.salt], [OTHER_SALT]), self.manager(pool_id)
        signature = sign_invite(invite, self.deployment, KEYS[signer])
        given = (*invite_tuple(invite, self.deployment)[:6], salt)
        signed_by = signer if salt == self.deployment.salt else STRANGER
        return self.call(
            "ComputePools", self.one([node], ANYBODY), "join", (given, signature),
            lambda c: members.join(c, invite, salt, signed_by),
        )  # fmt: skip

    def leave(self) -> Act:
        pool_id = self.pool_id()
        sender = self.one(self.active(pool_id) if pool_id != 99 else [], ANYBODY)
        if not self.odd(0.3):
            sender = self.rng.choice(ANYBODY)
        return self.call("ComputePools", sender, "leave", (pool_id,), lambda c: self.rules.members.leave(c, pool_id))

    def cancel_invite(self) -> Act:
        pool_id, node, model = self.pool_id(), self.rng.choice(NODES), self.rules.members.cancel_invite
        nonce = self.rules.members.standings[pool_id, node].epoch * 256 + self.rng.randrange(3) + self.odd() * 256
        arguments = (pool_id, node, nonce)
        return self.call(
            "ComputePools", self.manager(pool_id), "cancelInvite", arguments, lambda c: model(c, *arguments)
        )

    def eject(self) -> Act:
        return self._put_out("eject", self.rules.members.eject, NODES)

    def blacklist(self) -> Act:
        return self._put_out("blacklist", self.rules.members.blacklist, NODES + STAKERS)

    def _put_out(self, function: str, model: Any, accounts: Sequence[str]) -> Act:
        pool_id, account = self.pool_id(), self.rng.choice(accounts)
        arguments = (pool_id, account, reason_bytes(REASON))
        return self.call(
            "ComputePools", self.manager(pool_id), function, arguments, lambda c: model(c, pool_id, account)
        )

    def unblacklist(self) -> Act:
        pool_id, model = self.pool_id(), self.rules.members.unblacklist
        barred = [a for (p, a), s in self.rules.members.standings.items() if p == pool_id and s.bar]
        account = self.one(barred, ANYBODY)
        arguments = (pool_id, account)
        return self.call(
            "ComputePools", self.manager(pool_id), "unblacklist", arguments, lambda c: model(c, *arguments)
        )

    def purge(self) -> Act:
        pool_id, members = self.pool_id(), self.rules.members
        barred = [n for n in NODES if members.standings[pool_id, n].active and n not in self.active(pool_id)]
        arguments, sender = (pool_id, self.one(barred, NODES)), self.rng.choice(ANYBODY)
        return self.call("ComputePools", sender, "purge", arguments, lambda c: members.purge(c, *arguments))
