"""Orders: obeyed when the pool's manager gives them, once; each cheat refused by name; and what a log never shows."""

from __future__ import annotations

import json
import logging
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from dht.signing import RecordDomain
from node.log_ring import MAX_LINE_CHARS, MAX_LINES, LogRing, redact
from node.order_desk import AUDIT_FILE, OrderDesk
from node.orders import ORDER_LIFETIME_S, ORDERS_PROTOCOL, TOLERANCE_S, Kind, Order, sign_order
from node.peer_key import make_peer_key
from node.state import NodeState
from node.stream_errors import RemoteError
from node.streams import Refusal, open_peer
from tests.node.life_bench import DOMAIN, MANAGER, Wire, WirePeer, account, peer_id

NOW = 1_800_000_000.0
NODE, NODE_PEER, MANAGER_PEER = account(1), peer_id(1), peer_id(9)
LOGS = Order(
    kind=Kind.LOGS, lines=3, node=NODE.address, node_peer=NODE_PEER, manager_peer=MANAGER_PEER, sequence=5,
    expires_unix_s=int(NOW) + ORDER_LIFETIME_S,
)  # fmt: skip


@dataclass
class Desk:
    """One node's desk on a wire, and what it did."""

    folder: Path
    member: bool = True
    manager: str = MANAGER.address
    now_s: float = NOW
    restarts: int = 0
    wire: Wire = field(default_factory=Wire)
    ring: LogRing = field(default_factory=LogRing)

    def open(self, state: NodeState) -> OrderDesk:
        async def manager() -> str:
            return self.manager

        async def is_member() -> bool:
            return self.member

        desk = OrderDesk(
            state, self.ring, data_dir=self.folder, domain=DOMAIN, own_address=NODE.address, manager=manager,
            is_member=is_member, clock=lambda: self.now_s,
        )  # fmt: skip
        desk.restart_engine = self.restart
        desk.listen(WirePeer(self.wire, NODE_PEER))  # type: ignore[arg-type]
        return desk

    def restart(self) -> None:
        self.restarts += 1

    async def order(self, message: dict[str, Any], *, remote: str = MANAGER_PEER) -> dict[str, Any]:
        return await self.wire.handlers[NODE_PEER, ORDERS_PROTOCOL](remote, message)

    def audit(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / AUDIT_FILE).read_text().splitlines()]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    made = Desk(tmp_path)
    made.open(NodeState(tmp_path))
    for number in range(5):
        made.ring.handle(logging.LogRecord("node", logging.INFO, "", 0, f"line {number}", None, None))
    return made


def signed(order: Order = LOGS, *, domain: RecordDomain = DOMAIN, by: Any = MANAGER, **changes: Any) -> dict[str, Any]:
    return sign_order(replace(order, **changes), domain=domain, account=by)


async def test_the_manager_sees_the_last_lines_and_it_is_written_down(desk: Desk) -> None:
    reply = await desk.order(signed())
    assert [line.rsplit(" ", 2)[-2:] for line in reply["log"].splitlines()] == [["line", str(n)] for n in (2, 3, 4)]
    [line] = desk.audit()
    assert (line["kind"], line["order"], line["manager"], line["sequence"], line["outcome"]) == (
        "order", "logs", MANAGER.address, 5, "obeyed",
    )  # fmt: skip


async def test_the_manager_has_the_engine_started_again(desk: Desk) -> None:
    assert await desk.order(signed(kind=Kind.RESTART_ENGINE, lines=0)) == {"restarted": True}
    assert desk.restarts == 1


