"""Deltas in the network: which ones a trainer makes and names, and by which a node comes to a policy.

A trainer makes one from the policy before, and one from an anchor, every fourth policy, for whoever lags behind; it
names those in its run state. A node takes the cheapest way from the policies it has (`dht.routes`), and all of the
policy where no delta helps. Nothing is believed: what comes out has the hash that the ledger has, or is thrown away.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import trio

from dht.delta import DeltaInvalid
from dht.manifest import POLICY, ManifestInvalid
from dht.plan import ContentUnavailable
from dht.routes import Link, cheapest
from dht.store import StoreError
from ledger.client import Ledger
from ledger.types import Checkpoint
from node.chain import on_chain
from node.child import ChildError
from node.dhtd_link import NetworkDown
from node.network import Network

log = logging.getLogger(__name__)
ANCHOR_EVERY = 4
NAMED_VERSIONS = 5
"""Policies whose deltas are named; relays keep as many."""
TRANSFER_SHARE = 0.5
"""Of the time for a policy: so long a delta may take to come before all of the policy is asked for."""
PATIENCE_S = 10.0
"""So long it is looked for: the trainer serves it before it names the policy, so who finds nobody will not find it."""


def bases(version: int, at_hand: Collection[int]) -> tuple[int, ...]:
    """From which policies at hand a delta to `version` is made, the most wanted first."""
    wanted = (version - 1, (version - 1) // ANCHOR_EVERY * ANCHOR_EVERY)
    return tuple(base for base in dict.fromkeys(wanted) if base in at_hand)


async def policies_here(network: Network) -> dict[int, tuple[bytes, int]]:
    """Manifest id and bytes of each complete policy in this node's store, by version."""
    found: list[dict[str, Any]] = (await network.status())["checkpoints"]
    return {
        item["version"]: (item["manifest_hash"], item["size_bytes"])
        for item in found if item["complete"] and item["kind"] == POLICY
    }  # fmt: skip


class DeltaMaker:
    """What the trainer makes. `links` are named in its run state."""

    def __init__(self, network: Network, *, wanted: bool) -> None:
        self._network, self._wanted = network, wanted
        self._waiting: list[int] = []
        self._asked = trio.Event()
        self.links: tuple[Link, ...] = ()

    async def make_first(self, version: int) -> bool:
        """Make the delta that most nodes want, to `version` from the policy before; whether there is one more now.

        The others are made by `run`. A failure is logged: everybody can fetch all of the policy.
        """
        if not self._wanted:
            return False
        made = await self._make(version, slice(0, 1))
        self._waiting.append(version)  # only now: the policy is announced as soon as the first one is there
        self._asked.set()
        return made

    async def run(self, tell: Callable[[], None]) -> NoReturn:
        """Make what is left to make, for ever; `tell` says that there are others in `links`."""
        while True:
            await self._asked.wait()
            self._asked = trio.Event()
            while self._waiting:
                if await self._make(self._waiting.pop(), slice(1, None)):
                    tell()

    async def _make(self, version: int, which: slice) -> bool:
        before = self.links
        try:
            here = await policies_here(self._network)
            for base in bases(version, here)[which]:
                began = trio.current_time()
                content, size_bytes = await self._network.content.make_delta(here[base][0], here[version][0])
                link = Link(base=base, result=version, size_bytes=size_bytes, content=content)
                kept = [known for known in self.links if known.result > version - NAMED_VERSIONS]
                self.links = (*(known for known in kept if known != link), link)
                share, seconds = here[version][1] / size_bytes, trio.current_time() - began
                log.info("policy %d is 1/%.0f of itself from policy %d on (%.1f s)", version, share, base, seconds)
        except (StoreError, NetworkDown, ChildError) as fault:
            log.warning("no delta to policy %d: %s", version, fault)
        return self.links != before


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """A policy that has come: where it is, how many bytes came for it, and how many it has."""

    folder: Path
    fetched_bytes: int
    whole_bytes: int
    deltas: int


async def fetch_policy(
    ledger: Ledger,
    network: Network,
    pool_id: int,
    wanted: Checkpoint,
    *,
    by_delta: bool,
    timeout_s: float,
    announce: bool,
) -> Fetched:
    """The policy `wanted`, verified, in as few bytes as may be if `by_delta`. Raises as `Content.fetch_checkpoint`."""
    deadline = trio.current_time() + timeout_s
    here = await policies_here(network) if by_delta else {}
    known = here.get(wanted.version, (b"", 0))[0] == wanted.manifest_hash
    way = () if known else await _way(network, wanted.version, here)
    fetched_bytes, taken = 0, 0
    try:
        contents = {version: content for version, (content, _) in here.items()}
        for link in way:
            target = wanted
            if link.result != wanted.version:
                target = await on_chain(ledger.checkpoint, pool_id, link.result)
            await network.content.fetch_by_delta(
                target.manifest_hash, base=contents[link.base], delta=link.content, max_bytes=link.size_bytes,
                timeout_s=TRANSFER_SHARE * (deadline - trio.current_time()), patience_s=PATIENCE_S,
                announce=announce,
            )  # fmt: skip
            contents[link.result] = target.manifest_hash
            fetched_bytes, taken = fetched_bytes + link.size_bytes, taken + 1
    except (DeltaInvalid, StoreError, ManifestInvalid, ContentUnavailable) as fault:
        log.warning("a delta to policy %d is of no use, fetching all of it: %s", wanted.version, fault)
    folder = await network.content.fetch_checkpoint(
        wanted.manifest_hash, timeout_s=deadline - trio.current_time(), announce=announce
    )
    whole_bytes = sum(path.stat().st_size for path in folder.iterdir())
    if not known and taken < max(1, len(way)):
        fetched_bytes += whole_bytes
    return Fetched(folder=folder, fetched_bytes=fetched_bytes, whole_bytes=whole_bytes, deltas=taken)


async def _way(network: Network, version: int, here: dict[int, tuple[bytes, int]]) -> tuple[Link, ...]:
    """Deltas to take in order; none where the policy is fetched whole."""
    try:
        state = await network.run_state()
    except NetworkDown as fault:
        log.info("nobody says which deltas there are: %s", fault)
        return ()
    if state is None or not here:
        return ()
    # All versions of a run have about the same size, so the newest here says what all of the wanted one would cost.
    return cheapest(here, version, state.deltas, whole_bytes=here[max(here)][1]) or ()
