"""Whether others can reach a node: it asks a relay, which dials back and says whether it got through.

The relay dials only the peer id that asks, at the address from which that peer's own connection comes and at the port
it names: no third party can be named, so nobody can be flooded or scanned through a relay. It refuses more than a few
dials a minute for a host, low ports, and to tell a closed port from a silent one.
"""

from __future__ import annotations

import ipaddress
import logging
from collections import deque
from typing import Any

import trio
from libp2p.io.trio import TrioTCPStream
from libp2p.network.connection.raw_connection import RawConnection
from libp2p.peer.id import ID

from node.facts import DialBackAnswer
from node.streams import BadReply, Peer, Refusal

log = logging.getLogger(__name__)
DIAL_BACK_PROTOCOL = "/intellect-node/dial-back/1"
MESSAGE_BYTES = 256
DIAL_TIMEOUT_S = 5.0
WINDOW_S = 60.0
DIALS_PER_HOST, DIALS_IN_ALL = 4, 60
"""Within WINDOW_S."""
LOWEST_PORT = 1024


class DialQuota:
    """Which dials are allowed, by the clock that is handed in (seconds, never back). Remembers DIALS_IN_ALL at most."""

    def __init__(
        self, *, per_host: int = DIALS_PER_HOST, in_all: int = DIALS_IN_ALL, window_s: float = WINDOW_S
    ) -> None:
        self._per_host, self._in_all, self._window_s = per_host, in_all, window_s
        self._dials: deque[tuple[float, str]] = deque()

    def take(self, host: str, now_s: float) -> bool:
        """Whether one more dial to `host` is allowed now; if so, it counts."""
        while self._dials and self._dials[0][0] <= now_s - self._window_s:
            self._dials.popleft()
        if len(self._dials) >= self._in_all or sum(other == host for _, other in self._dials) >= self._per_host:
            return False
        self._dials.append((now_s, host))
        return True


def serve_dial_back(peer: Peer, *, quota: DialQuota | None = None, timeout_s: float = DIAL_TIMEOUT_S) -> None:
    """Dial back for whoever asks, within the quota. A dial that fails is always answered after `timeout_s`."""
    quota = quota or DialQuota()

    async def answer(remote: str, message: dict[str, Any]) -> dict[str, Any]:
        port = message.get("port")
        if set(message) != {"port"} or type(port) is not int or not LOWEST_PORT <= port <= 65535:
            raise Refusal("malformed", f"name a port from {LOWEST_PORT} to 65535 and nothing else")
        hosts = hosts_of(peer, remote)
        if not hosts:
            raise Refusal("unknown-host", "the host that you come from is not known here")
        host = hosts[-1]
        if not quota.take(host, trio.current_time()):
            raise Refusal(
                "too-often", f"at most {DIALS_PER_HOST} dials a minute for a host; ask later, or another relay"
            )
        deadline = trio.current_time() + timeout_s
        reached = await _gets_through(peer, host, port, remote, timeout_s)
        if not reached:
            await trio.sleep_until(deadline)
        log.info("dialled %s back at %s port %d: %s", remote, host, port, "reached" if reached else "not reached")
        return {"host": host, "reached": reached}

    peer.handle(DIAL_BACK_PROTOCOL, answer, MESSAGE_BYTES, max_reply_bytes=MESSAGE_BYTES, timeout_s=timeout_s + 5)


async def ask_dial_back(peer: Peer, multiaddr: str, port: int) -> DialBackAnswer:
    """What the relay at `multiaddr` says after dialling our `port`. Raises StreamError."""
    reply = await peer.request(
        multiaddr, DIAL_BACK_PROTOCOL, {"port": port}, timeout_s=4 * DIAL_TIMEOUT_S, max_bytes=MESSAGE_BYTES
    )
    host, reached = reply.get("host"), reply.get("reached")
    if not isinstance(host, str) or not isinstance(reached, bool) or not _is_ip(host):
        raise BadReply(multiaddr, "not an answer to a request for a dial")
    return DialBackAnswer(host=host, reached=reached)


def hosts_of(peer: Peer, remote: str) -> list[str]:
    """The IPv4 addresses of that peer's open connections, oldest first; Noise has authenticated each."""
    connections = peer.host.get_network().get_connections(ID.from_base58(remote))
    addresses = [connection.muxed_conn.get_remote_address() for connection in connections if not connection.is_closed]
    return [address[0] for address in addresses if address is not None and _is_ip(address[0])]


async def _gets_through(peer: Peer, host: str, port: int, peer_id: str, timeout_s: float) -> bool:
    """Whether who listens there proves to be that peer; the connection is closed before any stream."""
    with trio.move_on_after(timeout_s):
        try:
            raw = RawConnection(TrioTCPStream(await trio.open_tcp_stream(host, port)), initiator=True)
            try:
                upgrader = peer.host.get_network().upgrader
                await upgrader.upgrade_security(raw, True, ID.from_base58(peer_id))
                return True
            finally:
                with trio.move_on_after(1, shield=True):
                    await raw.close()
        except Exception as error:  # decode edge: Noise and protobuf raise many types on what a stranger sends
            log.debug("dial back to %s port %d: %r", host, port, error)
    return False


def _is_ip(host: str) -> bool:
    try:
        return isinstance(ipaddress.ip_address(host), ipaddress.IPv4Address)
    except ValueError:
        return False