async def test_a_node_without_an_engine_says_so(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.open(NodeState(tmp_path)).restart_engine = None
    with pytest.raises(Refusal, match="no-engine"):
        await desk.order(signed(kind=Kind.RESTART_ENGINE, lines=0))
    assert [line["outcome"] for line in desk.audit()] == ["no-engine"]


async def test_a_recorded_order_never_works_again_not_even_after_a_restart(desk: Desk) -> None:
    message = signed(kind=Kind.RESTART_ENGINE, lines=0)
    await desk.order(message)
    for _ in range(2):
        with pytest.raises(Refusal, match="replayed"):
            await desk.order(message)
        desk.open(NodeState(desk.folder))  # the node starts again
    with pytest.raises(Refusal, match="replayed"):
        await desk.order(signed(sequence=4))
    assert desk.restarts == 1
    assert [line["outcome"] for line in desk.audit()] == ["obeyed", "replayed", "replayed", "replayed"]


@pytest.mark.parametrize(
    ("message", "remote", "code"),
    [
        (signed(by=account(2)), MANAGER_PEER, "not-the-manager"),
        (signed(by=NODE), MANAGER_PEER, "not-the-manager"),
        (signed(), peer_id(2), "not-yours"),  # the manager's own words, passed on by a third party
        (signed() | {"manager_peer": peer_id(2)}, peer_id(2), "not-the-manager"),
        (signed(node=account(2).address), MANAGER_PEER, "not-mine"),
        (signed(node_peer=peer_id(2)), MANAGER_PEER, "not-mine"),
        (signed() | {"lines": 4}, MANAGER_PEER, "not-the-manager"),
        (signed() | {"kind": "restart-engine"}, MANAGER_PEER, "not-the-manager"),
        (signed() | {"signature": b"x"}, MANAGER_PEER, "forged"),
        (signed(domain=replace(DOMAIN, run_id=b"q" * 32)), MANAGER_PEER, "not-the-manager"),
        (signed(domain=replace(DOMAIN, salt=b"q" * 32)), MANAGER_PEER, "not-the-manager"),
        (signed(domain=replace(DOMAIN, chain_id=1)), MANAGER_PEER, "not-the-manager"),
        (signed(domain=replace(DOMAIN, contract=NODE.address)), MANAGER_PEER, "not-the-manager"),
        (signed() | {"kind": "shell"}, MANAGER_PEER, "malformed"),
        (signed() | {"lines": MAX_LINES + 1}, MANAGER_PEER, "malformed"),
        (signed() | {"lines": -1}, MANAGER_PEER, "malformed"),
        (signed() | {"sequence": True}, MANAGER_PEER, "malformed"),
        (signed() | {"node": "x" * 129}, MANAGER_PEER, "malformed"),
        (signed() | {"more": 1}, MANAGER_PEER, "malformed"),
        ({}, MANAGER_PEER, "malformed"),
    ],
)
async def test_orders_of_others_are_refused_with_the_reason(
    desk: Desk, message: dict[str, Any], remote: str, code: str
) -> None:
    with pytest.raises(Refusal) as refused:
        await desk.order(message, remote=remote)
    assert refused.value.code == code
    assert desk.audit() == [], "strangers do not fill the disk"


@pytest.mark.parametrize(("skew_s", "obeyed"), [(0, True), (TOLERANCE_S + 60, True), (TOLERANCE_S + 61, False),
                                                (-TOLERANCE_S, True), (-TOLERANCE_S - 1, False)])  # fmt: skip
async def test_an_order_runs_out_by_the_receivers_clock_with_tolerance(desk: Desk, skew_s: float, obeyed: bool) -> None:
    desk.now_s = NOW + skew_s
    if obeyed:
        await desk.order(signed())
    else:
        with pytest.raises(Refusal, match="expired"):
            await desk.order(signed())


async def test_only_a_member_obeys_and_only_the_manager_of_today(desk: Desk) -> None:
    desk.member = False
    with pytest.raises(Refusal, match="not-a-member"):
        await desk.order(signed())
    desk.member, desk.manager = True, account(3).address
    with pytest.raises(Refusal, match="not-the-manager"):
        await desk.order(signed(sequence=6))
    await desk.order(signed(sequence=1, by=account(3)))


async def test_nothing_that_a_node_answers_is_a_signature_over_what_it_was_sent(desk: Desk) -> None:
    """A peer hands over a challenge of a third party: whatever it wraps it in, it gets a refusal or log lines back."""
    challenge = "0x" + "ab" * 32
    for message in ({"challenge": challenge}, signed() | {"kind": challenge}, signed() | {"signature": b"\xab" * 32}):
        with pytest.raises(Refusal):
            await desk.order(message)
    reply = await desk.order(signed())
    assert set(reply) == {"log"}


async def test_over_real_streams(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    listen = "/ip4/127.0.0.1/tcp/0"
    async with (
        open_peer(make_peer_key(b"\1" * 32), listen) as node,
        open_peer(make_peer_key(b"\x09" * 32), listen) as manager,
        open_peer(make_peer_key(b"\2" * 32), listen) as stranger,
    ):
        with closing(NodeState(tmp_path)) as state:
            desk.open(state).listen(node)
            desk.ring.handle(logging.LogRecord("node", logging.INFO, "", 0, "x" * 1000, None, None))
            for _ in range(300):
                desk.ring.handle(logging.LogRecord("node", logging.INFO, "", 0, "ünïcode " * 40, None, None))
            where = node.multiaddrs[0]
            reply = await manager.request(where, ORDERS_PROTOCOL, signed(lines=MAX_LINES), 20)
            assert len(reply["log"].splitlines()) == MAX_LINES
            with pytest.raises(RemoteError, match="not-yours"):
                await stranger.request(where, ORDERS_PROTOCOL, signed(sequence=6), 20)


SECRET = "a1" * 32


@pytest.mark.parametrize(
    "line",
    [
        f"key 0x{SECRET}", f"key {SECRET.upper()}", f"http://user:{SECRET}@chain.example/x", "password=hunter2hunter2",
        "rpc https://eth.example/v2/hunter2hunter2 failed", "wss://eth.example/?key=hunter2hunter2",
        "Authorization: Bearer hunter2hunter2", '{"api_key": "hunter2hunter2"}', "wallet_password: 'hunter2hunter2'",
        "TOKEN=hunter2hunter2;", "seed = hunter2hunter2", "private-key: hunter2hunter2",
        f"https://eth.example/{SECRET}", "x " * 3000 + SECRET[:40], "x" * 10_000 + "password=hunter2hunter2",
    ],
)  # fmt: skip
def test_secrets_are_not_shown(line: str) -> None:
    shown = redact(line)
    assert "hunter2" not in shown
    assert SECRET not in shown.lower()
    assert len(shown) <= MAX_LINE_CHARS


def test_what_helps_is_shown() -> None:
    for line in ("step 3 has 2 of 10 groups", "no chain at http://10.0.0.1:8545", f"peer {NODE_PEER} {NODE.address}"):
        assert redact(line) == line
    assert redact("rpc https://eth.example/v2/abc failed") == "rpc https://eth.example failed"
    assert "\x1b" not in redact("\x1b[31mred")


def test_the_ring_is_bounded_and_keeps_the_newest() -> None:
    ring = LogRing()
    for number in range(3 * MAX_LINES):
        ring.handle(logging.LogRecord("node", logging.INFO, "", 0, f"{number}\nmore", None, None))
    assert len(ring.last(10**6)) == MAX_LINES
    assert ring.last(2)[0].endswith(str(3 * MAX_LINES - 1))
    assert ring.last(0) == []
