"""`intellect-node peers`: who is in the network now, asked of the DHT by a passing client."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import trio
from eth_account import Account

from dht.records import Authority, NodeRecord, SignedRecord
from ledger.client import Ledger
from node import show
from node.admitted import AdmittedNodes
from node.chain import on_chain
from node.clock import chain_clock
from node.config import RunConfig
from node.dhtd_link import NetworkStartFailed
from node.errors import UserError
from node.network import Network, NetworkConfig, open_network
from node.run_ledger import domain_of, open_ledger

FIND_TIMEOUT_S = 15.0
LOOK_S = 0.5


def main(config: RunConfig, *, join: tuple[str, ...], as_json: bool = False) -> None:
    """Print every live node with role, peer id, address and the age of its record. Raises UserError."""
    if not join:
        raise UserError("no peer to ask", fix="give --join a multiaddr of any node (its data folder has it in `join`)")
    # Readers bear clocks that differ a little; who is live is told strictly: a killed node goes with its record.
    found, now_s = trio.run(_find, config, join)
    records = [record for record in found if record.expires_unix_s > now_s]
    lifetime_s = config.network.record_lifetime_s
    found_rows = [
        {
            "role": ",".join(record.content.roles),
            "peer_id": record.content.peer_id,
            "address": record.content.address,
            "multiaddrs": list(record.content.multiaddrs),
            "age_s": round(max(0.0, lifetime_s - (record.expires_unix_s - now_s)), 1),
        }
        for record in sorted(records, key=lambda r: (r.content.roles, r.subject))
    ]
    told = [row | {"record's age": f"{row['age_s']:.0f} s"} for row in found_rows]
    show.rows(
        found_rows if as_json else told, ("role", "address", "peer_id", "record's age"),
        as_json=as_json, empty="no live nodes",
    )  # fmt: skip


@asynccontextmanager
async def passing_client(config: RunConfig, join: tuple[str, ...]) -> AsyncIterator[tuple[Ledger, Network]]:
    """The run's ledger and DHT for a look; announces nothing. Raises UserError."""
    ledger, pool = await trio.to_thread.run_sync(open_ledger, config, None, None)
    domain = domain_of(ledger, pool.pool_id)
    clock = await on_chain(chain_clock, ledger)
    admitted = await on_chain(AdmittedNodes(ledger, pool.pool_id).look)
    settings = NetworkConfig(host=config.network.host, bootstrap=join, client=True, serve=False, chain_clock=clock)
    with tempfile.TemporaryDirectory() as folder:
        try:
            async with open_network(
                settings,
                account=Account.create(),
                domain=domain,
                authority=Authority(manager=pool.manager, epoch=pool.epoch),
                data_dir=Path(folder),
                admitted=admitted,
            ) as network:
                yield ledger, network
        except NetworkStartFailed as error:
            raise UserError(str(error), fix="check that the peer named by --join is running") from error


async def live_nodes(network: Network) -> tuple[SignedRecord, ...]:
    """Every live node's record. Raises UserError where nobody answers."""
    with trio.move_on_after(FIND_TIMEOUT_S):
        while not (records := await network.nodes()):
            await trio.sleep(LOOK_S)
        return tuple(record for record in records if isinstance(record.content, NodeRecord))
    raise UserError(
        f"no node answered within {FIND_TIMEOUT_S:.0f} s", fix="check --join, and that the run's nodes are up"
    )


async def _find(config: RunConfig, join: tuple[str, ...]) -> tuple[tuple[SignedRecord, ...], float]:
    """The records, and the network's time."""
    async with passing_client(config, join) as (_, network):
        return await live_nodes(network), network.clock.now_s()
