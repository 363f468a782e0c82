"""A worker in the public directory, over real dhtd processes: found, served, and its address in nobody's hands."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path

import psutil
import pytest
import trio

from dht.keys import node_keys, provider_key, run_state_key
from dht.records import Authority, NodeRecord
from node.child import open_child
from node.contact import contact_key, open_contact, seal_contact
from node.network import Network, NetworkConfig, open_network
from node.peer_key import make_peer_key
from node.state import NodeState
from tests.node.life_bench import DOMAIN, MANAGER, account

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 90.0
WORKER_PEER = make_peer_key(b"\1" * 32).peer_id
WORKER_AT = f"/ip4/127.0.0.77/tcp/4999/p2p/{WORKER_PEER}"

SPY = """
import asyncio
from dht.lean_hivemind import DHTID, DHTNode, PeerID
from node.child_main import serve_asyncio
node = None
async def start(bootstrap):
    global node
    node = await DHTNode.create(initial_peers=bootstrap, startup_timeout=60, auto_nat=False, nat_port_map=False)
async def everything(keys):
    "Every value under the keys, as raw bytes, from each node that can be asked, and everybody they name."
    values, named = [], set()
    for peer in list(node.protocol.routing_table.peer_id_to_uid):
        answers = await node.protocol.call_find(peer, [DHTID.generate(source=key) for key in keys])
        for found, nearest in (answers or {}).values():
            named |= {str(peer_id) for peer_id in nearest.values()}
            items = found.value.items() if found and hasattr(found.value, "items") else []
            values += [item.value for _, item in items]
    return {"values": values, "named": sorted(named)}
async def reach(peer_id):
    "Whether p2pd finds a way to that peer."
    try:
        await node.p2p._client.connect(PeerID.from_base58(peer_id), [])
        return True
    except Exception as error:
        return False
asyncio.run(serve_asyncio({"start": start, "everything": everything, "reach": reach}))
"""


@pytest.fixture
def opener(tmp_path: Path) -> Callable[..., object]:
    @asynccontextmanager
    async def opened(name: str, wallet: object, *bootstrap: str, **options: bool) -> AsyncIterator[Network]:
        (folder := tmp_path / name).mkdir()
        with closing(NodeState(folder)) as state:
            async with open_network(
                NetworkConfig(bootstrap=bootstrap, chunk_size_bytes=4096, lifetime_s=30, **options), account=wallet,  # type: ignore[arg-type]
                domain=DOMAIN, authority=Authority(manager=MANAGER.address, epoch=1), data_dir=folder, state=state,
            ) as network:  # fmt: skip
                yield network

    return opened


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    with trio.fail_after(LIMIT_S / 3):
        while not await condition():
            await trio.lowlevel.checkpoint()


async def test_the_public_directory_holds_no_worker_address(opener: Callable[..., object], tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    (folder / "config.json").write_bytes(b"{}")
    (folder / "model.safetensors").write_bytes(bytes(range(256)) * 40)
    worker_wallet, key = account(1), contact_key(MANAGER, DOMAIN)
    with trio.fail_after(LIMIT_S):
        async with (
            opener("manager", MANAGER) as manager,  # type: ignore[attr-defined]
            opener("relay", account(2), *manager.multiaddrs) as relay,  # type: ignore[attr-defined]
            opener("worker", worker_wallet, *relay.multiaddrs, client=True, serve=False) as worker,  # type: ignore[attr-defined]
        ):
            sealed = seal_contact([WORKER_AT], address=worker_wallet.address, x25519=bytes(key.public_key))
            await worker.announce_node(peer_id=WORKER_PEER, roles=["worker"], multiaddrs=[], sealed=sealed)
            content = await manager.content.publish_checkpoint(folder, 0)

            # It takes part: found by its manager, who alone can open the contact, and fed with weights.
            async def found() -> bool:
                return any(record.subject == worker_wallet.address for record in await manager.nodes())

            await until(found)
            (record,) = [r.content for r in await manager.nodes() if r.subject == worker_wallet.address]
            assert isinstance(record, NodeRecord)
            assert open_contact(record, key) == (WORKER_AT,)
            assert (record.multiaddrs, record.bulk_url) == ((), "")
            fetched = await worker.content.fetch_checkpoint(content, timeout_s=30, announce=True)
            assert (fetched / "config.json").read_bytes() == b"{}"
            worker.content.announce(content)

            # It serves nothing and is in nobody's table.
            status = await worker.status()
            for other in (manager, relay):
                table = (await other.status())["table"]
                assert status["peer_id"] not in table
                assert table, "the others know each other"
                assert [url for url in await other.content.providers(content) if url] == (
                    [] if other is manager else [manager.bulk_url]
                )
            listening = [c for p in [psutil.Process(worker._link.pid), *psutil.Process(worker._link.pid).children()]
                         for c in p.net_connections(kind="inet") if c.status == psutil.CONN_LISTEN]  # fmt: skip
            assert listening == []

            # A stranger reads all there is.
            async with open_child(
                [sys.executable, "-c", SPY], name="spy", log_path=tmp_path / "spy.log", env={"PYTHONPATH": str(ROOT)}
            ) as spy:
                await spy.call("start", timeout_s=60, bootstrap=list(manager.multiaddrs))
                keys = [*node_keys(DOMAIN.run_id), provider_key(DOMAIN.run_id, content), run_state_key(DOMAIN.run_id)]
                seen = await spy.call("everything", timeout_s=30, keys=keys)
                assert any(worker_wallet.address.encode() in value for value in seen["values"]), "its record is there"
                assert all(b"127.0.0.77" not in value and b"4999" not in value for value in seen["values"])
                assert status["peer_id"] not in seen["named"]
                assert not await spy.call("reach", timeout_s=60, peer_id=status["peer_id"])
                assert await spy.call("reach", timeout_s=60, peer_id=(await relay.status())["peer_id"])
