"""A node's ports are the same after a restart: others know its addresses, a bootstrap node has no other way back.

Decides nothing about ports that a person named. A remembered port that somebody else took meanwhile is let go.
"""

from __future__ import annotations

import json
import re
import socket
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """TCP ports; 0 means any free one."""

    stream: int = 0
    dht: int = 0
    bulk: int = 0

    @classmethod
    def of(cls, *, stream: str, dht: str, bulk: str) -> Ports:
        """The ports in a node's own addresses: two multiaddrs and a URL, each "" where it does not listen."""
        found = {"stream": re.search(r"/tcp/(\d+)", stream), "dht": re.search(r"/tcp/(\d+)", dht)}
        found["bulk"] = re.search(r":(\d+)$", bulk)
        return cls(**{name: int(match[1]) for name, match in found.items() if match})


def remember_ports(data_dir: Path, ports: Ports) -> None:
    """Keep them for the next start."""
    partial = data_dir / "ports.json.part"
    partial.write_text(json.dumps(asdict(ports)))
    partial.replace(data_dir / "ports.json")


def remembered_ports(data_dir: Path, host: str) -> Ports:
    """The last start's ports, as far as they are free; zeros where there was none."""
    path = data_dir / "ports.json"
    known = json.loads(path.read_text()) if path.exists() else {}
    return Ports(**{name: port for name, port in known.items() if port and _is_free(host, port)})


def _is_free(host: str, port: int) -> bool:
    try:
        socket.create_server((host, port)).close()
    except OSError:
        return False
    return True
