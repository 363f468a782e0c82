"""Two real libp2p hosts on the loopback interface, and peers that misbehave."""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import msgpack
import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st
from libp2p.abc import INetStream
from libp2p.custom_types import TProtocol
from libp2p.exceptions import BaseLibp2pError
from libp2p.host.exceptions import StreamFailure
from libp2p.peer.peerinfo import info_from_p2p_addr
from multiaddr import Multiaddr

from node import streams
from node.peer_key import make_peer_key
from node.stream_frames import MAX_MESSAGE_BYTES, MessageMalformed, MessageTooLarge, encode_message, read_message
from node.streams import BadReply, CannotListen, Peer, PeerTimeout, PeerUnreachable, Refusal, RemoteError, open_peer

ECHO = "/test/echo/1"
LISTEN = "/ip4/127.0.0.1/tcp/0"


@asynccontextmanager
async def pair(read_timeout_s: float = 5.0) -> AsyncIterator[tuple[Peer, Peer, str]]:
    """A client, a server that echoes at most 1 MiB, and the server's multiaddr."""
    async with (
        open_peer(make_peer_key(b"\1" * 32), LISTEN, read_timeout_s=read_timeout_s) as client,
        open_peer(make_peer_key(b"\2" * 32), LISTEN, read_timeout_s=read_timeout_s) as server,
    ):

        async def echo(remote: str, message: dict[str, Any]) -> dict[str, Any]:
            return {"from": remote, "got": message}

        server.handle(ECHO, echo, 1 << 20)
        yield client, server, server.multiaddrs[0]


async def raw_stream(client: Peer, address: str) -> INetStream:
    info = info_from_p2p_addr(Multiaddr(address))
    await client.host.connect(info)
    return await client.host.new_stream(info.peer_id, [TProtocol(ECHO)])


async def raw_reply(client: Peer, address: str, data: bytes) -> dict[str, Any]:
    with trio.fail_after(20):
        stream = await raw_stream(client, address)
        await stream.write(data)
        reply = await read_message(stream, 4096)
        await stream.reset()
        return reply


async def test_a_request_is_answered_and_names_the_authenticated_peer() -> None:
    async with pair() as (client, server, address):
        assert address.endswith(f"/p2p/{server.peer_id}")
        assert server.peer_id == make_peer_key(b"\2" * 32).peer_id
        reply = await client.request(address, ECHO, {"n": 1, "b": b"\0"}, 20)
        assert reply == {"from": client.peer_id, "got": {"n": 1, "b": b"\0"}}
        assert len({(await client.request(address, ECHO, {"n": n}, 20))["got"]["n"] for n in range(20)}) == 20


async def test_eight_mebibytes_both_ways() -> None:
    async with pair(30) as (client, server, address):

        async def echo(remote: str, message: dict[str, Any]) -> dict[str, Any]:
            return message

        server.handle("/test/large/1", echo, MAX_MESSAGE_BYTES)
        data = bytes(range(256)) * (8 << 12)
        assert (await client.request(address, "/test/large/1", {"d": data}, 60))["d"] == data
        with pytest.raises(MessageTooLarge):
            await client.request(address, ECHO, {"d": data + b"\0" * 8192}, 20)


async def test_errors_are_typed() -> None:
    async with pair() as (client, server, address):

        async def refuse(remote: str, message: dict[str, Any]) -> dict[str, Any]:
            raise Refusal("not-a-member", "join the pool first\n\x1b[31m")

        async def fail(remote: str, message: dict[str, Any]) -> dict[str, Any]:
            raise KeyError("/a/secret/path")

        async def unsendable(remote: str, message: dict[str, Any]) -> dict[str, Any]:
            return {"x": object()}

        async def never(remote: str, message: dict[str, Any]) -> dict[str, Any]:
            await trio.sleep_forever()
            raise AssertionError

        server.handle("/test/refuse/1", refuse, 4096)
        server.handle("/test/fail/1", fail, 4096)
        server.handle("/test/unsendable/1", unsendable, 4096)
        server.handle("/test/never/1", never, 4096, timeout_s=0.1)
        for name, code in (
            ("refuse", "not-a-member"),
            ("fail", "internal"),
            ("unsendable", "internal"),
            ("never", "timeout"),
        ):
            with pytest.raises(RemoteError) as caught:
                await client.request(address, f"/test/{name}/1", {}, 20)
            assert caught.value.code == code
            assert "secret" not in str(caught.value)
            assert "\x1b" not in str(caught.value)
        assert "got" in await client.request(address, ECHO, {}, 20)


