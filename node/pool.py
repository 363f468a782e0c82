"""`intellect-node pool …`: look at a pool, make one, invite a node by hand."""

from __future__ import annotations

import secrets
from typing import Any

import trio
from eth_account.signers.local import LocalAccount

from ledger.client import Ledger
from ledger.deployment import deploy
from ledger.errors import ChainUnavailable, InsufficientFunds, LedgerError
from ledger.types import Role, Terms
from node.config import RunConfig
from node.contact import contact_key
from node.errors import UserError
from node.membership import send_invite
from node.peer_key import make_peer_key
from node.peers import live_nodes, passing_client
from node.run_ledger import deployment_of, domain_of, open_ledger, with_ledger
from node.show import plain
from node.streams import StreamError, open_peer
from node.terms import terms_told


def show(config: RunConfig) -> tuple[dict[str, Any], dict[str, str]]:
    """The pool as values, and in words, name by name. Raises UserError."""
    ledger, pool = open_ledger(config, None, None)
    newest, members = ledger.latest_checkpoint(pool.pool_id), ledger.members(pool.pool_id)
    funds_wei, name = ledger.funds_of(pool.pool_id), ledger.domain(pool.domain_id).name
    version = None if newest is None else newest.version
    joins = ", takes no new members" if pool.joins_paused else ""
    values = plain(pool) | {
        "domain": name, "funds_wei": funds_wei, "policy_version": version, "member_count": len(members),
    }  # fmt: skip
    return values, {
        "pool": f"{pool.pool_id} in domain {pool.domain_id} ({name}), {pool.state.name.lower()}{joins}",
        **terms_told(pool, chain_unix_s=ledger.chain_time_s(), funds_wei=funds_wei),
        "policy": "none yet" if version is None else str(version),
        "members": f"{len(members)}, at most {pool.terms.member_limit}",
    }


def create(
    config: RunConfig,
    account: LocalAccount,
    *,
    name: str,
    domain_id: int | None,
    manager: str | None,
    terms: Terms,
    start: bool,
) -> RunConfig:
    """Make a pool, and a domain called `name` unless one is given. The account pays and owns.

    Deploys the contracts first where the config names none.

    Args:
        terms: what members agree to; nobody can change them later.
        start: let members join at once.

    Returns:
        The config that describes the new pool's run. Raises UserError.
    """
    rpc = config.ledger.rpc
    try:
        deployment = deployment_of(config) if int(config.ledger.root, 16) else deploy(rpc, account)
        ledger = Ledger(rpc, deployment, account)
        pool_id = ledger.create_pool(domain_id or ledger.create_domain(name), manager or account.address, terms)
        if start:
            ledger.start_pool(pool_id)
        ledger.close()
    except ChainUnavailable as error:
        raise UserError(str(error), fix="start the chain, or name its address with --rpc URL") from error
    except InsufficientFunds as error:
        raise UserError(str(error), fix=f"send some ether to {account.address}") from error
    except LedgerError as error:
        raise UserError(f"the pool could not be created: {error}", fix="cure what it says, then try again") from error
    return with_ledger(config, deployment, rpc=rpc, pool_id=pool_id)


def invite(config: RunConfig, account: LocalAccount, *, node: str, role: str, join: tuple[str, ...]) -> None:
    """Sign an invite for `node` as the pool's manager and hand it over; returns once the node has joined.

    Raises UserError.
    """
    if not join:
        raise UserError("no way into the network", fix="give --join a multiaddr of any node of the run")
    trio.run(_invite, config, account, node, Role[role.upper()], join)


async def _invite(config: RunConfig, account: LocalAccount, node: str, role: Role, join: tuple[str, ...]) -> None:
    ledger, pool = await trio.to_thread.run_sync(open_ledger, config, None, None)
    pool_id = pool.pool_id
    if pool.manager != account.address:
        raise UserError(f"only the manager {pool.manager} can invite", fix="use the manager's wallet")
    if ledger.member(pool_id, node).active:
        raise UserError(f"{node} is a member already", fix="nothing is left to do")
    async with passing_client(config, join) as (ledger, network):
        found = [r.content for r in await live_nodes(network) if r.subject == node]
        if not found:
            raise UserError(f"{node} is not in the network", fix="start that node first; it waits for an invite")
        if role.name.lower() not in found[0].roles:
            raise UserError(f"{node} waits as {', '.join(found[0].roles)}", fix="invite it as that, with --role")
        async with open_peer(make_peer_key(secrets.token_bytes(32)), f"/ip4/{config.network.host}/tcp/0") as peer:
            try:
                key = contact_key(account, domain_of(ledger, pool_id))
                await send_invite(ledger, peer, account, found[0], pool_id=pool_id, role=role, key=key)
            except StreamError as error:
                raise UserError(f"the node did not join: {error}", fix="see the node's log") from error
