"""Replies on the wire: an answer or a typed error, tied to its request by id.

Decides what a reply must hold and how much of a peer's error text is believed. Pure.
"""

from __future__ import annotations

from typing import Any

from node.stream_errors import BadReply, RemoteError

MAX_ERROR_CHARS = 512


def refused(request_id: Any, code: str, message: str) -> dict[str, Any]:
    """The typed error reply to request `request_id` (None where none could be read)."""
    return {
        "id": request_id if isinstance(request_id, int) else None,
        "ok": False,
        "code": code,
        "message": message[:MAX_ERROR_CHARS],
    }


def body_of(reply: dict[str, Any], request_id: int, peer: str) -> dict[str, Any]:
    """What `peer` answered to request `request_id`. Raises RemoteError, BadReply."""
    body, code, message = reply.get("body"), reply.get("code"), reply.get("message")
    if reply.get("ok") is False and isinstance(code, str) and isinstance(message, str):
        printable = "".join(c if c.isprintable() else "?" for c in message[:MAX_ERROR_CHARS])
        raise RemoteError(peer, "".join(c if c.isprintable() else "?" for c in code[:64]), printable)
    if reply.get("ok") is not True or reply.get("id") != request_id or not isinstance(body, dict):
        raise BadReply(peer, "the reply does not belong to the request")
    return body