async def test_a_long_request_is_refused_before_it_is_read() -> None:
    async with pair() as (client, _, address):
        with pytest.raises(RemoteError) as caught:
            await client.request(address, ECHO, {"d": bytes(4 << 20)}, 20)
        assert caught.value.code == "too-large"
        assert "got" in await client.request(address, ECHO, {}, 20)


async def test_a_reply_longer_than_asked_for_is_the_peers_fault() -> None:
    async with pair() as (client, _, address):
        with pytest.raises(BadReply, match="at most 100"):
            await client.request(address, ECHO, {"d": bytes(2000)}, 20, 100)
        assert "got" in await client.request(address, ECHO, {}, 20)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (struct.pack(">I", 0xFFFFFFFF), "too-large"),
        (struct.pack(">I", 100) + b"half a frame, then silence", "timeout"),
        (b"\0\0", "timeout"),
        (struct.pack(">I", 4) + b"\xc1\xc1\xc1\xc1", "malformed"),
        (struct.pack(">I", 1) + b"\x90", "malformed"),
        (struct.pack(">I", 5) + b"\xdd\xff\xff\xff\xff", "malformed"),
        (struct.pack(">I", 3) + msgpack.packb({1: 2}), "malformed"),
        (struct.pack(">I", 900) + b"\x91" * 900, "malformed"),
        (encode_message({"id": "x", "body": {}}, 100), "malformed"),
        (encode_message({"id": 1, "body": []}, 100), "malformed"),
    ],
)
async def test_a_hostile_request_gets_an_error_and_harms_nobody(data: bytes, code: str) -> None:
    async with pair(0.3 if code == "timeout" else 20) as (client, server, address):
        reply = await raw_reply(client, address, data)
        server.read_timeout_s = 20
        assert (reply["ok"], reply["code"]) == (False, code)
        assert "got" in await client.request(address, ECHO, {}, 20)
        with trio.fail_after(10):
            while server._places.taken:
                await trio.testing.wait_all_tasks_blocked()


async def test_garbage_and_resets_leave_the_server_serving() -> None:
    async with pair() as (client, _, address):
        for _ in range(5):
            stream = await raw_stream(client, address)
            await stream.write(b"\0\0\1")
            await stream.reset()
        async with await trio.open_tcp_stream("127.0.0.1", int(address.split("/")[4])) as tcp:
            await tcp.send_all(b"GET / HTTP/1.1\r\n\r\n" * 100)
        assert "got" in await client.request(address, ECHO, {}, 20)


async def test_too_many_requests_of_one_peer_are_busy_and_another_peer_is_served() -> None:
    async with pair() as (client, server, address), open_peer(make_peer_key(b"\3" * 32), LISTEN) as other:
        running, release, codes = 0, trio.Event(), []

        async def hold(remote: str, message: dict[str, Any]) -> dict[str, Any]:
            nonlocal running
            running += 1
            await release.wait()
            return {}

        server.handle("/test/hold/1", hold, 4096)

        async def ask() -> None:
            try:
                await client.request(address, "/test/hold/1", {}, 30)
            except RemoteError as error:
                codes.append(error.code)
                release.set()

        async with trio.open_nursery() as nursery:
            for _ in range(9):
                nursery.start_soon(ask)
            await release.wait()
            assert "got" in await other.request(address, ECHO, {}, 20)
        assert (running, codes) == (8, ["busy"])


async def test_attack_requests_that_never_arrive_keep_nobody_else_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MAX_REQUESTS", 16)
    async with AsyncExitStack() as stack:
        client, _, address = await stack.enter_async_context(pair(read_timeout_s=30))
        for number in (5, 6, 7):  # the third one's are more than there are places
            attacker = await stack.enter_async_context(open_peer(make_peer_key(bytes([number]) * 32), LISTEN))
            for _ in range(8):
                stream = await raw_stream(attacker, address)
                await stream.write(struct.pack(">I", 4000))
            for _ in range(5):
                assert "got" in await client.request(address, ECHO, {}, 5)


