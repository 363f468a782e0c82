"""Domains, pools, their owners and managers."""

from __future__ import annotations

import dataclasses

from ledger.logs import terms_tuple
from ledger.rules.call import NOBODY
from ledger.types import PoolState, Terms, reason_bytes
from tests.ledger.histories.base import (
    ANYBODY,
    MANAGERS,
    NODES,
    OWNERS,
    REASON,
    STAKERS,
    STRANGER,
    Act,
    Draw,
)


class PoolActs(Draw):
    """Acts on ComputePools but for its members."""

    def create_domain(self) -> Act:
        sender = self.rng.choice(OWNERS)
        return self.call("ComputePools", sender, "createDomain", ("maths",), self.rules.pools.create_domain)

    def create_pool(self) -> Act:
        rng = self.rng
        domain_id = rng.choice(list(self.rules.pools.domains) or [1]) + self.odd(0.02) * 50
        quorum = rng.choice([1, 1, 2, 2, 3])
        terms = Terms(
            min_stake_wei=10, slash_wei=rng.choice([4, 10, 10]), unit_price_wei=rng.choice([0, 1, 3]),
            member_limit=rng.choice([5, 6, 6]), quorum=quorum, panel=quorum + rng.choice([0, 0, 1]),
            round_s=rng.choice([5, 20]), verdict_s=rng.choice([60, 250, 250]), challenge_s=rng.choice([20, 60]),
            lease_s=rng.choice([10, 100]), requirements_uri="x" * rng.choice([0, 256]),
        )  # fmt: skip
        if self.in_court:
            terms = dataclasses.replace(terms, quorum=1, panel=2, verdict_s=250, challenge_s=60, member_limit=8)
        wrong = [
            {"slash_wei": 11}, {"quorum": 0}, {"quorum": 255, "panel": 255}, {"panel": 0}, {"round_s": 0},
            {"verdict_s": 300}, {"verdict_s": 299}, {"challenge_s": 0}, {"challenge_s": 301}, {"lease_s": 0},
            {"requirements_uri": "x" * 257},
        ]  # fmt: skip
        if self.odd(0.3) and self.rules.pools.pools:
            terms = dataclasses.replace(terms, **rng.choice(wrong))
        manager, sender = self.one(MANAGERS, [NOBODY]), self.owner(self.rules.pools.domains.get(domain_id))
        model = self.rules.pools.create_pool
        return self.call(
            "ComputePools", sender, "createPool", (domain_id, manager, terms_tuple(terms)),
            lambda call: model(call, domain_id, manager, terms),
        )  # fmt: skip

    def start_pool(self) -> Act:
        pools = self.rules.pools.pools
        pool_id = self.one([i for i, p in pools.items() if p.state is PoolState.PENDING], [self.pool_id()])
        sender, model = self.owner(pools.get(pool_id)), self.rules.pools.start_pool
        return self.call("ComputePools", sender, "startPool", (pool_id,), lambda c: model(c, pool_id))

    def end_pool(self) -> Act:
        pool_id, model = self.pool_id(), self.rules.pools.end_pool
        sender = self.owner(self.rules.pools.pools.get(pool_id)) if self.odd(0.3) else STRANGER
        return self.call("ComputePools", sender, "endPool", (pool_id,), lambda c: model(c, pool_id))

    def pause_joins(self) -> Act:
        pool_id, paused, model = self.pool_id(), self.odd(0.3), self.rules.pools.pause_joins
        sender = self.rng.choice([self.manager(pool_id), self.owner(self.rules.pools.pools.get(pool_id))])
        return self.call("ComputePools", sender, "pauseJoins", (pool_id, paused), lambda c: model(c, pool_id, paused))

    def set_manager(self) -> Act:
        pool_id, allowed, model = self.pool_id(), not self.odd(0.25), self.rules.pools.set_manager
        manager, sender = self.one(MANAGERS, [NOBODY]), self.owner(self.rules.pools.pools.get(pool_id))
        return self.call(
            "ComputePools", sender, "setManager", (pool_id, manager, allowed),
            lambda c: model(c, pool_id, manager, allowed),
        )  # fmt: skip

    def take_lease(self) -> Act:
        pool_id, sender, model = self.pool_id(), self.one(MANAGERS, ANYBODY), self.rules.pools.take_lease
        return self.call("ComputePools", sender, "takeLease", (pool_id,), lambda c: model(c, pool_id))

    def offer(self) -> Act:
        pools, to = self.rules.pools, self.rng.choice(OWNERS)
        if self.odd(0.5):
            domain_id = self.rng.choice([*pools.domains, 77])
            sender = self.owner(pools.domains.get(domain_id))
            arguments = (domain_id, to)
            return self.call(
                "ComputePools", sender, "offerDomain", arguments, lambda c: pools.offer_domain(c, *arguments)
            )
        arguments = (self.pool_id(), to)
        sender = self.owner(pools.pools.get(arguments[0]))
        return self.call("ComputePools", sender, "offerPool", arguments, lambda c: pools.offer_pool(c, *arguments))

    def accept(self) -> Act:
        pools = self.rules.pools
        domains = [i for i, domain in pools.domains.items() if domain.pending != NOBODY]
        offered = [i for i, pool in pools.pools.items() if pool.pending != NOBODY]
        if self.odd(0.5):
            domain_id = self.one(domains, [*pools.domains, 77])
            sender = self.one([pools.domains[domain_id].pending] if domain_id in domains else [], OWNERS)
            return self.call(
                "ComputePools", sender, "acceptDomain", (domain_id,), lambda c: pools.accept_domain(c, domain_id)
            )
        pool_id = self.one(offered, [self.pool_id()])
        sender = self.one([pools.pools[pool_id].pending] if pool_id in offered else [], OWNERS)
        return self.call("ComputePools", sender, "acceptPool", (pool_id,), lambda c: pools.accept_pool(c, pool_id))

    def domain_blacklist(self) -> Act:
        pools, account = self.rules.pools, self.rng.choice(NODES + STAKERS)
        domain_id = self.rng.choice([*pools.domains, 77])
        sender = self.owner(pools.domains.get(domain_id))
        if domain_id in pools.domains and pools.domains[domain_id].blacklist:
            account = self.rng.choice(sorted(pools.domains[domain_id].blacklist))
            return self.call(
                "ComputePools", sender, "unblacklistInDomain", (domain_id, account),
                lambda c: pools.unblacklist_in_domain(c, domain_id, account),
            )  # fmt: skip
        return self.call(
            "ComputePools", sender, "blacklistInDomain", (domain_id, account, reason_bytes(REASON)),
            lambda c: pools.blacklist_in_domain(c, domain_id, account),
        )  # fmt: skip
