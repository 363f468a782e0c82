"""Requests between peers over libp2p: TCP, Noise, Yamux; one stream a request, one bounded message each way.

Decides how long a peer may take, how many of its requests run at once and what an error looks like on the wire.
Refuses messages over their bound before allocating, unauthenticated transports, and to show a peer anything of a fault
of ours beyond its being one. The remote peer id that a handler receives is the one Noise authenticated. Must never
share a process with hivemind.
"""

from __future__ import annotations

import itertools
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import trio
from libp2p import new_host
from libp2p.abc import IHost, INetStream
from libp2p.crypto.ed25519 import create_new_key_pair
from libp2p.crypto.x25519 import create_new_key_pair as create_new_x25519_key_pair
from libp2p.custom_types import TProtocol
from libp2p.exceptions import BaseLibp2pError
from libp2p.network.stream.exceptions import StreamEOF
from libp2p.peer.id import ID
from libp2p.peer.peerinfo import PeerInfo, info_from_p2p_addr
from libp2p.security.noise.transport import PROTOCOL_ID as NOISE_PROTOCOL
from libp2p.stream_muxer.yamux.yamux import PROTOCOL_ID as YAMUX_PROTOCOL
from libp2p.stream_muxer.yamux.yamux import Yamux
from multiaddr import Multiaddr
from multiaddr.exceptions import Error as MultiaddrError

from node.peer_key import PeerKey
from node.stream_errors import BadReply, CannotListen, PeerTimeout, PeerUnreachable, Refusal, RemoteError, StreamError
from node.stream_frames import MAX_MESSAGE_BYTES, MessageMalformed, MessageTooLarge, encode_message, read_message
from node.stream_places import GaveWay, NoPlace, Places
from node.stream_replies import body_of, refused
from node.whole_frames import WholeFrameNoise

__all__ = [
    "BadReply",
    "CannotListen",
    "Handler",
    "Peer",
    "PeerTimeout",
    "PeerUnreachable",
    "Refusal",
    "RemoteError",
    "StreamError",
    "open_peer",
]

log = logging.getLogger(__name__)
Handler = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]
READ_TIMEOUT_S = 30.0  # for one whole request to arrive; 8 MiB take 0.2 s at the 52 MB/s measured for this stack
HANDLER_TIMEOUT_S = 60.0
LINGER_S = 2.0  # to let a peer finish closing, so that our reply is not cut off by a reset
SILENT_S = 5.0  # a refusal comes at once; what fails after so long is a connection that carries nothing any more
NOTICE_DEATH_S = 0.5  # for the reading task of a connection to see its end, once writing to it failed
MAX_REQUESTS_PER_PEER = 8
MAX_REQUESTS = 64


