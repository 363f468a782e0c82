from __future__ import annotations

import socket
from pathlib import Path

from node.ports import Ports, remember_ports, remembered_ports


def test_ports_are_the_same_after_a_restart_unless_taken(tmp_path: Path) -> None:
    assert remembered_ports(tmp_path, "127.0.0.1") == Ports()
    with socket.create_server(("127.0.0.1", 0)) as taken, socket.create_server(("127.0.0.1", 0)) as freed:
        dht, bulk = taken.getsockname()[1], freed.getsockname()[1]
        freed.close()
        remember_ports(tmp_path, Ports(dht=dht, bulk=bulk))
        assert remembered_ports(tmp_path, "127.0.0.1") == Ports(stream=0, dht=0, bulk=bulk)


def test_ports_are_read_off_a_nodes_addresses() -> None:
    stream, dht, bulk = "/ip4/127.0.0.1/tcp/1/p2p/12D3Ko", "/ip4/127.0.0.1/tcp/2/p2p/QmX", "http://127.0.0.1:3"
    assert Ports.of(stream=stream, dht=dht, bulk=bulk) == Ports(stream=1, dht=2, bulk=3)
    assert Ports.of(stream=stream, dht="", bulk="") == Ports(stream=1)
