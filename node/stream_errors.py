"""What can go wrong with a request between peers, and whose fault it is: ours, the peer's, or the transport's.

Decides nothing; names the fault and the peer.
"""

from __future__ import annotations

from node.errors import UserError


class StreamError(Exception):
    """A request that got no good reply. `peer` is the multiaddr that was asked."""

    def __init__(self, peer: str, message: str) -> None:
        super().__init__(f"{peer}: {message}")
        self.peer = peer


class PeerUnreachable(StreamError):
    """No connection, no such protocol there, or the connection ended before the reply. Another try may help."""


class PeerTimeout(StreamError):
    """The peer did not reply in time."""


class RemoteError(StreamError):
    """The peer answered with an error: `code` and `message`.

    Codes are busy, too-large, malformed, timeout, internal, and the handler's own.
    """

    def __init__(self, peer: str, code: str, message: str) -> None:
        super().__init__(peer, f"{code}: {message}")
        self.code = code
        self.message = message


class BadReply(StreamError):
    """The peer's reply is too large, malformed or of another request: its fault, not the transport's."""


class Refusal(Exception):
    """Raised by a handler to answer with a typed error: a code such as `not-a-member`, and a sentence."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class CannotListen(UserError):
    """The listen address is taken or not ours."""
