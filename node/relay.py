"""The relay: fetch each policy and serve it while it still arrives; keep submissions and evidence, served by hash.

It also dials back the nodes that ask whether they can be reached.
"""

from __future__ import annotations

from node.dial_back import serve_dial_back
from node.place import Place
from node.policies import Policies
from node.reception import Reception


async def run(place: Place, policies: Policies) -> None:
    """Serve until cancelled."""
    limits = place.config.relay
    reception = Reception(
        place.ledger,
        place.network,
        place.metrics,
        pool_id=place.pool_id,
        max_bytes=limits.max_submission_bytes,
        max_files=limits.max_submissions,
        max_evidence=limits.max_evidence,
    )
    reception.listen(place.peer)
    serve_dial_back(place.peer)
    await policies.follow(behind=place.config.rl.asynchrony)
