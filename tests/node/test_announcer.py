"""How this node's own records are dated, by a clock that is put right while it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from eth_account import Account

from dht.clock import NetworkClock
from dht.records import MAX_LIFETIME_S, Authority, RunStateRecord, open_record
from dht.signing import RecordDomain
from node.announcer import Announcer
from node.state import NodeState

ME = Account.from_key(b"\1" * 32)
DOMAIN = RecordDomain(chain_id=31337, contract=ME.address, salt=b"s" * 32, run_id=b"r" * 32)
TRUE_S = 1_900_000_000.0
AUTHORITY = Authority(manager=ME.address, epoch=1)
BODY = RunStateRecord(epoch=1, open_step=1, policy_version=0, manifest_hash=b"m" * 32)


class Link:
    """A dhtd that keeps what is published, judged by the true time."""

    def __init__(self) -> None:
        self.now_s = TRUE_S
        self.kept: list[Any] = []

    async def call(self, method: str, *, records: list[bytes]) -> list[list[str]]:
        assert method == "publish"
        for data in records:
            self.kept.append(open_record(data, domain=DOMAIN, authority=AUTHORITY, now_unix_s=self.now_s))
        return [[] for _ in records]


def announcer(link: Link, path: Path, ahead_s: float) -> tuple[Announcer, NetworkClock]:
    clock = NetworkClock(wall=lambda: link.now_s + ahead_s, steady=lambda: link.now_s)
    made = Announcer(link, account=ME, domain=DOMAIN, lifetime_s=60, state=NodeState(path), clock=clock)  # type: ignore[arg-type]
    return made, clock


async def test_a_later_record_never_expires_before_an_earlier_one(tmp_path: Path) -> None:
    link = Link()
    made, clock = announcer(link, tmp_path, ahead_s=0)
    await made.announce(("run-state", b""), BODY)
    clock.correct(-20.0)
    await made.announce(("run-state", b""), BODY)
    link.now_s += 100
    await made.announce(("run-state", b""), BODY)
    assert [record.expires_unix_s - TRUE_S for record in link.kept] == [60, 60, 140]
    assert [a.sequence < b.sequence for a, b in zip(link.kept, link.kept[1:], strict=False)] == [True, True]


@pytest.mark.parametrize("ahead_s", [3600.0, 1e6])
async def test_what_was_dated_by_a_wrong_clock_binds_nobody(ahead_s: float, tmp_path: Path) -> None:
    link = Link()
    made, clock = announcer(link, tmp_path, ahead_s)
    assert made._sign(("run-state", b""), BODY).expires_unix_s > TRUE_S + MAX_LIFETIME_S  # which all would refuse
    clock.correct(-ahead_s)
    await made.announce(("run-state", b""), BODY)
    assert link.kept[0].expires_unix_s == TRUE_S + 60


async def test_the_first_sequence_is_taken_when_the_time_is_known(tmp_path: Path) -> None:
    link = Link()
    made, clock = announcer(link, tmp_path, ahead_s=-3600.0)
    clock.correct(3600.0)
    await made.announce(("run-state", b""), BODY)
    assert link.kept[0].sequence == int(TRUE_S * 1000)
