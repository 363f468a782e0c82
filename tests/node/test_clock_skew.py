"""Nodes whose machine's clock is wrong, as real processes: each finds and is found as if it were right.

The wrong clock is a `sitecustomize` that Python loads in the node and all its children: whoever reads `time.time`
anywhere in them is told the wrong time.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from eth_account import Account
from eth_account.signers.local import LocalAccount

from dht.clock import ClockSample
from dht.records import Authority, RunStateRecord
from dht.signing import RecordDomain
from node.network import Network, NetworkConfig, open_network

ROOT = Path(__file__).resolve().parents[2]
PEER = "12D3KooWGRUQUDYqLRHnYXYzbTRHgTgWzgcvHWDXYLtMJpVqSQfX"
LIMIT_S = 120.0
SKEWS_S = (-2, 2, -10, 10, -600, 600, -3600, 3600)
SHIM = """
import time
right, right_ns = time.time, time.time_ns
time.time = lambda: right() + {skew_s}
time.time_ns = lambda: right_ns() + int({skew_s} * 1e9)
"""
NODE = """
import json, logging, sys, time
from pathlib import Path
import trio
from eth_account import Account
from dht.clock import ClockSample
from dht.records import Authority
from dht.signing import RecordDomain
from node.network import NetworkConfig, open_network

async def main(number, home, chain_offset_s, wanted, *bootstrap):
    account, manager = (Account.from_key(bytes([n]) * 32) for n in (number, 1))
    domain = RecordDomain(chain_id=31337, contract=manager.address, salt=b"s" * 32, run_id=b"r" * 32)
    chain = None if chain_offset_s is None else ClockSample(offset_s=chain_offset_s, error_s=0.5)
    config = NetworkConfig(bootstrap=bootstrap, chain_clock=chain)
    async with open_network(
        config, account=account, domain=domain, data_dir=Path(home),
        authority=Authority(manager=manager.address, epoch=1),
    ) as network:
        await network.announce_node(peer_id=sys.argv[2], roles=["worker"], multiaddrs=[])
        content = await network.content.add_blob(f"made by {number}".encode())
        with trio.move_on_after(30):
            while len(found := await network.nodes()) < wanted or (wanted == 3 and await network.run_state() is None):
                await trio.sleep(0.05)
        told = {"address": account.address, "wall_s": time.time(), "offset_s": network.clock.offset_s,
                "found": [record.subject for record in found], "content": content.hex(),
                "run_state": (await network.run_state()) is not None}
        print(json.dumps(told), flush=True)
        await trio.to_thread.run_sync(sys.stdin.readline)

