"""Domains and pools: their owners, terms, state and managers.

Decides nothing: `ComputePools` does. A pool's terms never change, so each is asked for once.
"""

from __future__ import annotations

from ledger.abi import topic_of
from ledger.account import Account
from ledger.chain import MAX_BLOCKS_PER_READ, Chain
from ledger.events import DomainCreated, PoolCreated
from ledger.logs import terms_of, terms_tuple
from ledger.types import Domain, Pool, PoolState, Terms, reason_bytes


class PoolReader(Chain):
    """Domains and pools as they are."""

    def domain(self, domain_id: int) -> Domain:
        """Raises `Reverted("UnknownDomain")`."""
        ((owner, pending), name) = self._read("ComputePools", "getDomain", domain_id)
        return Domain(domain_id=domain_id, owner=owner, pending_owner=pending, name=name)

    def is_blacklisted_in_domain(self, domain_id: int, account: str) -> bool:
        return self._read("ComputePools", "isBlacklistedInDomain", domain_id, account)

    def terms(self, pool_id: int) -> Terms:
        """Raises `Reverted("UnknownPool")`."""
        return terms_of(self._read_once("ComputePools", "getTerms", pool_id))

    def pool(self, pool_id: int) -> Pool:
        """Raises `Reverted("UnknownPool")`."""
        values = self._read("ComputePools", "getPool", pool_id)
        ((owner, pending), domain_id, state, paused, ended, manager, epoch, expires) = values
        return Pool(
            pool_id=pool_id,
            domain_id=domain_id,
            owner=owner,
            pending_owner=pending,
            state=PoolState(state),
            joins_paused=paused,
            ended_unix_s=ended,
            manager=manager,
            epoch=epoch,
            lease_expires_unix_s=expires,
            terms=self.terms(pool_id),
        )

    def pools_made(self, domain_id: int, *, since_block: int) -> tuple[int, ...]:
        """The domain's pools that were made in this block or later, oldest first; only its owner can make one."""
        topics = (topic_of("ComputePools", "PoolCreated"), None, f"0x{domain_id:064x}")
        found: list[int] = []
        start, head = max(since_block, self.deployment.block), self.block_number
        while start <= head:
            end = min(head, start + MAX_BLOCKS_PER_READ - 1)
            found += [event.pool_id for event in self._events(start, end, "ComputePools", *topics)]
            start = end + 1
        return tuple(found)

    def may_manage(self, pool_id: int, account: str) -> bool:
        """Whether this key may take the pool's lease."""
        return self._read("ComputePools", "mayManage", pool_id, account)


class PoolWriter(PoolReader, Account):
    """Where not said otherwise, each write returns the block it was mined in."""

    def create_domain(self, name: str) -> int:
        """Returns the domain's id."""
        return self._made(self._write("ComputePools", "createDomain", name), DomainCreated).domain_id

    def offer_domain(self, domain_id: int, to: str) -> int:
        """First step of a change of owner; the new one then calls `accept_domain`."""
        return self._write("ComputePools", "offerDomain", domain_id, to).block

    def accept_domain(self, domain_id: int) -> int:
        return self._write("ComputePools", "acceptDomain", domain_id).block

    def blacklist_in_domain(self, domain_id: int, account: str, reason: str) -> int:
        """By the domain's owner. `reason` is ASCII, at most 32 bytes."""
        return self._write("ComputePools", "blacklistInDomain", domain_id, account, reason_bytes(reason)).block

    def unblacklist_in_domain(self, domain_id: int, account: str) -> int:
        return self._write("ComputePools", "unblacklistInDomain", domain_id, account).block

    def create_pool(self, domain_id: int, manager: str, terms: Terms) -> int:
        """By the domain's owner, who will own the pool, which is pending. Returns the pool's id."""
        receipt = self._write("ComputePools", "createPool", domain_id, manager, terms_tuple(terms))
        return self._made(receipt, PoolCreated).pool_id

    def offer_pool(self, pool_id: int, to: str) -> int:
        """First step of a change of owner; the new one then calls `accept_pool`."""
        return self._write("ComputePools", "offerPool", pool_id, to).block

    def accept_pool(self, pool_id: int) -> int:
        return self._write("ComputePools", "acceptPool", pool_id).block

    def start_pool(self, pool_id: int) -> int:
        """By the owner: members can join from now on."""
        return self._write("ComputePools", "startPool", pool_id).block

    def end_pool(self, pool_id: int) -> int:
        """By the owner, for good."""
        return self._write("ComputePools", "endPool", pool_id).block

    def pause_joins(self, pool_id: int, paused: bool) -> int:
        """By the owner or the manager."""
        return self._write("ComputePools", "pauseJoins", pool_id, paused).block

    def set_manager(self, pool_id: int, manager: str, allowed: bool) -> int:
        """By the owner: whether this key may take the lease. Forbidding the one that holds it ends the lease."""
        return self._write("ComputePools", "setManager", pool_id, manager, allowed).block

    def take_lease(self, pool_id: int) -> int:
        """Renew one's own lease, or take over one that has lapsed. Raises `Reverted` with NotManager or LeaseHeld."""
        return self._write("ComputePools", "takeLease", pool_id).block
