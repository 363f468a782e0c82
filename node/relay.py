"""The relay: fetch each policy and serve it while it still arrives; take submissions and serve them by hash.

It also dials back the nodes that ask whether they can be reached.
"""

from __future__ import annotations

from ledger.client import Ledger
from node.config import RunConfig
from node.dial_back import serve_dial_back
from node.handover import Reception
from node.metrics import MetricsLog
from node.network import Network
from node.policies import Policies
from node.streams import Peer


async def run(
    config: RunConfig, ledger: Ledger, peer: Peer, network: Network, policies: Policies, metrics: MetricsLog
) -> None:
    """Serve until cancelled."""
    reception = Reception(
        ledger,
        network,
        metrics,
        pool_id=config.ledger.pool_id,
        max_bytes=config.relay.max_submission_bytes,
        max_files=config.relay.max_submissions,
    )
    reception.listen(peer)
    serve_dial_back(peer)
    await policies.follow(behind=config.rl.asynchrony)