logging.basicConfig(level=logging.INFO)
trio.run(main, *json.loads(sys.argv[1]))
"""


def account_of(number: int) -> LocalAccount:
    return Account.from_key(bytes([number]) * 32)


@asynccontextmanager
async def right_node(number: int, folder: Path, *bootstrap: str, **options: Any) -> AsyncIterator[Network]:
    domain = RecordDomain(chain_id=31337, contract=account_of(1).address, salt=b"s" * 32, run_id=b"r" * 32)
    async with open_network(
        NetworkConfig(bootstrap=bootstrap, **options), account=account_of(number), domain=domain,
        authority=Authority(manager=account_of(1).address, epoch=1), data_dir=folder / str(number),
    ) as network:  # fmt: skip
        yield network


@asynccontextmanager
async def skewed_node(
    number: int, skew_s: float, folder: Path, *bootstrap: str, chain_offset_s: float | None = None, wanted: int = 3
) -> AsyncIterator[tuple[dict[str, Any], Path]]:
    """What a node with that wrong clock found, while it goes on running; and its log."""
    home, log = folder / f"{number}", folder / f"{number}.log"
    shim = folder / f"clock-{number}"
    shim.mkdir()
    (shim / "sitecustomize.py").write_text(SHIM.format(skew_s=skew_s))
    arguments = json.dumps([number, str(home), chain_offset_s, wanted, *bootstrap])
    with log.open("wb") as sink, subprocess.Popen(
        [sys.executable, "-c", NODE, arguments, PEER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=sink,
        cwd=ROOT, env={**os.environ, "PYTHONPATH": f"{shim}{os.pathsep}{ROOT}"},
    ) as node:  # fmt: skip
        assert node.stdout is not None
        try:
            line = await trio.to_thread.run_sync(node.stdout.readline, abandon_on_cancel=True)
            assert line, log.read_text()
            yield json.loads(line), log
        finally:
            assert node.stdin is not None
            node.stdin.close()
            await trio.to_thread.run_sync(node.wait)


async def test_nodes_with_wrong_clocks_join_publish_are_found_and_find(tmp_path: Path) -> None:
    with trio.fail_after(LIMIT_S):
        async with right_node(1, tmp_path) as manager, right_node(2, tmp_path, *manager.multiaddrs) as other:
            state = RunStateRecord(epoch=1, open_step=3, policy_version=2, manifest_hash=b"m" * 32)
            manager.announce_run_state(state)
            for number, network in ((1, manager), (2, other)):
                await network.announce_node(peer_id=PEER, roles=["relay"], multiaddrs=[f"/ip4/127.0.0.1/tcp/{number}"])
            for number, skew_s in enumerate(SKEWS_S, 3):
                await meet(number, skew_s, tmp_path, manager, other)


async def meet(number: int, skew_s: float, tmp_path: Path, manager: Network, other: Network) -> None:
    bootstrap = (*manager.multiaddrs, *other.multiaddrs)
    async with skewed_node(number, skew_s, tmp_path, *bootstrap) as (told, log):
        assert told["wall_s"] - time.time() == pytest.approx(skew_s, abs=30 if abs(skew_s) > 60 else 1.5), skew_s
        assert told["offset_s"] == pytest.approx(-skew_s, abs=0.5), skew_s
        assert {account_of(1).address, account_of(2).address, told["address"]} <= set(told["found"]), skew_s
        assert told["run_state"], skew_s
        assert "this machine's clock is" in log.read_text(), skew_s
        assert ("ahead" if skew_s > 0 else "behind") in log.read_text(), skew_s
        for network in (manager, other):
            (record,) = [r for r in await network.nodes() if r.subject == told["address"]]
            assert record.expires_unix_s == pytest.approx(time.time() + 60, abs=30), skew_s
            assert len(await network.content.providers(bytes.fromhex(told["content"]))) == 1, skew_s


async def test_the_first_node_has_only_the_chain_to_ask_and_takes_its_time_when_an_hour_off(tmp_path: Path) -> None:
    with trio.fail_after(LIMIT_S):
        wrong = ClockSample(offset_s=-3600.0, error_s=0.5)
        async with right_node(1, tmp_path, chain_clock=wrong) as first:
            assert first.clock.offset_s == pytest.approx(-3600.0, abs=0.5)
            # A second one joins it whose clock is right by that network's time: it is left as it is.
            async with skewed_node(3, -3600, tmp_path, *first.multiaddrs, chain_offset_s=0.0, wanted=1) as (told, _):
                assert told["offset_s"] == pytest.approx(0.0, abs=0.5)
                assert told["address"] in [record.subject for record in await first.nodes()]


async def test_a_bootstrap_peer_whose_time_chain_and_own_clock_contradict_is_not_followed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with trio.fail_after(LIMIT_S):
        wrong = ClockSample(offset_s=7200.0, error_s=0.5)
        right = ClockSample(offset_s=0.0, error_s=0.5)
        async with (
            right_node(1, tmp_path, chain_clock=wrong) as liar,
            right_node(2, tmp_path, *liar.multiaddrs, chain_clock=right) as honest,
        ):
            assert abs(liar.clock.offset_s) > 7000
            assert honest.clock.offset_s == pytest.approx(0.0, abs=0.5)
            assert "contradict" in caplog.text


async def test_a_restarted_directory_child_is_told_the_time_that_was_found_out(tmp_path: Path) -> None:
    with trio.fail_after(LIMIT_S):
        right = ClockSample(offset_s=0.0, error_s=0.5)
        async with right_node(1, tmp_path, chain_clock=right) as alone:
            await alone.correct_clock(-30.0)
            killed = alone._link.pid
            assert killed is not None
            os.kill(killed, signal.SIGKILL)
            while alone._link.pid in (None, killed):
                await trio.sleep(0.05)
            assert (await alone._link.call("clock"))["offset_s"] == pytest.approx(-30.0, abs=0.5)
            assert alone.clock.offset_s == pytest.approx(-30.0, abs=0.5)