@dataclass(slots=True, kw_only=True, eq=False)
class Peer:
    """This node's libp2p host. Made by `open_peer`."""

    host: IHost
    peer_id: str
    read_timeout_s: float
    _places: Places = field(default_factory=lambda: Places(per_peer=MAX_REQUESTS_PER_PEER, in_all=MAX_REQUESTS))
    _last_reply_s: dict[str, float] = field(default_factory=dict)
    _ids: itertools.count[int] = field(default_factory=itertools.count)

    @property
    def multiaddrs(self) -> tuple[str, ...]:
        """The addresses it listens on, each with its peer id."""
        suffix = f"/p2p/{self.peer_id}"
        return tuple(sorted({str(address).removesuffix(suffix) + suffix for address in self.host.get_addrs()}))

    def handle(
        self,
        protocol: str,
        handler: Handler,
        max_bytes: int,
        *,
        max_reply_bytes: int = MAX_MESSAGE_BYTES,
        timeout_s: float = HANDLER_TIMEOUT_S,
    ) -> None:
        """Answers requests of `protocol`, of at most `max_bytes`, with `await handler(remote peer id, message)`.

        The handler has `timeout_s` seconds. It raises Refusal for a typed error; anything else that it raises is
        logged and reaches the peer as `internal`.
        """

        async def serve(stream: INetStream) -> None:
            remote = str(stream.muxed_conn.peer_id)
            try:
                try:
                    with self._places.take(remote):
                        reply = await answer(stream, remote)
                        with self._places.waiting(remote):
                            await _send_reply(stream, reply, max_reply_bytes, self.read_timeout_s)
                except NoPlace as full:
                    await _send_reply(stream, refused(None, "busy", str(full)), max_reply_bytes, LINGER_S)
            except (BaseLibp2pError, MessageMalformed, GaveWay) as error:  # the transport, or a peer too slow or gone
                log.info("request of %s on %s ended: %s", remote, protocol, error)
            finally:
                await _discard(stream)

        async def answer(stream: INetStream, remote: str) -> dict[str, Any]:
            request_id = None
            try:
                with self._places.waiting(remote), trio.fail_after(self.read_timeout_s):
                    request = await read_message(stream, max_bytes)
                request_id, body = request.get("id"), request.get("body")
                if not isinstance(request_id, int) or not isinstance(body, dict):
                    raise MessageMalformed("a request has an integer id and a map as body")
                with trio.fail_after(timeout_s):
                    return {"id": request_id, "ok": True, "body": await handler(remote, body)}
            except Refusal as refusal:
                return refused(request_id, refusal.code, refusal.message)
            except MessageTooLarge as error:
                return refused(request_id, "too-large", str(error))
            except MessageMalformed as error:
                return refused(request_id, "malformed", str(error))
            except trio.TooSlowError:
                return refused(request_id, "timeout", "the request took too long to arrive or to answer")
            except (BaseLibp2pError, GaveWay):
                raise
            except Exception:
                log.exception("fault of ours in the handler of %s", protocol)
                return refused(request_id, "internal", "a fault of the answering peer; its log has the cause")

        self.host.set_stream_handler(TProtocol(protocol), serve)

    async def request(
        self,
        multiaddr: str,
        protocol: str,
        message: dict[str, Any],
        timeout_s: float,
        max_bytes: int = MAX_MESSAGE_BYTES,
    ) -> dict[str, Any]:
        """The reply (at most `max_bytes`) of the peer at `multiaddr` (with /p2p/…) to `message`, within `timeout_s`.

        Raises RemoteError, PeerUnreachable (also for a multiaddr that leads nowhere: others announce them),
        PeerTimeout, BadReply; MessageTooLarge for a message of ours that cannot be sent.
        """
        try:
            info = info_from_p2p_addr(Multiaddr(multiaddr))
        except (ValueError, BaseLibp2pError, MultiaddrError) as error:
            raise PeerUnreachable(multiaddr, f"not a peer's address: {error}") from error
        if str(info.peer_id) == self.peer_id:
            raise PeerUnreachable(multiaddr, "a peer does not ask itself")
        request_id = next(self._ids)
        frame = encode_message({"id": request_id, "body": message}, MAX_MESSAGE_BYTES)
        started_s = trio.current_time()
        try:
            with trio.fail_after(timeout_s):
                stream = await self._open_stream(info, TProtocol(protocol))
                try:
                    reply = await _exchange(stream, frame, max_bytes)
                finally:
                    await _discard(stream)
        except trio.TooSlowError as error:
            if self._last_reply_s.get(str(info.peer_id), -1.0) < started_s:
                await self._disconnect(info.peer_id)  # silent altogether: the next try dials anew
            raise PeerTimeout(multiaddr, f"no reply within {timeout_s} s") from error
        except (MessageTooLarge, MessageMalformed) as error:
            raise BadReply(multiaddr, f"bad reply: {error}") from error
        except (BaseLibp2pError, OSError) as error:
            # libp2p gives up on a stream by itself, after half a minute; the connection below it may never speak again.
            silent = trio.current_time() - started_s > SILENT_S
            if silent and self._last_reply_s.get(str(info.peer_id), -1.0) < started_s:
                await self._disconnect(info.peer_id)
            raise PeerUnreachable(multiaddr, f"{type(error).__name__}: {error}") from error
        self._last_reply_s[str(info.peer_id)] = trio.current_time()
        return body_of(reply, request_id, multiaddr)

    async def _open_stream(self, info: PeerInfo, protocol: TProtocol) -> INetStream:
        """A stream on the open connection or, when there is none or it turns out to be dead, on a new one."""
        kept = self._live_connections(info.peer_id)
        try:
            if not kept:
                await self._dial(info)
            return await self.host.new_stream(info.peer_id, [protocol])
        except BaseLibp2pError:
            if not kept:
                raise
            with trio.move_on_after(NOTICE_DEATH_S) as notice:
                for connection in kept:
                    await connection.muxed_conn.event_closed.wait()
            if notice.cancelled_caught:
                raise
        await self._dial(info)
        return await self.host.new_stream(info.peer_id, [protocol])

    async def _dial(self, info: PeerInfo) -> None:
        store = self.host.get_peerstore()
        store.clear_addrs(info.peer_id)  # a restarted peer listens elsewhere
        store.add_addrs(info.peer_id, list(info.addrs), 120)
        network = self.host.get_network()
        network.unblock_peer(
            info.peer_id
        )  # else one failed dial bars the peer for 60 s; the caller decides how often to try
        await network.dial_peer(info.peer_id)

    def _live_connections(self, peer_id: ID) -> list[Any]:
        return [
            connection for connection in self.host.get_network().get_connections(peer_id) if not connection.is_closed
        ]

    async def _disconnect(self, peer_id: ID) -> None:
        self._last_reply_s.pop(str(peer_id), None)
        with trio.move_on_after(LINGER_S, shield=True):
            await self.host.disconnect(peer_id)


