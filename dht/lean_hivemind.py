"""Decides how much of hivemind is loaded.

Its Kademlia node and p2p transport, without the averaging, experts and torch beside them. `import hivemind` pulls in
torch for parts that a directory never uses: 5.6 s of CPU and 310 MB a process, against 1 s and 90 MB (measured on 2
shared cores with 1.1.12, the pinned version). Importing this module first leaves hivemind's package __init__ files
unexecuted. Its clock is replaced before anybody has read it: all that hivemind dates or lets expire goes by
`DHT_CLOCK`, one a process as in hivemind itself. It refuses to run where hivemind was already imported.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from types import ModuleType

from dht.clock import NetworkClock

if "hivemind" not in sys.modules:
    DHT_CLOCK = NetworkClock()
    _spec = importlib.util.find_spec("hivemind")
    if _spec is None or _spec.submodule_search_locations is None:
        raise ModuleNotFoundError("hivemind is not installed")
    for _name in ("hivemind", "hivemind.dht", "hivemind.utils"):
        _package = ModuleType(_name)
        _package.__path__ = [
            "/".join([location, *_name.split(".")[1:]]) for location in _spec.submodule_search_locations
        ]
        sys.modules[_name] = _package
    _utils = sys.modules["hivemind.utils"]
    # Its modules copy the function by name when they are imported, so it is replaced before the first of them is.
    importlib.import_module("hivemind.utils.timed_storage").get_dht_time = DHT_CLOCK.now_s
    for _module, _names in (
        ("serializer", ("MSGPackSerializer", "SerializerBase")), ("logging", ("get_logger",)),
        ("timed_storage", ("get_dht_time",)),
    ):  # fmt: skip
        for _attribute in _names:
            setattr(_utils, _attribute, getattr(importlib.import_module(f"hivemind.utils.{_module}"), _attribute))
else:
    raise ImportError("hivemind was imported before dht.lean_hivemind")

from hivemind.dht.node import DHTNode
from hivemind.dht.protocol import ValidationError
from hivemind.dht.routing import DHTID
from hivemind.dht.storage import DictionaryDHTValue
from hivemind.dht.validation import DHTRecord, RecordValidatorBase
from hivemind.p2p import P2P, PeerID
from hivemind.p2p.p2p_daemon_bindings.utils import ControlFailure
from hivemind.proto.dht_pb2 import PingRequest
from hivemind.utils.multiaddr import Multiaddr
from hivemind.utils.serializer import MSGPackSerializer

__all__ = [
    "DHTID", "DHT_CLOCK", "P2P", "ControlFailure", "DHTNode", "DHTRecord", "DictionaryDHTValue", "MSGPackSerializer",
    "Multiaddr", "PeerID", "PingRequest", "RecordValidatorBase", "ValidationError",
]  # fmt: skip
