"""`intellect-node pool logs` and `pool restart-engine`: the pool's manager orders something of one node.

Decides how the node is found: its record in the DHT, its address sealed to the manager's wallet. It refuses to order
without that wallet, and cannot reach a node that nobody can dial (the running trainer, to which such a node has
connected by itself, could).
"""

from __future__ import annotations

import secrets

import trio
from eth_account.signers.local import LocalAccount

from node.config import RunConfig
from node.contact import contact_key
from node.errors import UserError
from node.membership import request_any
from node.orders import ORDER_LIFETIME_S, ORDER_REPLY_BYTES, ORDERS_PROTOCOL, Kind, Order, sign_order
from node.peer_key import make_peer_key
from node.peers import live_nodes, passing_client
from node.run_ledger import domain_of, open_ledger
from node.streams import RemoteError, StreamError, open_peer


def logs(config: RunConfig, account: LocalAccount, *, node: str, lines: int, join: tuple[str, ...]) -> str:
    """The last lines of a member's log, secrets left out. Raises UserError."""
    reply = trio.run(_order, config, account, node, Kind.LOGS, lines, _checked(join))
    text = reply.get("log")
    if not isinstance(text, str):
        raise UserError("the node's reply holds no log", fix="it may run another version; ask its owner")
    return "\n".join("".join(c if c.isprintable() else "?" for c in line) for line in text.split("\n"))


def restart_engine(config: RunConfig, account: LocalAccount, *, node: str, join: tuple[str, ...]) -> None:
    """Have a member start its engine again. Raises UserError."""
    trio.run(_order, config, account, node, Kind.RESTART_ENGINE, 0, _checked(join))


def _checked(join: tuple[str, ...]) -> tuple[str, ...]:
    if not join:
        raise UserError("no way into the network", fix="give --join a multiaddr of any node of the run")
    return join


async def _order(
    config: RunConfig, account: LocalAccount, node: str, kind: Kind, lines: int, join: tuple[str, ...]
) -> dict[str, object]:
    _, pool = await trio.to_thread.run_sync(open_ledger, config, None, None)
    if pool.manager != account.address:
        raise UserError(f"only the manager {pool.manager} gives orders", fix="use the manager's wallet")
    async with passing_client(config, join) as (ledger, network):
        domain = domain_of(ledger, pool.pool_id)
        found = [r.content for r in await live_nodes(network) if r.subject == node]
        if not found:
            raise UserError(f"{node} is not in the network", fix="its owner must start it; see `intellect-node peers`")
        async with open_peer(make_peer_key(secrets.token_bytes(32)), f"/ip4/{config.network.host}/tcp/0") as peer:
            now_s = network.clock.now_s()  # the node judges by the network's time; this machine's may be wrong
            order = Order(
                kind=kind, lines=lines, node=node, node_peer=found[0].peer_id, manager_peer=peer.peer_id,
                sequence=int(now_s * 1e6), expires_unix_s=int(now_s) + ORDER_LIFETIME_S,
            )  # fmt: skip
            try:
                return await request_any(
                    peer, found[0], contact_key(account, domain), ORDERS_PROTOCOL,
                    sign_order(order, domain=domain, account=account), timeout_s=config.network.request_timeout_s,
                    max_bytes=ORDER_REPLY_BYTES,
                )  # fmt: skip
            except RemoteError as refused:
                raise UserError(f"the node refuses: {refused.message}", fix="cure what it says") from refused
            except StreamError as error:
                raise UserError(
                    f"the node cannot be reached: {error}", fix="it must be up and dialable from here"
                ) from error