async def test_attack_one_peer_that_is_refused_takes_no_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MAX_REQUESTS", 16)
    async with pair() as (client, server, address), open_peer(make_peer_key(b"\3" * 32), LISTEN) as attacker:
        server.handle("/test/hold/1", silence, 4096)
        busy = 0
        for _ in range(24):  # and it never closes a stream on which it was told so
            info = info_from_p2p_addr(Multiaddr(address))
            await attacker.host.connect(info)
            stream = await attacker.host.new_stream(info.peer_id, [TProtocol("/test/hold/1")])
            await stream.write(encode_message({"id": 1, "body": {}}, 4096))
            with trio.move_on_after(0.2):
                busy += (await read_message(stream, 4096))["code"] == "busy"
        assert busy == 16
        assert "got" in await client.request(address, ECHO, {}, 5)


async def test_what_cannot_be_reached() -> None:
    async with pair() as (client, server, address):
        with pytest.raises(PeerUnreachable):
            await client.request(address, "/test/unknown/1", {}, 20)
        stranger = make_peer_key(b"\4" * 32).peer_id
        with pytest.raises(PeerUnreachable):
            await client.request(address.replace(server.peer_id, stranger), ECHO, {}, 20)
        with pytest.raises(PeerUnreachable, match="ask itself"):
            await server.request(address, ECHO, {}, 20)
        for nowhere in ("/foo/bar", "/ip4/127.0.0.1/tcp/1", "/ip4/127.0.0.1/tcp/99999/p2p/" + stranger, "", "x" * 300):
            with pytest.raises(PeerUnreachable):
                await client.request(nowhere, ECHO, {}, 20)
        assert "got" in await client.request(address, ECHO, {}, 20)


async def silence(remote: str, message: dict[str, Any]) -> dict[str, Any]:
    await trio.sleep_forever()
    raise AssertionError


async def answer(remote: str, message: dict[str, Any]) -> dict[str, Any]:
    return {"ok": 1}


async def test_a_silent_peer_times_out_and_a_restarted_one_is_found_again() -> None:
    async with open_peer(make_peer_key(b"\1" * 32), LISTEN) as client:
        addresses = []
        for _ in range(2):
            async with open_peer(make_peer_key(b"\2" * 32), LISTEN) as server:
                server.handle(ECHO, silence, 4096)
                addresses.append(server.multiaddrs[0])
                with pytest.raises(PeerTimeout):
                    await client.request(addresses[-1], ECHO, {}, 1.0)
                server.handle(ECHO, answer, 4096)
                assert await client.request(addresses[-1], ECHO, {}, 20) == {"ok": 1}
            with pytest.raises((PeerUnreachable, PeerTimeout)):
                await client.request(addresses[-1], ECHO, {}, 5)


async def test_a_connection_on_which_libp2p_itself_gives_up_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "SILENT_S", 0.0)
    async with pair() as (client, _, address):
        await client.request(address, ECHO, {}, 20)
        (wedged,) = client._live_connections(info_from_p2p_addr(Multiaddr(address)).peer_id)

        async def no_stream(*_: object) -> INetStream:
            raise StreamFailure("failed to open stream")

        with monkeypatch.context() as broken:
            broken.setattr(client.host, "new_stream", no_stream)
            with pytest.raises(PeerUnreachable):
                await client.request(address, ECHO, {}, 20)
        assert wedged.is_closed
        assert (await client.request(address, ECHO, {"a": 2}, 20))["got"] == {"a": 2}


async def test_a_taken_port_is_named() -> None:
    async with open_peer(make_peer_key(b"\1" * 32), LISTEN) as first:
        taken = first.multiaddrs[0].split("/p2p/")[0]
        with pytest.raises(CannotListen, match=taken):
            async with open_peer(make_peer_key(b"\2" * 32), taken):
                pass


class Bytes:
    """A stream of given bytes."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    async def read(self, n: int) -> bytes:
        part, self.data = self.data[:n], self.data[n:]
        return part


@settings(deadline=None)  # a busy machine is not a fault
@given(st.binary(max_size=300))
def test_any_bytes_are_a_message_or_a_typed_error(data: bytes) -> None:
    async def read() -> None:
        try:
            message = await read_message(Bytes(data), 200)
        except (MessageMalformed, MessageTooLarge):
            return
        assert all(isinstance(key, str) for key in message)

    trio.run(read)


def test_libp2p_errors_share_one_base() -> None:
    from libp2p.host.exceptions import StreamFailure
    from libp2p.network.exceptions import SwarmException
    from libp2p.network.stream.exceptions import StreamReset

    assert all(issubclass(kind, BaseLibp2pError) for kind in (StreamFailure, SwarmException, StreamReset))
