"""A pool's terms in words: what its members agreed to, as every node logs it at its start and `pool show` tells it.

Decides wording only, and what of it deserves a warning: a pool in which a dishonest node loses nothing looks like any
other until somebody says so. Pure.
"""

from __future__ import annotations

from ledger.types import UNBEGUN_LEASE_UNIX_S, Node, Pool
from node.show import tokens


def terms_told(pool: Pool, *, chain_unix_s: int, funds_wei: int) -> dict[str, str]:
    """Name → sentence. `funds_wei` is what the pool still has to pay for work; the time is the chain's."""
    terms, left_s = pool.terms, pool.lease_expires_unix_s - chain_unix_s
    lease = f"{left_s} s of its lease left" if left_s >= 0 else "its lease has lapsed"
    if pool.lease_expires_unix_s == UNBEGUN_LEASE_UNIX_S:
        lease = "its lease has not begun: it never started"
    burns = tokens(terms.slash_wei) if terms.slash_wei else "nothing"
    quorum = "one validator alone" if terms.quorum == 1 else f"{terms.quorum} that agree"
    return {
        "owner": pool.owner + (f", offered to {pool.pending_owner}" if int(pool.pending_owner, 16) else ""),
        "manager": f"{pool.manager}, epoch {pool.epoch}, {lease}",
        "stake": f"{tokens(terms.min_stake_wei)} tokens to join; a rejection burns {burns}",
        "credit": f"{tokens(terms.unit_price_wei)} tokens a verified token; {tokens(funds_wei)} are there for it",
        "verdicts": f"by {quorum}, of {terms.panel} drawn at first and more every {terms.round_s} s, "
        f"within {terms.verdict_s} s",
        "appeals": f"within {terms.challenge_s} s of a rejection, and as long again to judge them",
        "asks for": terms.requirements_uri or "no particular machine",
    }


def own_stake_told(node: Node) -> str:
    """What this machine has at stake, and whose it is."""
    whose = "this wallet's" if node.staker == node.address else f"{node.staker}'s"
    told = f"{tokens(node.stake_wei)} tokens, {whose}"
    told += f", {tokens(node.locked_wei)} of them under a case" if node.locked_wei else ""
    return told + (f", {tokens(node.unbonding_wei)} more on their way out" if node.unbonding_wei else "")


def weaknesses(pool: Pool) -> tuple[str, ...]:
    """What whoever takes part should not find out late."""
    terms, found = pool.terms, []
    if not terms.slash_wei:
        found.append("a rejection burns nothing: dishonest work costs its maker only the place in the pool")
    if not terms.unit_price_wei:
        found.append("a verified token is worth nothing: work in this pool is not paid")
    return tuple(found)
