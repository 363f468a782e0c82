"""A node's place in one run: who it is there, where it keeps its things, and through what it speaks to the others.

What every role is given, whichever it is. It decides nothing and opens nothing; who made the parts closes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from eth_account.signers.local import LocalAccount

from dht.signing import RecordDomain
from ledger.client import Ledger
from node.config import RunConfig
from node.metrics import MetricsLog
from node.network import Network
from node.state import NodeState
from node.streams import Peer


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """`domain` is where this run's signatures hold; everything that the node keeps lies in `data_dir`."""

    role: str
    config: RunConfig
    account: LocalAccount
    domain: RecordDomain
    data_dir: Path
    ledger: Ledger
    peer: Peer
    network: Network
    state: NodeState
    metrics: MetricsLog

    @property
    def address(self) -> str:
        """The wallet's, by which the ledger knows this node."""
        return self.account.address

    @property
    def pool_id(self) -> int:
        """The pool of this run."""
        return self.config.ledger.pool_id
