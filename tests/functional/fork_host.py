"""Forks processes that have imported everything already, so that a test may start and kill trainers by the dozen.

`serve` runs in the host. A process somewhere else that wants to be a fork runs `become` (no imports of note): the host
forks, the fork takes over its stdin, stdout and stderr, and ends it when it ends itself, however that comes about.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path

BYE = b"."


def serve(path: Path) -> socket.socket:
    """Listen at `path`; returns the socket for `answer`."""
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(path))
    server.listen()
    server.settimeout(0.02)
    return server


def answer(server: socket.socket, act: Callable[[dict[str, str]], None]) -> None:
    """Fork for one process that asks, or return after a moment."""
    try:
        connection, _ = server.accept()
    except TimeoutError:
        return
    with connection:
        message, descriptors, _, _ = socket.recv_fds(connection, 4096, 3)
        if os.fork() == 0:
            server.close()
            for target, descriptor in enumerate(descriptors):
                os.dup2(descriptor, target)
                os.close(descriptor)
            act(json.loads(message))
            connection.send(BYE)
            os._exit(0)
        for descriptor in descriptors:
            os.close(descriptor)


def become(path: str, **words: str) -> None:
    """Be a fork of the host at `path`, told `words`; ends as it does: with 0, or killed."""
    client = socket.socket(socket.AF_UNIX)
    client.connect(path)
    socket.send_fds(client, [json.dumps(words).encode()], [0, 1, 2])
    if client.recv(1) != BYE:
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    become(sys.argv[1], **dict(word.split("=", 1) for word in sys.argv[2:]))
