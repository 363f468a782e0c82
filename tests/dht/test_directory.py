"""MemoryDirectory keeps the contract, distrusts the network it reads, and forgets a killed node in time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

import msgpack
import pytest
import trio
from eth_account.signers.local import LocalAccount

from dht.directory import MemoryDirectory, MemoryNetwork
from dht.keys import node_key, node_keys, run_state_key
from dht.records import (
    CLOCK_TOLERANCE_S,
    DEFAULT_LIFETIME_S,
    Authority,
    RecordInvalid,
    RunStateRecord,
    encode_record,
)
from dht.signing import RecordDomain
from tests.dht.directory_contract import CHECKS, EPOCH, PEER, Bench


class Clock:
    now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def network() -> MemoryNetwork:
    return MemoryNetwork()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def bench(network: MemoryNetwork, clock: Clock, accounts: list[LocalAccount], domain: RecordDomain) -> Bench:
    async def until(condition: Callable[[], Awaitable[bool]]) -> None:
        for _ in range(20):
            if await condition():
                return
            clock.now += 1
        raise AssertionError("never came true")

    authority = Authority(manager=accounts[0].address, epoch=EPOCH)
    here, there = (MemoryDirectory(network, domain=domain, authority=authority, clock=clock) for _ in range(2))
    return Bench(here=here, there=there, accounts=accounts, domain=domain, clock=clock, until=until)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_contract(bench: Bench, check: Callable[[Bench], Awaitable[None]]) -> None:
    trio.run(check, bench)


def test_bad_records_are_refused_on_get(bench: Bench, network: MemoryNetwork) -> None:
    subject = bench.accounts[1].address
    key = node_key(bench.domain.run_id, subject)
    honest = bench.sign(bench.node(1), bench.accounts[1])
    forged = replace(honest, body=msgpack.packb([subject, PEER, ["trainer"], [], ""]))
    misplaced = bench.sign(bench.provider(1, b"c" * 32), bench.accounts[1])
    eternal = bench.sign(bench.node(1), bench.accounts[1], lifetime_s=1e9)
    for bad in (b"", b"\xc1", bytes(20_000), *map(encode_record, (forged, misplaced, eternal))):
        network.entries[key] = {subject: (bench.clock() + 60, bad)}
        assert trio.run(bench.there.lookup, key) == ()
    network.entries[key] = {"whatever": (bench.clock() + 60, encode_record(honest))}
    assert trio.run(bench.there.lookup, key) == (honest,)


def test_a_killed_node_is_gone_within_its_lifetime(bench: Bench, clock: Clock) -> None:
    async def story() -> None:
        killed_at = clock.now
        await bench.here.publish(bench.sign(bench.node(1), bench.accounts[1], lifetime_s=DEFAULT_LIFETIME_S))
        for _ in range(3):  # the other one refreshes at a third of the lifetime
            clock.now += DEFAULT_LIFETIME_S / 3
            await bench.there.publish(bench.sign(bench.node(2), bench.accounts[2], lifetime_s=DEFAULT_LIFETIME_S))
        clock.now = killed_at + DEFAULT_LIFETIME_S + CLOCK_TOLERANCE_S
        found = await bench.there.lookup(*node_keys(bench.domain.run_id))
        assert [record.subject for record in found] == [bench.accounts[2].address]

    trio.run(story)


def test_who_manages_may_change_and_the_former_manager_is_not_heard_any_more(
    bench: Bench, domain: RecordDomain
) -> None:
    async def story() -> None:
        key = run_state_key(domain.run_id)
        old = RunStateRecord(epoch=EPOCH, open_step=1, policy_version=0, manifest_hash=b"m" * 32)
        await bench.here.publish(bench.sign(old, bench.accounts[0]))
        bench.there.authority = Authority(manager=bench.accounts[1].address, epoch=EPOCH + 1)
        assert await bench.there.lookup(key) == ()
        with pytest.raises(RecordInvalid, match="manager"):
            await bench.there.publish(bench.sign(old, bench.accounts[0]))
        with pytest.raises(RecordInvalid, match="lease 1"):
            await bench.there.publish(bench.sign(old, bench.accounts[1]))
        new = bench.sign(replace(old, epoch=EPOCH + 1), bench.accounts[1])
        await bench.there.publish(new)
        assert await bench.there.lookup(key) == (new,)

    trio.run(story)
