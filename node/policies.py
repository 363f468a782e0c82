"""Keeps a node supplied with policies: each checkpoint that the ledger announces is fetched and verified.

The ledger says which manifest is a version; the network fetches it from whoever serves it. A version that turns out
wrong is dropped and the next one taken, never the same bytes again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import trio

from dht.checkpoint import CheckpointWrong
from dht.manifest import ManifestInvalid
from dht.plan import ContentUnavailable
from ledger.client import Ledger
from ledger.types import Checkpoint
from node.chain import POLL_S, on_chain
from node.child import ChildError
from node.deltas import fetch_policy
from node.dhtd_link import NetworkDown
from node.errors import DiskFull
from node.metrics import MetricsLog
from node.network import Network
from node.spans import Activity, span

log = logging.getLogger(__name__)
FETCH_TIMEOUT_S, RETRY_S = 600.0, 5.0


class Policies:
    """The verified checkpoints of one pool that lie on this node's disk."""

    def __init__(
        self, ledger: Ledger, network: Network, metrics: MetricsLog, *, pool_id: int, serve: bool, by_delta: bool
    ) -> None:
        """`serve`: announce this node as a provider while it still fetches (relays do, workers stay private).
        `by_delta`: take deltas where they are cheaper.
        """
        self._ledger, self._network, self._metrics = ledger, network, metrics
        self._pool_id, self._serve, self._by_delta = pool_id, serve, by_delta
        self._arrived = trio.Event()
        self.folders: dict[int, Path] = {}
        """Version → folder; read only, pruned with its version."""

    @property
    def newest(self) -> int:
        """The newest version on disk; -1 before the first."""
        return max(self.folders, default=-1)

    def has(self, version: int) -> bool:
        """Whether this version or a newer one has arrived."""
        return self.newest >= version

    async def wait_for(self, enough: Callable[[], bool]) -> None:
        """Until `enough()` holds; looked at whenever a version arrives."""
        while not enough():
            await self._arrived.wait()

    async def follow(self, *, behind: int) -> None:
        """Fetch what is announced, for ever, in order, but nothing more than `behind` versions old."""
        done = -1
        while True:
            newest = await on_chain(self._ledger.latest_checkpoint, self._pool_id)
            if newest is None or newest.version <= done:
                await trio.sleep(POLL_S)
                continue
            checkpoint = newest
            if behind:
                version = max(done + 1, newest.version - behind)
                checkpoint = await on_chain(self._ledger.checkpoint, self._pool_id, version)
            if await self._fetch(checkpoint):
                done = checkpoint.version
            else:
                await trio.sleep(RETRY_S)

    async def _fetch(self, checkpoint: Checkpoint) -> bool:
        """Whether this version is dealt with: here, or wrong for ever."""
        began = trio.current_time()
        try:
            with span(self._metrics, Activity.FETCHING):
                fetched = await fetch_policy(
                    self._ledger, self._network, self._pool_id, checkpoint,
                    by_delta=self._by_delta, timeout_s=FETCH_TIMEOUT_S, announce=self._serve,
                )  # fmt: skip
        except (ManifestInvalid, CheckpointWrong) as fault:
            log.error("policy %d is dropped, waiting for a newer one: %s", checkpoint.version, fault)
            return True
        except (ContentUnavailable, NetworkDown, ChildError) as fault:
            if DiskFull.is_cause_of(fault):
                raise
            log.warning("policy %d is not here yet, trying again in %.0f s: %s", checkpoint.version, RETRY_S, fault)
            return False
        seconds = trio.current_time() - began
        log.info(
            "policy %d is here after %.1f s, %.1f of %.1f MB were fetched",
            checkpoint.version, seconds, fetched.fetched_bytes / 1e6, fetched.whole_bytes / 1e6,
        )  # fmt: skip
        self._metrics.write(
            "policy", version=checkpoint.version, fetch_s=round(seconds, 2), fetched_bytes=fetched.fetched_bytes,
            whole_bytes=fetched.whole_bytes, deltas=fetched.deltas,
        )  # fmt: skip
        self.folders[checkpoint.version] = fetched.folder
        for version in [v for v, path in self.folders.items() if not path.exists()]:
            del self.folders[version]
        self._arrived.set()
        self._arrived = trio.Event()
        return True
