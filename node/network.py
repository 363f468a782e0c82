"""Decides how a node (trio) uses the directory, and what it says there of itself.

Signs and refreshes its records, keeps dhtd alive; what moves is `node.content`'s. Implements dht.directory.Directory
over the dhtd child. Private keys stay here. It refuses to give up on a dead child or on silent bootstrap peers
(back-off, one clear log line each time).
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence, Set
from contextlib import asynccontextmanager, closing, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trio

from dht.admission import address_row
from dht.clock import ClockSample, NetworkClock
from dht.keys import node_key, node_keys, run_state_key
from dht.manifest import CHUNK_SIZE_BYTES
from dht.records import (
    DEFAULT_LIFETIME_S,
    MAX_LIFETIME_S,
    Authority,
    NodeRecord,
    RecordInvalid,
    RunStateRecord,
    SignedRecord,
    open_record,
)
from dht.signing import RecordDomain, Signer
from dht.store import KEEP_VERSIONS
from node.announcer import Announcer
from node.clock_follower import ClockFollower
from node.content import Admit, Content, admit_all
from node.dhtd_link import DhtdLink
from node.state import NodeState

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkConfig:
    """Ports of 0 mean any free one.

    `bootstrap` are DHT multiaddrs ending in /p2p/<id>. `bytes_per_s` caps what is served. A DHT `client` keeps no part
    of the table; without `serve` nothing is served or announced as served, and no port is open for it. `chain_clock` is
    the chain's time minus this machine's: with what the bootstrap peers say it gives the time that dates records.
    """

    host: str = "127.0.0.1"
    bulk_port: int = 0
    dht_port: int = 0
    bootstrap: tuple[str, ...] = ()
    keep_versions: int = KEEP_VERSIONS
    lifetime_s: float = DEFAULT_LIFETIME_S
    bytes_per_s: float | None = None
    chunk_size_bytes: int = CHUNK_SIZE_BYTES
    chain_clock: ClockSample | None = None
    client: bool = False
    serve: bool = True

    def __post_init__(self) -> None:
        if self.host in ("0.0.0.0", "::", ""):
            raise ValueError("host is the address at which others reach this node, not a wildcard")
        if not 1.0 <= self.lifetime_s <= MAX_LIFETIME_S:
            raise ValueError(f"lifetime_s is between 1 and {MAX_LIFETIME_S:.0f}")


class Network:
    """This node's view of the peer-to-peer plane. Use through `open_network`; trio only."""

    def __init__(
        self,
        config: NetworkConfig,
        *,
        account: Signer,
        domain: RecordDomain,
        authority: Authority,
        data_dir: Path,
        state: NodeState,
        admit: Admit,
        admitted: Set[str] | None,
    ) -> None:
        self._account, self._domain = account, domain
        self.authority = authority
        self.admitted = admitted
        chain = config.chain_clock
        self._link = DhtdLink({
            "chain_id": domain.chain_id, "contract": domain.contract, "salt": domain.salt, "run_id": domain.run_id,
            "manager": authority.manager, "epoch": authority.epoch, "host": config.host, "bulk_port": config.bulk_port,
            "dht_port": config.dht_port, "bootstrap": config.bootstrap, "data_dir": str(data_dir.absolute()),
            "keep_versions": config.keep_versions, "bytes_per_s": config.bytes_per_s,
            "chunk_size_bytes": config.chunk_size_bytes, "client": config.client, "serve": config.serve,
            "chain_clock": [chain.offset_s, chain.error_s] if chain else [],
            "admitted": None if admitted is None else address_row(admitted),
        }, data_dir=data_dir, on_start=self._started, fresh_params=lambda: self._timing.start_params())  # fmt: skip
        self._timing = ClockFollower(self._link, on_change=lambda: self._announcer.refresh_soon())
        self._announcer = Announcer(
            self._link, account=account, domain=domain, lifetime_s=config.lifetime_s, state=state, clock=self.clock,
        )  # fmt: skip
        self.content = Content(
            self._link, self._announcer, run_id=domain.run_id, address=account.address, serves=config.serve,
            lookup=self.lookup, admit=admit,
        )  # fmt: skip
        self.multiaddrs: tuple[str, ...] = ()

    @property
    def bulk_url(self) -> str:
        """Base URL of this node's chunk server; empty where it serves nothing."""
        return self.content.bulk_url

    async def set_authority(self, authority: Authority) -> None:
        """Believe another manager, or the same one in a later lease, from now on. Raises NetworkDown (it then counts
        from dhtd's restart on).
        """
        self.authority = authority
        self._link.remember(manager=authority.manager, epoch=authority.epoch)
        await self._link.call("set_manager", manager=authority.manager, epoch=authority.epoch)

    async def set_admitted(self, admitted: Set[str]) -> None:
        """From now on the records of these addresses count, and no others. Raises NetworkDown (they then count from
        dhtd's restart on), ValueError where everybody was admitted.
        """
        if self.admitted is None:
            raise ValueError("a network without a ledger admits everybody")
        add, remove = admitted - self.admitted, self.admitted - admitted
        if not add and not remove:
            return
        self._link.remember(admitted=address_row(admitted))
        await self._link.call("change_admitted", add=address_row(add), remove=address_row(remove))
        self.admitted = admitted

    async def publish(self, record: SignedRecord) -> None:
        """See Directory. Also raises NetworkDown."""
        await self._announcer.publish(record)

    async def lookup(self, *keys: str) -> tuple[SignedRecord, ...]:
        """See Directory. Also raises NetworkDown."""
        records = []
        for value in await self._link.call("lookup", keys=keys):
            try:
                now = self.clock.now_s()
                records.append(open_record(value, domain=self._domain, authority=self.authority, now_unix_s=now))
            except RecordInvalid as fault:  # it may have expired on its way here from dhtd
                log.info("a record is left out: %s", fault)
        return tuple(records)

    async def announce_node(
        self, *, peer_id: str, roles: Sequence[str], multiaddrs: Sequence[str], sealed: bytes = b"", x25519: bytes = b""
    ) -> None:
        """Publishes who this node is until `withdraw_node` or closing.

        Raises RecordInvalid, PublishRefused, NetworkDown.
        """
        await self._announcer.announce(("node", b""), self._node(peer_id, roles, multiaddrs, sealed, x25519))

    def announce_node_soon(
        self, *, peer_id: str, roles: Sequence[str], multiaddrs: Sequence[str], sealed: bytes = b"", x25519: bytes = b""
    ) -> None:
        """The same, in place of what was said before, in a moment: who is refused (by nodes that have not yet read on
        the ledger of its stake, say) is announced again until it is not.
        """
        self._announcer.announce_soon(("node", b""), self._node(peer_id, roles, multiaddrs, sealed, x25519))

    def _node(
        self, peer_id: str, roles: Sequence[str], multiaddrs: Sequence[str], sealed: bytes, x25519: bytes
    ) -> NodeRecord:
        return NodeRecord(
            address=self._account.address, peer_id=peer_id, roles=tuple(roles), multiaddrs=tuple(multiaddrs),
            bulk_url=self.bulk_url, sealed=sealed, x25519=x25519,
        )  # fmt: skip

    @property
    def own_run_state(self) -> RunStateRecord | None:
        """What this node announces as the manager."""
        body = self._announcer.body(("run-state", b""))
        return body if isinstance(body, RunStateRecord) else None

    def announce_run_state(self, state: RunStateRecord) -> None:
        """Publishes the run state in a moment and until closing; it counts only if this node is the manager's."""
        self._announcer.announce_soon(("run-state", b""), state)

    def withdraw_run_state(self) -> None:
        """Stops refreshing the run state; it is gone within its lifetime."""
        self._announcer.withdraw(("run-state", b""))

    def withdraw_node(self) -> None:
        """Stops refreshing the node record; it is gone within its lifetime."""
        self._announcer.withdraw(("node", b""))

    async def nodes(self) -> tuple[SignedRecord, ...]:
        """Every live node; `.content` is its NodeRecord."""
        return await self.lookup(*node_keys(self._domain.run_id))

    async def node(self, address: str) -> NodeRecord | None:
        """One node, if it is live: a sixteenth of the work."""
        records = await self.lookup(node_key(self._domain.run_id, address))
        found = [record.content for record in records if record.subject == address]
        return found[0] if found and isinstance(found[0], NodeRecord) else None

    async def run_state(self) -> RunStateRecord | None:
        """The manager's newest word, or None while nobody has it."""
        records = await self.lookup(run_state_key(self._domain.run_id))
        contents = [record.content for record in records if isinstance(record.content, RunStateRecord)]
        return contents[0] if contents else None

    async def status(self) -> dict[str, Any]:
        """{peers, sent_bytes, checkpoints: [{version, manifest_hash, chunks, chunks_here, complete}]} of dhtd."""
        return await self._link.call("status")

    @property
    def clock(self) -> NetworkClock:
        """The network's time: what records are dated and judged by."""
        return self._timing.clock

    async def correct_clock(self, offset_s: float) -> None:
        """From now on the network's time is this machine's clock plus `offset_s`. Raises NetworkDown."""
        await self._timing.correct(offset_s)

    def _started(self, result: dict[str, Any]) -> None:
        self.multiaddrs = tuple(result["multiaddrs"])
        self._timing.take(result["clock"])
        self.content.started(bulk_url=result["bulk_url"], kept=result["kept"])
        self._announcer.refresh_soon()


