"""The contract of every Directory, as checks over two directories of one network.

Run against memory and against Kademlia. A check may publish under the accounts of the bench only, and leaves later
checks its higher sequences.
"""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

import msgpack
import pytest
from eth_account.signers.local import LocalAccount

from dht.directory import Directory, PublishRefused
from dht.keys import node_key, node_keys, provider_key, run_state_key
from dht.records import (
    MAX_LIFETIME_S,
    NodeRecord,
    ProviderRecord,
    RecordBody,
    RecordInvalid,
    RunStateRecord,
    SignedRecord,
    sign_record,
)
from dht.signing import RecordDomain

EPOCH = 1
PEER = "12D3KooWGRUQUDYqLRHnYXYzbTRHgTgWzgcvHWDXYLtMJpVqSQfX"


@dataclass(kw_only=True)
class Bench:
    """Two directories, the manager (accounts[0], lease EPOCH), two members, a clock in unix seconds, a way to wait."""

    here: Directory
    there: Directory
    accounts: list[LocalAccount]
    domain: RecordDomain
    clock: Callable[[], float]
    until: Callable[[Callable[[], Awaitable[bool]]], Awaitable[None]]
    sequence: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    def sign(self, body: RecordBody, account: LocalAccount, lifetime_s: float = 60, **changes: object) -> SignedRecord:
        record = sign_record(
            body, domain=self.domain, account=account, sequence=next(self.sequence),
            expires_unix_s=int(self.clock() + lifetime_s) + 1,
        )  # fmt: skip
        return replace(record, **changes)

    def node(self, number: int, **changes: object) -> NodeRecord:
        body = NodeRecord(address=self.accounts[number].address, peer_id=PEER, roles=(), multiaddrs=(), bulk_url="")
        return replace(body, **changes)

    def provider(self, number: int, content: bytes) -> ProviderRecord:
        return ProviderRecord(
            address=self.accounts[number].address, content=content, bulk_url=f"http://127.0.0.1:{number + 1}"
        )


async def publish_and_discover(bench: Bench) -> None:
    assert await bench.there.lookup(provider_key(bench.domain.run_id, b"?" * 32)) == ()
    first, second = (bench.sign(bench.node(number), bench.accounts[number]) for number in (0, 1))
    await bench.here.publish(first)
    await bench.there.publish(second)
    for directory in (bench.here, bench.there):
        found = await directory.lookup(*node_keys(bench.domain.run_id))
        assert sorted(found, key=str) == sorted((first, second), key=str)
        for record in (first, second):
            assert await directory.lookup(node_key(bench.domain.run_id, record.subject)) == (record,)


async def keys_do_not_mix(bench: Bench) -> None:
    records = [bench.sign(bench.provider(1, content), bench.accounts[1]) for content in (b"a" * 32, b"b" * 32)]
    for record in records:
        await bench.here.publish(record)
        assert await bench.there.lookup(record.key) == (record,)


async def refresh_and_the_higher_sequence_wins(bench: Bench) -> None:
    old = bench.sign(bench.node(1), bench.accounts[1])
    new = bench.sign(bench.node(1, roles=("relay",)), bench.accounts[1])  # within the same second
    await bench.here.publish(old)
    await bench.here.publish(new)
    for directory in (bench.here, bench.there):
        found = [r for r in await directory.lookup(old.key) if r.subject == old.subject]
        assert found == [new]
    with pytest.raises(PublishRefused, match="newer"):
        await bench.there.publish(old)
    later = bench.sign(bench.node(1), bench.accounts[1], lifetime_s=90)
    await bench.there.publish(later)
    assert later in await bench.here.lookup(old.key)


async def run_state_comes_from_the_manager_only(bench: Bench) -> None:
    key = run_state_key(bench.domain.run_id)
    for step in (1, 2):
        state = RunStateRecord(epoch=EPOCH, open_step=step, policy_version=0, manifest_hash=b"m" * 32)
        await bench.here.publish(bench.sign(state, bench.accounts[0]))
    usurper = bench.sign(
        RunStateRecord(epoch=EPOCH, open_step=9, policy_version=9, manifest_hash=b"x" * 32), bench.accounts[1]
    )
    with pytest.raises(RecordInvalid, match="manager"):
        await bench.there.publish(usurper)
    (found,) = await bench.there.lookup(key)
    assert found.content == RunStateRecord(epoch=EPOCH, open_step=2, policy_version=0, manifest_hash=b"m" * 32)


async def bad_records_are_refused_on_put(bench: Bench) -> None:
    honest = bench.sign(bench.node(2), bench.accounts[2])
    forged_body = msgpack.packb([bench.accounts[2].address, PEER, ["trainer"], [], "", b"", b""])
    foreign = sign_record(
        bench.node(2), domain=replace(bench.domain, run_id=b"q" * 32), account=bench.accounts[2], sequence=1,
        expires_unix_s=honest.expires_unix_s,
    )  # fmt: skip
    for bad in (
        replace(honest, signature=b""), replace(honest, body=forged_body), foreign,
        replace(honest, subject=bench.accounts[1].address), replace(honest, body=bytes(20_000)),
        bench.sign(bench.node(2), bench.accounts[2], lifetime_s=MAX_LIFETIME_S + 60),
        bench.sign(bench.node(2), bench.accounts[2], lifetime_s=-60),
    ):  # fmt: skip
        with pytest.raises(RecordInvalid):
            await bench.here.publish(bad)
    found = await bench.there.lookup(honest.key)
    assert bench.accounts[2].address not in [record.subject for record in found]


async def unrefreshed_records_expire(bench: Bench) -> None:
    dead = bench.sign(bench.provider(1, b"d" * 32), bench.accounts[1], lifetime_s=2)
    await bench.here.publish(dead)
    assert await bench.there.lookup(dead.key) == (dead,)

    async def gone() -> bool:
        return await bench.there.lookup(dead.key) == () and await bench.here.lookup(dead.key) == ()

    await bench.until(gone)
    assert bench.clock() >= dead.expires_unix_s


CHECKS = (
    publish_and_discover, keys_do_not_mix, refresh_and_the_higher_sequence_wins,
    run_state_comes_from_the_manager_only, bad_records_are_refused_on_put, unrefreshed_records_expire,
)  # fmt: skip
