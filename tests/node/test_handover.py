"""A submission's way to a relay: whom the relay believes, and whom the worker asks next."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from dht.records import NodeRecord, RunStateRecord, SignedRecord
from ledger.types import Bar, Member, Role
from node.evidence import MAX_EVIDENCE_BYTES
from node.handover import COPIES, EVIDENCE_PROTOCOL, SUBMISSION_PROTOCOL, hand_over, hand_over_evidence
from node.membership import Blacklisted
from node.metrics import MetricsLog, MetricsTail
from node.reception import EVIDENCE_BURST, EVIDENCE_PER_S, Reception
from node.streams import PeerUnreachable, Refusal, RemoteError

WORKER, RELAY, OTHER = "0x" + "11" * 20, "0x" + "22" * 20, "0x" + "33" * 20
DATA = b"PAR1 rollouts"
SHA256 = hashlib.sha256(DATA).digest()
EVIDENCE = b'{"block":7}'


def record(address: str, peer_id: str, role: str, multiaddrs: tuple[str, ...] = ("/ip4/127.0.0.1/tcp/1",)) -> Any:
    content = NodeRecord(address=address, peer_id=peer_id, roles=(role,), multiaddrs=multiaddrs, bulk_url="")
    return signed(address, content)


def signed(subject: str, content: Any) -> SignedRecord:
    return SignedRecord(
        run_id=b"r" * 32, kind="node", key="k", subject=subject, body=b"", sequence=1, expires_unix_s=1,
        signature=b"", content=content,
    )  # fmt: skip


@dataclass
class FakeNetwork:
    """A directory and a store of blobs."""

    known: list[SignedRecord]
    blobs: list[bytes] = field(default_factory=list)
    announced: list[bytes] = field(default_factory=list)

    async def nodes(self) -> tuple[SignedRecord, ...]:
        return tuple(self.known)

    async def node(self, address: str) -> NodeRecord | None:
        found = [r.content for r in self.known if r.subject == address]
        return found[0] if found and isinstance(found[0], NodeRecord) else None

    @property
    def content(self) -> FakeNetwork:
        return self

    async def add_blob(self, data: bytes, *, announce: bool = True) -> bytes:
        self.blobs.append(data)
        self.announced += [data] if announce else []
        return hashlib.sha256(data).digest()

    async def remove_blob(self, sha256: bytes) -> None:
        self.blobs = [data for data in self.blobs if hashlib.sha256(data).digest() != sha256]


@dataclass
class FakeLedger:
    role: Role = Role.WORKER
    active: bool = True
    bar: Bar = Bar.NONE

    def member(self, pool_id: int, address: str) -> Member:
        assert pool_id == 3
        if address == RELAY:
            return standing(address, Role.RELAY, True, Bar.NONE)
        return standing(address, self.role, self.active, self.bar)


def standing(address: str, role: Role, active: bool, bar: Bar) -> Member:
    return Member(address=address, role=role, active=active, since_unix_s=0, epoch=0, used=1, bar=bar)


class FakePeer:
    """The worker's host: relays by multiaddr, each a reply, a fault, or a list of them for one request each.

    The relay's host: keeps its handler.
    """

    def __init__(self, relays: dict[str, Any] | None = None) -> None:
        self.relays, self.asked = relays or {}, []  # type: ignore[var-annotated]

    def handle(self, protocol: str, handler: Any, max_bytes: int) -> None:
        if protocol == EVIDENCE_PROTOCOL:
            self.receive_evidence, self.max_evidence_bytes = handler, max_bytes
        else:
            assert protocol == SUBMISSION_PROTOCOL
            self.receive, self.max_bytes = handler, max_bytes

    async def request(self, multiaddr: str, protocol: str, message: dict[str, Any], **_: Any) -> dict[str, Any]:
        assert (protocol, message) in (
            (SUBMISSION_PROTOCOL, {"address": WORKER, "data": DATA}),
            (EVIDENCE_PROTOCOL, {"address": WORKER, "data": EVIDENCE}),
        )
        self.asked.append(multiaddr)
        reply = self.relays[multiaddr]
        if isinstance(reply, list):
            reply = reply.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return reply


@dataclass
class Relay:
    """A relay of fakes that takes files of up to 100 bytes and keeps two."""

    network: FakeNetwork
    peer: FakePeer
    tail: MetricsTail


@pytest.fixture
def relay(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Relay]:
    ledger = getattr(request, "param", FakeLedger())
    network, peer = FakeNetwork([record(WORKER, "peer-1", "worker"), record(OTHER, "peer-2", "worker")]), FakePeer()
    log = MetricsLog(tmp_path / "metrics.jsonl")
    reception = Reception(ledger, network, log, pool_id=3, max_bytes=100, max_files=2, max_evidence=3)  # type: ignore[arg-type]
    reception.listen(peer)  # type: ignore[arg-type]
    yield Relay(network, peer, MetricsTail(tmp_path / "metrics.jsonl"))
    log.close()


async def test_a_workers_file_is_stored_and_acknowledged_by_its_hash(relay: Relay) -> None:
    assert await relay.peer.receive("peer-1", {"address": WORKER, "data": DATA}) == {"sha256": SHA256}
    assert relay.network.blobs == [DATA]
    [line] = relay.tail.read()
    assert (line["kind"], line["node"], line["file_hash"]) == ("received", WORKER, SHA256.hex())
    assert relay.peer.max_bytes > 100


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"address": WORKER},
        {"address": WORKER, "data": b""},
        {"address": WORKER, "data": b"x" * 101},
        {"address": WORKER, "data": "text"},
        {"address": WORKER.encode(), "data": DATA},
        {"address": None, "data": DATA},
    ],
)
async def test_malformed_and_too_large_messages_are_refused(relay: Relay, message: dict[str, Any]) -> None:
    with pytest.raises(Refusal, match="malformed"):
        await relay.peer.receive("peer-1", message)
    assert relay.network.blobs == []


@pytest.mark.parametrize(("remote", "address"), [("peer-2", WORKER), ("peer-9", WORKER), ("peer-1", "0x" + "44" * 20)])
async def test_a_peer_speaks_only_for_the_address_whose_record_names_it(
    relay: Relay, remote: str, address: str
) -> None:
    with pytest.raises(Refusal, match="unknown"):
        await relay.peer.receive(remote, {"address": address, "data": DATA})
    assert relay.network.blobs == []


async def test_records_of_another_kind_tie_nobody(relay: Relay) -> None:
    state = RunStateRecord(epoch=1, open_step=0, policy_version=0, manifest_hash=b"m" * 32)
    relay.network.known = [signed(WORKER, state)]
    with pytest.raises(Refusal, match="unknown"):
        await relay.peer.receive("peer-1", {"address": WORKER, "data": DATA})


@pytest.mark.parametrize(
    "relay",
    [FakeLedger(active=False), FakeLedger(active=False, bar=Bar.BY_VERDICT), FakeLedger(role=Role.VALIDATOR)],
    indirect=True,
)
async def test_only_active_workers_of_the_pool_may_submit(relay: Relay) -> None:
    with pytest.raises(Refusal, match="not-a-member"):
        await relay.peer.receive("peer-1", {"address": WORKER, "data": DATA})
    assert relay.network.blobs == []


async def test_the_newest_files_are_kept_and_the_same_one_once(relay: Relay) -> None:
    for number in (b"1", b"2", b"2", b"3"):
        await relay.peer.receive("peer-1", {"address": WORKER, "data": b"PAR1" + number})
    assert set(relay.network.blobs) == {b"PAR12", b"PAR13"}


async def test_attack_a_copier_does_not_push_the_copied_file_out(relay: Relay) -> None:
    relay.network.known = [record(WORKER, "peer-1", "worker"), record(OTHER, "peer-2", "worker")]
    await relay.peer.receive("peer-1", {"address": WORKER, "data": DATA})
    for data in (DATA, b"PAR1a", b"PAR1b", b"PAR1c"):
        await relay.peer.receive("peer-2", {"address": OTHER, "data": data})
    assert DATA in relay.network.blobs


async def test_attack_what_is_no_parquet_file_is_not_stored(relay: Relay) -> None:
    with pytest.raises(Refusal, match="PAR1"):
        await relay.peer.receive("peer-1", {"address": WORKER, "data": b"a manifest, say"})
    assert relay.network.blobs == []


@pytest.mark.parametrize("relay", [FakeLedger(role=Role.VALIDATOR)], indirect=True)
async def test_a_validators_evidence_is_kept_but_not_announced(relay: Relay) -> None:
    reply = await relay.peer.receive_evidence("peer-1", {"address": WORKER, "data": EVIDENCE})
    assert reply == {"sha256": hashlib.sha256(EVIDENCE).digest()}
    assert (relay.network.blobs, relay.network.announced) == ([EVIDENCE], [])
    assert relay.tail.read() == []
    for number in range(3):
        await relay.peer.receive_evidence("peer-1", {"address": WORKER, "data": EVIDENCE + b"%d" % number})
    assert relay.network.blobs == [EVIDENCE + b"%d" % number for number in range(3)], "the newest three"


@pytest.mark.parametrize(
    ("relay", "data", "code"),
    [
        (FakeLedger(role=Role.VALIDATOR), DATA, "malformed"),
        (FakeLedger(role=Role.VALIDATOR), EVIDENCE.ljust(MAX_EVIDENCE_BYTES + 1), "malformed"),
        (FakeLedger(role=Role.VALIDATOR), b"", "malformed"),
        (FakeLedger(role=Role.WORKER), EVIDENCE, "not-a-member"),
        (FakeLedger(role=Role.VALIDATOR, active=False), EVIDENCE, "not-a-member"),
    ],
    indirect=["relay"],
)
async def test_attack_other_evidence_than_a_validators_is_refused(relay: Relay, data: bytes, code: str) -> None:
    with pytest.raises(Refusal, match=code):
        await relay.peer.receive_evidence("peer-1", {"address": WORKER, "data": data})
    assert relay.network.blobs == []


@pytest.mark.parametrize("relay", [FakeLedger(role=Role.VALIDATOR)], indirect=True)
async def test_attack_a_flood_of_evidence_is_slowed_down(relay: Relay, autojump_clock: trio.testing.MockClock) -> None:
    async def bring(number: int) -> None:
        await relay.peer.receive_evidence("peer-1", {"address": WORKER, "data": EVIDENCE + b"%d" % number})

    for number in range(EVIDENCE_BURST):
        await bring(number)
    with pytest.raises(Refusal, match="busy"):
        await bring(EVIDENCE_BURST)
    await trio.sleep(1 / EVIDENCE_PER_S)
    await bring(EVIDENCE_BURST)
    with pytest.raises(Refusal, match="busy"):
        await bring(EVIDENCE_BURST + 1)


def at(port: int) -> str:
    return f"/ip4/127.0.0.1/tcp/{port}"


async def give(tmp_path: Path, peer: FakePeer, ledger: FakeLedger | None = None) -> bytes:
    (tmp_path / "file").write_bytes(DATA)
    known = [record(RELAY, f"peer-{address}", "relay", (address,)) for address in peer.relays]
    # Not to be asked: a worker, a relay without an address, and one that only says it is a relay.
    known += [record(WORKER, "peer-1", "worker", (at(99),)), record(RELAY, "hidden", "relay", ())]
    known += [record(OTHER, "impostor", "relay", (at(98),))]
    return await hand_over(
        ledger or FakeLedger(), peer, FakeNetwork(known), tmp_path / "file", pool_id=3, address=WORKER,
        timeout_s=5.0,
    )  # type: ignore[arg-type] # fmt: skip


async def test_relays_are_asked_until_one_takes_the_file(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    peer = FakePeer(
        {
            at(1): PeerUnreachable(RELAY, "gone"),
            at(2): {"sha256": b"another file"},
            at(3): RemoteError(RELAY, "busy", "later"),
            at(4): {},
            at(5): [PeerUnreachable(RELAY, "starting"), PeerUnreachable(RELAY, "starting"), {"sha256": SHA256}],
        }
    )
    assert await give(tmp_path, peer) == SHA256
    assert peer.asked.count(at(5)) == 3
    assert peer.asked.count(at(1)) == 3
    assert not {at(98), at(99)} & set(peer.asked), "only relays of the pool are asked"


async def test_attack_a_relay_that_drops_what_it_acknowledged_is_not_the_only_one_that_has_it(tmp_path: Path) -> None:
    peer = FakePeer({at(port): {"sha256": SHA256} for port in range(1, 6)})
    assert await give(tmp_path, peer) == SHA256
    assert len(peer.asked) == len(set(peer.asked)) == COPIES == 2


async def test_evidence_goes_the_same_way(autojump_clock: trio.testing.MockClock) -> None:
    sha256 = hashlib.sha256(EVIDENCE).digest()
    peer = FakePeer({at(1): [RemoteError(RELAY, "busy", "later"), {"sha256": sha256}]})
    network = FakeNetwork([record(RELAY, "peer", "relay", (at(1),))])
    given = await hand_over_evidence(
        FakeLedger(), peer, network, EVIDENCE, pool_id=3, address=WORKER, timeout_s=5.0
    )  # type: ignore[arg-type] # fmt: skip
    assert given == sha256
    assert peer.asked == [at(1), at(1)]


async def test_a_blacklisted_worker_stops_asking(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    peer = FakePeer({at(1): [RemoteError(RELAY, "not-a-member", "only active workers")]})
    with pytest.raises(Blacklisted):
        await give(tmp_path, peer, FakeLedger(active=False, bar=Bar.BY_VERDICT))


async def test_a_worker_ejected_by_the_manager_asks_until_it_is_back(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    peer = FakePeer({at(1): [RemoteError(RELAY, "not-a-member", "ejected")] * 3 + [{"sha256": SHA256}]})
    assert await give(tmp_path, peer, FakeLedger(active=False)) == SHA256


async def test_a_relay_that_is_wrong_about_membership_is_asked_again(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    peer = FakePeer({at(1): [RemoteError(RELAY, "not-a-member", "not yet seen"), {"sha256": SHA256}]})
    assert await give(tmp_path, peer) == SHA256
