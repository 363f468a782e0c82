"""How nodes find each other by one bootstrap peer, over real dhtd processes: a wrong id, a death, another run."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path

import pytest
import trio

from dht.records import Authority, RecordInvalid, RunStateRecord
from node.network import Network, NetworkConfig, open_network
from node.state import NodeState
from tests.node.life_bench import DOMAIN, MANAGER, account, peer_id

LIMIT_S = 90.0
LIFETIME_S = 3.0


@asynccontextmanager
async def opened(
    folder: Path, number: int, *bootstrap: str, run_id: bytes = DOMAIN.run_id, client: bool = False
) -> AsyncIterator[Network]:
    """Node `number`, announced; 9 is the manager."""
    (home := folder / f"{number}-{run_id[:1].decode()}").mkdir()
    with closing(NodeState(home)) as state:
        async with open_network(
            NetworkConfig(bootstrap=bootstrap, lifetime_s=LIFETIME_S, client=client), account=account(number),
            domain=replace(DOMAIN, run_id=run_id), authority=Authority(manager=MANAGER.address, epoch=1),
            data_dir=home, state=state,
        ) as network:  # fmt: skip
            await network.announce_node(peer_id=peer_id(number), roles=["relay"], multiaddrs=[f"/ip4/10.0.0.{number}"])
            yield network


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    with trio.fail_after(LIMIT_S / 3):
        while not await condition():
            await trio.sleep(0.02)


def lists(network: Network, *numbers: int) -> Callable[[], Awaitable[bool]]:
    """Whether it finds exactly these nodes."""

    async def holds() -> bool:
        return {record.subject for record in await network.nodes()} == {account(number).address for number in numbers}

    return holds


def with_id(address: str, number: int) -> str:
    """The address with another peer's id."""
    return f"{address.rsplit('/', 1)[0]}/{peer_id(number)}"


async def test_one_wrong_bootstrap_id_keeps_nobody_out(tmp_path: Path) -> None:
    with trio.fail_after(LIMIT_S):
        async with opened(tmp_path, 1) as first:
            wrong = with_id(first.multiaddrs[0], 7)
            async with opened(tmp_path, 2, wrong, *first.multiaddrs) as second:
                await until(lists(second, 1, 2))
                await until(lists(first, 1, 2))
            async with opened(tmp_path, 3, wrong) as alone:  # it starts, says so, and is there for others
                assert (await alone.status())["peers"] == 0
                assert "no bootstrap peer answered" in alone._link.log_path.read_text()
                async with opened(tmp_path, 4, *alone.multiaddrs) as fourth:
                    await until(lists(fourth, 3, 4))


async def test_all_nodes_behind_one_bootstrap_find_each_other_also_when_it_died_and_it_is_listed_no_more(
    tmp_path: Path,
) -> None:
    with trio.fail_after(LIMIT_S):
        async with trio.open_nursery() as nursery:
            dies = trio.CancelScope()

            async def live(task_status: trio.TaskStatus[Network]) -> None:
                with dies:
                    async with opened(tmp_path, 1) as network:
                        task_status.started(network)
                        try:
                            await trio.sleep_forever()
                        finally:  # kill -9: nothing is withdrawn
                            os.killpg(network._link.pid, signal.SIGKILL)  # type: ignore[arg-type]

            only = (await nursery.start(live)).multiaddrs
            async with (
                opened(tmp_path, 2, *only) as second,
                opened(tmp_path, 3, *only) as third,
                opened(tmp_path, 4, *only) as fourth,
                opened(tmp_path, 5, *only, client=True) as fifth,
            ):
                others = (second, third, fourth, fifth)
                for network in others:
                    await until(lists(network, 1, 2, 3, 4, 5))
                dies.cancel()
                for network in others:  # within its record's lifetime, whatever others still have in their tables
                    await until(lists(network, 2, 3, 4, 5))
                began = {record.subject: record.sequence for record in await second.nodes()}
                for network in others:  # every record was stored anew since, and found, without the bootstrap

                    async def renewed(network: Network = network) -> bool:
                        seen = {record.subject: record.sequence for record in await network.nodes()}
                        return seen.keys() == began.keys() and all(seen[at] > began[at] for at in seen)

                    await until(renewed)


async def test_attack_another_runs_nodes_join_by_our_bootstrap(tmp_path: Path) -> None:
    """One directory, two runs: hivemind's names are the same everywhere, ours hold the run."""
    with trio.fail_after(LIMIT_S):
        async with (
            opened(tmp_path, 9) as ours,
            opened(tmp_path, 2, *ours.multiaddrs) as second,
            opened(tmp_path, 3, *ours.multiaddrs, run_id=b"q" * 32) as stranger,
        ):
            await until(lists(second, 2, 9))
            await until(lists(stranger, 3))
            assert await lists(ours, 2, 9)()
            ours.announce_run_state(RunStateRecord(epoch=1, open_step=3, policy_version=2, manifest_hash=b"m" * 32))

            async def told() -> bool:
                return await second.run_state() is not None

            await until(told)
            assert await stranger.run_state() is None
            (theirs,) = await stranger.nodes()
            with pytest.raises(RecordInvalid, match="run"):  # nor does one of ours store a record of theirs
                await ours.publish(theirs)


async def test_without_a_bootstrap_nobody_is_dialled(tmp_path: Path) -> None:
    """No default peers: whoever names nobody founds a directory and is alone in it, whatever else runs here."""
    assert NetworkConfig().bootstrap == ()
    with trio.fail_after(LIMIT_S):
        async with opened(tmp_path, 1), opened(tmp_path, 2) as second:
            assert (await second.status())["peers"] == 0
            assert await lists(second, 2)()