@asynccontextmanager
async def open_peer(peer_key: PeerKey, listen: str, *, read_timeout_s: float = READ_TIMEOUT_S) -> AsyncIterator[Peer]:
    """A peer that listens on the multiaddr `listen` (port 0: any free one) in the block. Raises CannotListen."""
    pair = create_new_key_pair(peer_key.seed)
    noise = WholeFrameNoise(pair, noise_privkey=create_new_x25519_key_pair().private_key)
    host = new_host(
        key_pair=pair,
        sec_opt={NOISE_PROTOCOL: noise},  # by default libp2p also offers plain text
        muxer_opt={TProtocol(YAMUX_PROTOCOL): Yamux},
        disable_identify_address_discovery=True,
    )
    network = host.get_network()
    network.auto_connector._is_connecting = (
        True  # libp2p would dial every known peer by itself until it has 200 connections
    )
    _check_can_listen(listen)
    async with host.run([Multiaddr(listen)]):
        yield Peer(host=host, peer_id=peer_key.peer_id, read_timeout_s=read_timeout_s)


def _check_can_listen(listen: str) -> None:
    """libp2p only logs a failed listen: binding once ourselves, before it does, gives the error its name."""
    address = Multiaddr(listen)
    try:
        family = socket.AF_INET6 if listen.startswith("/ip6/") else socket.AF_INET
        host = address.value_for_protocol("ip6" if family == socket.AF_INET6 else "ip4")
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, int(address.value_for_protocol("tcp"))))
            probe.listen(1)
    except (OSError, ValueError, LookupError) as error:
        raise CannotListen(
            f"cannot listen on {listen}: {error}",
            fix="choose another --port (0: any free one), or a host of this machine",
        ) from error


async def _exchange(stream: INetStream, frame: bytes, max_bytes: int) -> dict[str, Any]:
    """Writes and reads at once: a peer that refuses a long message says so without reading it to the end."""
    reply: dict[str, Any] = {}

    async def write() -> None:
        try:
            await stream.write(frame)
            await stream.close_write()
        except BaseLibp2pError as error:
            log.debug("write ended, the read tells why: %s", error)

    failure: Exception | None = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(write)
        try:
            reply = await read_message(stream, max_bytes)
        except (BaseLibp2pError, MessageMalformed, MessageTooLarge) as error:
            failure = error  # kept out of the nursery, which would wrap it in a group
        nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure
    return reply


async def _send_reply(stream: INetStream, reply: dict[str, Any], max_bytes: int, timeout_s: float) -> None:
    try:
        frame = encode_message(reply, max_bytes)
    except (MessageTooLarge, TypeError, ValueError, OverflowError) as error:
        log.error("fault of ours: a reply that cannot be sent: %s", error)
        frame = encode_message(refused(reply["id"], "internal", "a fault of the answering peer"), MAX_MESSAGE_BYTES)
    with trio.move_on_after(timeout_s):
        await stream.write(frame)
        await stream.close_write()
    with trio.move_on_after(LINGER_S):
        try:
            while await stream.read(1 << 16):
                pass
        except StreamEOF:
            return


async def _discard(stream: INetStream) -> None:
    """Ends a stream in both directions; a stream that is already over stays so."""
    with trio.move_on_after(LINGER_S, shield=True):
        await stream.reset()
