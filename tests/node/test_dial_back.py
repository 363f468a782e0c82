"""A relay that dials back, over real libp2p hosts, and those who would abuse it."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio

from node.dial_back import (
    DIAL_BACK_PROTOCOL,
    DIALS_PER_HOST,
    DialQuota,
    ask_dial_back,
    hosts_of,
    serve_dial_back,
)
from node.peer_key import make_peer_key
from node.streams import BadReply, Peer, RemoteError, open_peer

LISTEN = "/ip4/127.0.0.1/tcp/0"
SHORT_S = 0.5


@asynccontextmanager
async def asker_and_relay(timeout_s: float = SHORT_S, **limits: Any) -> AsyncIterator[tuple[Peer, Peer, str]]:
    async with (
        open_peer(make_peer_key(b"\1" * 32), LISTEN) as asker,
        open_peer(make_peer_key(b"\2" * 32), LISTEN) as relay,
    ):
        serve_dial_back(relay, quota=DialQuota(**limits), timeout_s=timeout_s)
        yield asker, relay, relay.multiaddrs[0]


def port_of(peer: Peer) -> int:
    return int(peer.multiaddrs[0].split("/")[4])


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


@asynccontextmanager
async def victim(reply: bytes = b"") -> AsyncIterator[tuple[int, list[bytes]]]:
    """Somebody else's TCP service; what was sent to it. Answers with `reply`, or never."""
    heard: list[bytes] = []

    async def serve(stream: trio.SocketStream) -> None:
        heard.append(b"")
        async with stream:
            try:
                if reply:
                    await stream.send_all(reply)
                async for data in stream:
                    heard[-1] += data
            except trio.BrokenResourceError:
                return  # the caller had enough

    async with trio.open_nursery() as nursery:
        (listener,) = await nursery.start(partial(trio.serve_tcp, serve, 0, host="127.0.0.1"))
        yield listener.socket.getsockname()[1], heard
        nursery.cancel_scope.cancel()


async def test_a_listening_peer_is_reached_and_keeps_its_connection() -> None:
    async with asker_and_relay(timeout_s=10) as (asker, relay, address):
        for _ in range(2):
            answer = await ask_dial_back(asker, address, port_of(asker))
            assert (answer.host, answer.reached) == ("127.0.0.1", True)
        assert hosts_of(relay, asker.peer_id) == ["127.0.0.1"]


async def test_closed_silent_and_foreign_ports_all_look_alike() -> None:
    async with (
        asker_and_relay(in_all=20, per_host=20) as (asker, _, address),
        victim() as (silent, _),
        victim(b"SSH-2.0-OpenSSH_9.2p1\r\n" * 50) as (talkative, _),
        open_peer(make_peer_key(b"\3" * 32), LISTEN) as other,
    ):
        took_s = []
        for port in (closed_port(), silent, talkative, port_of(other)):
            began_s = trio.current_time()
            answer = await ask_dial_back(asker, address, port)
            took_s.append(trio.current_time() - began_s)
            assert answer.reached is False, port
        assert all(seconds >= SHORT_S for seconds in took_s), took_s


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"port": 22},
        {"port": 0},
        {"port": 65536},
        {"port": "4001"},
        {"port": True},
        {"port": 4001.0},
        {"port": 4001, "host": "127.0.0.2"},
        {"port": 4001, "multiaddr": "/ip4/127.0.0.2/tcp/4001"},
        {"port": 4001, "peer_id": "Qm"},
        {"multiaddr": "/ip4/127.0.0.2/tcp/4001"},
    ],
    ids=str,
)
async def test_nobody_can_name_a_third_party_or_a_low_port(message: dict[str, Any]) -> None:
    async with asker_and_relay() as (asker, _, address):
        with pytest.raises(RemoteError, match="malformed"):
            await asker.request(address, DIAL_BACK_PROTOCOL, message, 10)


async def test_what_an_asker_announces_about_itself_is_not_dialled() -> None:
    """The peer store may hold any address of a peer: only the connection's own counts."""
    async with asker_and_relay() as (asker, relay, address), victim() as (port, heard):
        from libp2p.peer.id import ID
        from multiaddr import Multiaddr

        store = relay.host.get_peerstore()
        store.add_addrs(ID.from_base58(asker.peer_id), [Multiaddr(f"/ip4/127.0.0.1/tcp/{port}")], 600)
        assert (await ask_dial_back(asker, address, closed_port())).reached is False
        assert heard == []


async def test_a_flood_is_refused_without_a_dial_and_others_are_served() -> None:
    async with asker_and_relay(timeout_s=3) as (asker, relay, address), victim() as (port, heard):
        codes: list[str] = []

        async def ask() -> None:
            try:
                await ask_dial_back(asker, address, port)
                codes.append("dialled")
            except RemoteError as error:
                codes.append(error.code)

        async def echo(remote: str, message: dict[str, Any]) -> dict[str, Any]:
            return message

        relay.handle("/test/echo/1", echo, 100)
        async with (
            open_peer(make_peer_key(b"\3" * 32), LISTEN) as other,
            trio.open_nursery() as nursery,
        ):
            for _ in range(30):
                nursery.start_soon(ask)
            assert await other.request(address, "/test/echo/1", {"n": 1}, 10) == {"n": 1}
        assert codes.count("dialled") == DIALS_PER_HOST == len(heard)
        assert set(codes) == {"dialled", "too-often", "busy"}


async def test_a_slow_reader_holds_up_nobody() -> None:
    """It asks and takes no answer; a second peer is answered meanwhile."""
    async with asker_and_relay(in_all=20, per_host=20) as (asker, relay, address):
        from libp2p.custom_types import TProtocol
        from libp2p.peer.peerinfo import info_from_p2p_addr
        from multiaddr import Multiaddr

        from node.stream_frames import encode_message

        info = info_from_p2p_addr(Multiaddr(address))
        await asker.host.connect(info)
        for number in range(5):
            stream = await asker.host.new_stream(info.peer_id, [TProtocol(DIAL_BACK_PROTOCOL)])
            await stream.write(encode_message({"id": number, "body": {"port": port_of(asker)}}, 256))
        async with open_peer(make_peer_key(b"\3" * 32), LISTEN) as other:
            with trio.fail_after(20):
                assert (await ask_dial_back(other, address, port_of(other))).reached is True
        with trio.fail_after(20):
            while relay._places.taken:
                await trio.sleep(0.01)


@pytest.mark.parametrize("reply", [{}, {"host": "x", "reached": True}, {"host": "1.2.3.4", "reached": 1}], ids=str)
async def test_a_relay_that_answers_nonsense_is_named(reply: dict[str, Any]) -> None:
    async with asker_and_relay() as (asker, relay, address):

        async def answer(remote: str, message: dict[str, Any]) -> dict[str, Any]:
            return reply

        relay.handle(DIAL_BACK_PROTOCOL, answer, 256)
        with pytest.raises(BadReply):
            await ask_dial_back(asker, address, 4001)


def test_the_quota_is_per_host_in_all_and_per_window() -> None:
    quota = DialQuota(per_host=2, in_all=3, window_s=60)
    assert [quota.take("a", s) for s in (0, 1, 2)] == [True, True, False]
    assert [quota.take("b", 3), quota.take("c", 4)] == [True, False]
    assert quota.take("c", 60)  # the first is forgotten
    assert not quota.take("c", 60.5)
    assert quota.take("a", 61)
    crowd = DialQuota(per_host=1, in_all=5)
    assert sum(crowd.take(str(host), 0.0) for host in range(100_000)) == 5
    assert len(crowd._dials) == 5
