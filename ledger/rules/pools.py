"""Domains and pools: terms, owners in two steps, state, managers and their lease (`Domains`, `Pools`)."""

from __future__ import annotations

from dataclasses import dataclass, field

from ledger.rules.call import NOBODY, Call, refuse_if
from ledger.rules.stake import Stakes
from ledger.types import UNBEGUN_LEASE_UNIX_S, PoolState, Terms

MAX_URI_BYTES = 256
MAX_QUORUM = 254


@dataclass(slots=True, kw_only=True)
class Owned:
    """What has an owner, who changes in two steps: offered by the old one, accepted by the new one."""

    owner: str
    pending: str = NOBODY

    def check(self, call: Call) -> None:
        refuse_if(call.sender != self.owner, "NotOwner")

    def offer(self, call: Call, to: str) -> None:
        self.check(call)
        self.pending = to

    def accept(self, call: Call) -> None:
        refuse_if(call.sender != self.pending, "NotPendingOwner")
        self.owner, self.pending = call.sender, NOBODY


@dataclass(slots=True, kw_only=True)
class DomainState(Owned):
    blacklist: set[str] = field(default_factory=set)


@dataclass(slots=True, kw_only=True)
class PoolHeld(Owned):
    domain_id: int
    terms: Terms
    state: PoolState = PoolState.PENDING
    joins_paused: bool = False
    ended_at: int = 0
    manager: str = NOBODY
    epoch: int = 0
    lease_expires: int = 0
    managers: set[str] = field(default_factory=set)


class Pools:
    """Ids start at 1."""

    def __init__(self, stakes: Stakes) -> None:
        self._stakes = stakes
        self.domains: dict[int, DomainState] = {}
        self.pools: dict[int, PoolHeld] = {}

    def create_domain(self, call: Call) -> None:
        self.domains[len(self.domains) + 1] = DomainState(owner=call.sender)

    def offer_domain(self, call: Call, domain_id: int, to: str) -> None:
        self.domain(domain_id).offer(call, to)

    def accept_domain(self, call: Call, domain_id: int) -> None:
        self.domain(domain_id).accept(call)

    def blacklist_in_domain(self, call: Call, domain_id: int, account: str) -> None:
        self.domain(domain_id).check(call)
        self.domain(domain_id).blacklist.add(account)

    def unblacklist_in_domain(self, call: Call, domain_id: int, account: str) -> None:
        self.domain(domain_id).check(call)
        self.domain(domain_id).blacklist.discard(account)

    def create_pool(self, call: Call, domain_id: int, manager: str, terms: Terms) -> None:
        self.domain(domain_id).check(call)
        refuse_if(manager == NOBODY, "ZeroAddress")
        refuse_if(terms.slash_wei > terms.min_stake_wei, "SlashAboveMinStake")
        refuse_if(not 0 < terms.quorum <= MAX_QUORUM or terms.panel < terms.quorum, "BadQuorum")
        refuse_if(0 in (terms.round_s, terms.verdict_s, terms.challenge_s, terms.lease_s), "BadWindows")
        refuse_if(len(terms.requirements_uri.encode()) > MAX_URI_BYTES, "RequirementsTooLong")
        # Else stake could be gone before its last work was judged.
        refuse_if(terms.verdict_s >= self._stakes.unbonding_s, "WindowAboveUnbonding")
        refuse_if(terms.challenge_s > self._stakes.unbonding_s, "WindowAboveUnbonding")
        pool = self.pools[len(self.pools) + 1] = PoolHeld(owner=call.sender, domain_id=domain_id, terms=terms)
        pool.managers.add(manager)
        self._grant(pool, manager, UNBEGUN_LEASE_UNIX_S)

    def offer_pool(self, call: Call, pool_id: int, to: str) -> None:
        self.pool(pool_id).offer(call, to)

    def accept_pool(self, call: Call, pool_id: int) -> None:
        self.pool(pool_id).accept(call)

    def start_pool(self, call: Call, pool_id: int) -> None:
        pool = self.pool(pool_id)
        pool.check(call)
        refuse_if(pool.state is not PoolState.PENDING, "WrongState")
        pool.state = PoolState.ACTIVE

    def end_pool(self, call: Call, pool_id: int) -> None:
        pool = self.pool(pool_id)
        pool.check(call)
        refuse_if(pool.state is PoolState.ENDED, "WrongState")
        pool.state, pool.ended_at = PoolState.ENDED, call.now_s

    def pause_joins(self, call: Call, pool_id: int, paused: bool) -> None:
        pool = self.pool(pool_id)
        if call.sender != pool.manager:
            pool.check(call)
        pool.joins_paused = paused

    def set_manager(self, call: Call, pool_id: int, manager: str, allowed: bool) -> None:
        pool = self.pool(pool_id)
        pool.check(call)
        refuse_if(manager == NOBODY, "ZeroAddress")
        (pool.managers.add if allowed else pool.managers.discard)(manager)
        if not allowed and pool.manager == manager:
            pool.manager, pool.lease_expires = NOBODY, 0
            pool.epoch += 1

    def take_lease(self, call: Call, pool_id: int) -> None:
        """Renew one's own, or take over one that has lapsed: what the old manager signed is void from then on."""
        pool = self.pool(pool_id)
        refuse_if(call.sender not in pool.managers, "NotManager")
        refuse_if(call.sender != pool.manager and call.now_s <= pool.lease_expires, "LeaseHeld")
        self._grant(pool, call.sender, call.now_s + pool.terms.lease_s)

    def require_manager(self, call: Call, pool_id: int) -> None:
        refuse_if(call.sender != self.pool(pool_id).manager, "NotManager")

    def domain(self, domain_id: int) -> DomainState:
        refuse_if(domain_id not in self.domains, "UnknownDomain")
        return self.domains[domain_id]

    def pool(self, pool_id: int) -> PoolHeld:
        refuse_if(pool_id not in self.pools, "UnknownPool")
        return self.pools[pool_id]

    @staticmethod
    def _grant(pool: PoolHeld, manager: str, expires: int) -> None:
        if manager != pool.manager:
            pool.manager = manager
            pool.epoch += 1
        pool.lease_expires = expires