@asynccontextmanager
async def open_network(
    config: NetworkConfig,
    *,
    account: Signer,
    domain: RecordDomain,
    authority: Authority,
    data_dir: Path,
    state: NodeState | None = None,
    admit: Admit = admit_all,
    admitted: Set[str] | None = None,
) -> AsyncIterator[Network]:
    """Starts dhtd and yields the Network; on leaving, dhtd and its p2pd are gone.

    `authority` is whose run state counts at first, see `set_authority`; without a `state` it keeps one of its own;
    `admit` says whose content is fetched (anybody can announce anything; hashes protect from wrong bytes, not from slow
    ones). `admitted` are the addresses whose records are kept, shown and believed at first, see `set_admitted`; None is
    everybody, for networks without a ledger. Exceptions of the body pass unchanged.
    Raises NetworkStartFailed.
    """
    data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    failure: Exception | None = None
    with closing(NodeState(data_dir)) if state is None else nullcontext(state) as kept:
        network = Network(
            config, account=account, domain=domain, authority=authority, data_dir=data_dir, state=kept, admit=admit,
            admitted=admitted,
        )  # fmt: skip
        async with trio.open_nursery() as nursery:
            try:
                await nursery.start(network._link.run)
                nursery.start_soon(network._announcer.refresh_forever)
                nursery.start_soon(network.content.name_providers_forever)
                nursery.start_soon(network._timing.follow_forever)
                yield network
            except Exception as error:  # raised again below, outside the nursery's group
                failure = error
            finally:
                nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure
