"""The real thing: Networks over dhtd children with hivemind's Kademlia and p2pd, on loopback."""

from __future__ import annotations

import math
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest
import trio
from eth_account.signers.local import LocalAccount

from dht.keys import node_key, node_keys, provider_key
from dht.manifest import TRAINER_STATE, ManifestInvalid
from dht.plan import ContentUnavailable
from dht.records import Authority, NodeRecord, RunStateRecord, encode_record
from dht.signing import RecordDomain
from dht.store import StoreError
from node.child import open_child
from node.dhtd_link import NetworkStartFailed
from node.network import Network
from tests.dht.directory_contract import CHECKS, EPOCH, PEER, Bench
from tests.node.real_network import Opener

LIMIT_S = 90.0
ROOT = Path(__file__).resolve().parents[2]

ROGUE = """
import asyncio, sys, time
from dht.lean_hivemind import DHTNode
from hivemind.dht.routing import DHTID
from node.child_main import serve_asyncio
node = None
async def start(bootstrap):
    global node
    node = await DHTNode.create(initial_peers=bootstrap, startup_timeout=60, auto_nat=False, nat_port_map=False)
    return [str(address) for address in await node.get_visible_maddrs()]
async def keep(key, subject, data, expires=None):
    "Holds a record itself, to hand it to whoever asks."
    wrapped = node.protocol.serializer.dumps(data)
    node.protocol.storage.store(DHTID.generate(source=key), wrapped, expires or time.time() + 60, subkey=subject)
async def push(key, subject, data):
    "Asks every other node to store it; how many agreed."
    wrapped, key_id = node.protocol.serializer.dumps(data), DHTID.generate(source=key)
    answers = [
        await node.protocol.call_store(peer, [key_id], [wrapped], [time.time() + 60], subkeys=[subject])
        for peer in list(node.protocol.routing_table.peer_id_to_uid)
    ]
    return [len(answers), sum(bool(a and a[0]) for a in answers)]
asyncio.run(serve_asyncio({"start": start, "keep": keep, "push": push}))
"""


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    with trio.fail_after(LIMIT_S / 3):
        while not await condition():
            await trio.lowlevel.checkpoint()


def group_of(pid: int) -> list[int]:
    """Processes of a process group that have not ended."""
    members = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended while we looked
        if int(fields[2]) == pid and fields[0] != "Z":
            members.append(int(stat.parent.name))
    return members


async def group_gone(pid: int) -> None:
    async def gone() -> bool:
        return group_of(pid) == []

    await until(gone)


def child_pid(network: Network) -> int:
    pid = network._link.pid
    assert pid is not None
    return pid


async def test_directory_contract_and_a_rogue_node(
    opener: Opener, accounts: list[LocalAccount], domain: RecordDomain, tmp_path: Path
) -> None:
    with trio.fail_after(LIMIT_S):
        async with opener(0) as first, opener(1, *first.multiaddrs) as second:
            bench = Bench(here=first, there=second, accounts=accounts, domain=domain, clock=time.time, until=until)
            for check in CHECKS:
                await check(bench)
            async with open_child(
                [sys.executable, "-c", ROGUE], name="rogue", log_path=tmp_path / "rogue.log",
                env={"PYTHONPATH": str(ROOT)},
            ) as rogue:  # fmt: skip
                theirs = await rogue.call("start", timeout_s=60, bootstrap=first.multiaddrs)
                subject = accounts[2].address
                key = node_key(domain.run_id, subject)
                expired = encode_record(bench.sign(bench.node(2), accounts[2]))
                for bad in (b"", b"\xc1", bytes(20_000), expired):  # the last one with an expiry that it does not sign
                    asked, stored = await rogue.call("push", timeout_s=20, key=key, subject=subject, data=bad)
                    assert asked == 2
                    assert stored == 0
                for place in node_keys(domain.run_id):  # for ever, so that nobody else need be asked
                    await rogue.call("keep", timeout_s=20, key=place, subject="junk", data=b"junk", expires=math.inf)
                known = {accounts[number].address for number in (0, 1)}
                async with opener(2, *theirs, client=True) as fresh:  # holds nothing itself, and asks it first
                    for reader in (first, second, fresh, fresh, fresh):
                        assert {record.subject for record in await reader.nodes()} == known


async def test_only_whom_the_ledger_admits_is_stored_and_shown_and_a_newcomer_is_soon(
    opener: Opener, accounts: list[LocalAccount], domain: RecordDomain, caplog: pytest.LogCaptureFixture
) -> None:
    """Nodes read the ledger one after the other; what one shows is not lost to another that is not so far."""
    manager, first, second = (account.address for account in accounts)
    content = b"c" * 32

    async def seen(reader: Network) -> set[str]:
        records = [*await reader.nodes(), *await reader.lookup(provider_key(domain.run_id, content))]
        return {record.subject for record in records}

    def shows(reader: Network, *subjects: str) -> Callable[[], Awaitable[bool]]:
        async def holds() -> bool:
            return await seen(reader) == set(subjects)

        return holds

    with trio.fail_after(LIMIT_S):
        async with (
            opener(0, admitted=frozenset([first])) as relay,
            opener(1, *relay.multiaddrs, admitted=frozenset([first])) as reader,
            opener(2, *relay.multiaddrs, client=True, admitted=frozenset([first, second])) as newcomer,
        ):
            for network in (relay, reader):
                await network.announce_node(peer_id=PEER, roles=["relay"], multiaddrs=[])
            newcomer.announce_node_soon(peer_id=PEER, roles=["worker"], multiaddrs=[])
            newcomer.content.announce(content)

            async def refused() -> bool:
                return f"no node would store the node record of {second}" in caplog.text

            await until(refused)
            for network in (relay, reader, newcomer):
                assert await seen(network) == {manager, first}  # the manager by its lease
            await relay.set_admitted(frozenset([first, second]))
            began_s = trio.current_time()
            await until(shows(newcomer, manager, first, second))  # it has announced itself again
            assert trio.current_time() - began_s < 5
            assert await seen(reader) == {manager, first}  # has not read of it, and still sees the others
            await reader.set_admitted(frozenset([first, second]))
            await until(shows(reader, manager, first, second))

            killed = child_pid(reader)
            os.kill(killed, signal.SIGKILL)  # the restarted child is told anew
            await group_gone(killed)
            await until(shows(reader, manager, first, second))
            await reader.set_admitted(frozenset([first]))  # the newcomer has unbonded: its record lives on, unseen
            assert await seen(reader) == {manager, first}


async def test_nodes_announce_fetch_and_survive_the_death_of_a_child(
    opener: Opener, accounts: list[LocalAccount], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    files = {"config.json": b"{}", "model.safetensors": os.urandom(50_000)}
    for name, data in files.items():
        (folder / name).write_bytes(data)
    with trio.fail_after(LIMIT_S):
        async with opener(0) as trainer, opener(1, *trainer.multiaddrs, lifetime_s=3) as relay:
            await trainer.announce_node(peer_id=PEER, roles=["trainer"], multiaddrs=["/ip4/127.0.0.1/tcp/4001"])
            await relay.announce_node(peer_id=PEER, roles=["relay"], multiaddrs=[])
            content = await trainer.content.publish_checkpoint(folder, 7)
            expected = RunStateRecord(epoch=EPOCH, open_step=1, policy_version=7, manifest_hash=content)
            trainer.announce_run_state(expected)

            async def run_state_is_out() -> bool:
                return await relay.run_state() == expected

            await until(run_state_is_out)

            fetched = await relay.content.fetch_checkpoint(content, timeout_s=30)
            assert {path.name: path.read_bytes() for path in fetched.iterdir()} == files
            sha256 = await trainer.content.add_blob(b"a submission")
            path = await relay.content.fetch_blob(sha256, max_bytes=1000, timeout_s=30)
            assert path.read_bytes() == b"a submission"
            with pytest.raises(ContentUnavailable, match="gave up"):
                await relay.content.fetch_blob(b"?" * 32, max_bytes=1000, timeout_s=0.5)

            with pytest.raises(ManifestInvalid, match="where a trainer-state"):
                await relay.content.fetch_checkpoint(content, timeout_s=30, kind=TRAINER_STATE)
            with pytest.raises(ManifestInvalid, match="oversize"):
                await relay.content.fetch_checkpoint(content, timeout_s=30, max_bytes=50_000)
            (folder / "sub").mkdir()
            with pytest.raises(StoreError, match="flat"):
                await trainer.content.publish_checkpoint(folder, 8)

            killed = child_pid(relay)
            os.kill(killed, signal.SIGKILL)  # records are refreshed by the restarted child, at the same URL
            await group_gone(killed)

            async def relay_is_back() -> bool:
                urls = await trainer.content.providers(content)
                nodes = [r.content for r in await trainer.nodes() if r.subject == accounts[1].address]
                back = relay._link.pid not in (None, killed)
                return back and urls == (relay.bulk_url,) and [isinstance(n, NodeRecord) for n in nodes] == [True]

            await until(relay_is_back)
            assert "dhtd ended with status -9" in caplog.text
            status = await relay.status()
            assert [(c["version"], c["complete"]) for c in status["checkpoints"]] == [(7, True)]
            pids = [child_pid(trainer), child_pid(relay)]
        for pid in pids:
            assert group_of(pid) == []


async def test_the_manager_changes_and_the_running_nodes_follow(
    opener: Opener, accounts: list[LocalAccount], caplog: pytest.LogCaptureFixture
) -> None:
    """The former manager's run state is refused by whoever follows the ledger; the new one's arrives by itself."""
    with trio.fail_after(LIMIT_S):
        async with (
            opener(0, lifetime_s=60) as former,
            opener(1, *former.multiaddrs, lifetime_s=60) as manager,
            opener(2, *former.multiaddrs) as reader,
        ):
            old = RunStateRecord(epoch=EPOCH, open_step=1, policy_version=0, manifest_hash=b"m" * 32)
            new = replace(old, epoch=EPOCH + 1, open_step=2)

            def says(state: RunStateRecord | None) -> Callable[[], Awaitable[bool]]:
                async def holds() -> bool:
                    return await reader.run_state() == state

                return holds

            former.announce_run_state(old)
            await until(says(old))
            await reader.set_authority(Authority(manager=accounts[1].address, epoch=EPOCH + 1))
            await until(says(None))
            manager.announce_run_state(new)  # before its own dhtd has heard of the lease: it says it again

            async def refused() -> bool:
                return "a record was not refreshed: run state is the manager's to sign" in caplog.text

            await until(refused)
            await manager.set_authority(Authority(manager=accounts[1].address, epoch=EPOCH + 1))
            await until(says(new))

            killed = child_pid(reader)
            os.kill(killed, signal.SIGKILL)  # the restarted child knows the new manager
            await group_gone(killed)
            await until(says(new))


async def test_a_dead_bootstrap_peer_is_dialled_again_until_it_lives(opener: Opener) -> None:
    with trio.fail_after(LIMIT_S):
        async with opener(0) as late:
            address = late.multiaddrs[0]
        port = int(address.split("/tcp/")[1].split("/")[0])
        async with opener(1, address) as early:
            assert (await early.status())["peers"] == 0
            assert "no bootstrap peer" in (early._link.log_path).read_text()
            async with opener(0, dht_port=port) as late:  # the same identity comes back
                assert late.multiaddrs == (address,)

                async def met() -> bool:
                    return (await early.status())["peers"] == 1

                await until(met)


async def test_a_taken_port_is_named_and_not_retried(opener: Opener) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        for option in ("bulk_port", "dht_port"):
            with pytest.raises(NetworkStartFailed, match="in use"):
                async with opener(0, **{option: taken.getsockname()[1]}):
                    raise AssertionError("must not open")


async def test_dhtd_and_p2pd_end_with_a_killed_node(tmp_path: Path, domain: RecordDomain) -> None:
    code = f"""
import trio
from pathlib import Path
from eth_account import Account
from dht.records import Authority
from dht.signing import RecordDomain
from node.network import NetworkConfig, open_network
from node.state import NodeState
async def main():
    folder = Path({str(tmp_path)!r})
    account = Account.from_key(bytes([1]) * 32)
    domain = RecordDomain(chain_id=31337, contract=account.address, salt=b"s" * 32, run_id=b"r" * 32)
    authority = Authority(manager=account.address, epoch=1)
    async with open_network(NetworkConfig(), account=account, domain=domain, authority=authority,
                            data_dir=folder, state=NodeState(folder)) as network:
        print(network._link.pid, flush=True)
        await trio.sleep_forever()
trio.run(main)
"""
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}
    ) as node:
        assert node.stdout is not None
        dhtd = int(await trio.to_thread.run_sync(node.stdout.readline))
        assert len(group_of(dhtd)) == 2
        node.kill()
        with trio.fail_after(10):  # P2P.md: 35 s when left to p2pd itself
            await group_gone(dhtd)
