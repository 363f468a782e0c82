"""Decides how a node (trio) uses the directory and moves content.

Signs and refreshes its records, finds providers, keeps dhtd alive. Implements dht.directory.Directory over the dhtd
child. Private keys stay here. It refuses to give up on a dead child or on silent bootstrap peers (back-off, one clear
log line each time), and to hand out content that the child has not verified.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, closing, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trio

from dht.clock import ClockSample, NetworkClock
from dht.manifest import CHUNK_SIZE_BYTES, MAX_CHECKPOINT_BYTES, POLICY
from dht.plan import ContentUnavailable
from dht.records import (
    DEFAULT_LIFETIME_S,
    MAX_LIFETIME_S,
    Authority,
    NodeRecord,
    ProviderRecord,
    RecordInvalid,
    RunStateRecord,
    SignedRecord,
    node_key,
    open_record,
    provider_key,
    run_state_key,
)
from dht.signing import RecordDomain, Signer
from dht.store import KEEP_VERSIONS
from node.announcer import Announcer
from node.clock_follower import ClockFollower
from node.dhtd_link import DhtdLink, NetworkDown
from node.state import NodeState

MORE_PROVIDERS_S = 5.0
RETRY_FIRST_S, RETRY_LAST_S = 0.25, 5.0
MAX_ANNOUNCED_BLOBS = 64  # one signature and one store each, every third of a lifetime

log = logging.getLogger(__name__)
Admit = Callable[[str], Awaitable[bool]]


async def admit_all(address: str) -> bool:
    """For networks without a ledger."""
    return True


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
    ) -> None:
        self._config, self._account, self._domain, self._admit = config, account, domain, admit
        self.authority = authority
        chain = config.chain_clock
        self._link = DhtdLink({
            "chain_id": domain.chain_id, "contract": domain.contract, "salt": domain.salt, "run_id": domain.run_id,
            "manager": authority.manager, "epoch": authority.epoch, "host": config.host, "bulk_port": config.bulk_port,
            "dht_port": config.dht_port, "bootstrap": config.bootstrap, "data_dir": str(data_dir.absolute()),
            "keep_versions": config.keep_versions, "bytes_per_s": config.bytes_per_s,
            "chunk_size_bytes": config.chunk_size_bytes, "client": config.client, "serve": config.serve,
            "chain_clock": [chain.offset_s, chain.error_s] if chain else [],
        }, data_dir=data_dir, on_start=self._started, fresh_params=lambda: self._timing.start_params())  # fmt: skip
        self._timing = ClockFollower(self._link, on_change=lambda: self._announcer.refresh_soon())
        self._announcer = Announcer(
            self._link, account=account, domain=domain, lifetime_s=config.lifetime_s, state=state, clock=self.clock,
        )  # fmt: skip
        self._checkpoints: set[bytes] = set()
        self._arriving: Counter[bytes] = Counter()
        self.bulk_url = ""
        self.multiaddrs: tuple[str, ...] = ()
        self.offenders: dict[str, str] = {}  # base URL → what it sent wrongly

    async def set_authority(self, authority: Authority) -> None:
        """Believe another manager, or the same one in a later lease, from now on. Raises NetworkDown (it then counts
        from dhtd's restart on).
        """
        self.authority = authority
        self._link.remember(manager=authority.manager, epoch=authority.epoch)
        await self._link.call("set_manager", manager=authority.manager, epoch=authority.epoch)

    async def publish(self, record: SignedRecord) -> None:
        """See Directory. Also raises NetworkDown."""
        await self._announcer.publish(record)

    async def lookup(self, key: str) -> tuple[SignedRecord, ...]:
        """See Directory. Also raises NetworkDown."""
        records = []
        for value in await self._link.call("lookup", key=key):
            try:
                now = self.clock.now_s()
                records.append(open_record(value, domain=self._domain, authority=self.authority, now_unix_s=now))
            except RecordInvalid as fault:  # it may have expired on its way here from dhtd
                log.info("a record of %s is left out: %s", key, fault)
        return tuple(records)

    async def announce_node(
        self, *, peer_id: str, roles: Sequence[str], multiaddrs: Sequence[str], sealed: bytes = b"", x25519: bytes = b""
    ) -> None:
        """Publishes who this node is until `withdraw_node` or closing.

        Raises RecordInvalid, PublishRefused, NetworkDown.
        """
        await self._announcer.announce(("node", b""), NodeRecord(
            address=self._account.address, peer_id=peer_id, roles=tuple(roles), multiaddrs=tuple(multiaddrs),
            bulk_url=self.bulk_url, sealed=sealed, x25519=x25519,
        ))  # fmt: skip

    def update_node(self, *, peer_id: str, roles: Sequence[str], sealed: bytes) -> None:
        """Publishes a newly sealed contact in place of the last one, in a moment."""
        self._announcer.announce_soon(("node", b""), NodeRecord(
            address=self._account.address, peer_id=peer_id, roles=tuple(roles), multiaddrs=(), bulk_url=self.bulk_url,
            sealed=sealed,
        ))  # fmt: skip

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

    def announce_content(self, content: bytes) -> None:
        """Keeps this node published as a provider of a blob or checkpoint it holds or is fetching, from a moment on.

        One that does not serve stays unnamed.
        """
        if not self._config.serve:
            return
        record = ProviderRecord(address=self._account.address, content=content, bulk_url=self.bulk_url)
        self._announcer.announce_soon(("provider", content), record)
        checkpoints = self._checkpoints | set(+self._arriving)
        blobs = [c for kind, c in self._announcer.slots if kind == "provider" and c not in checkpoints]
        for old in blobs[:-MAX_ANNOUNCED_BLOBS]:
            self.withdraw_content(old)

    def withdraw_content(self, content: bytes) -> None:
        """Stops refreshing a provider record; it is gone within its lifetime."""
        self._announcer.withdraw(("provider", content))

    def withdraw_node(self) -> None:
        """Stops refreshing the node record; it is gone within its lifetime."""
        self._announcer.withdraw(("node", b""))

    async def nodes(self) -> tuple[SignedRecord, ...]:
        """Every live node; `.content` is its NodeRecord."""
        return await self.lookup(node_key(self._domain.run_id))

    async def run_state(self) -> RunStateRecord | None:
        """The manager's newest word, or None while nobody has it."""
        records = await self.lookup(run_state_key(self._domain.run_id))
        contents = [record.content for record in records if isinstance(record.content, RunStateRecord)]
        return contents[0] if contents else None

    async def providers(self, content: bytes) -> tuple[str, ...]:
        """Base URLs of the other nodes that serve `content`, as far as `admit` lets them in."""
        records = await self.lookup(provider_key(self._domain.run_id, content))
        bodies = [r.content for r in records if r.subject != self._account.address and await self._admit(r.subject)]
        return tuple(body.bulk_url for body in bodies if isinstance(body, ProviderRecord))

    async def add_blob(self, data: bytes | Path, *, announce: bool = True) -> bytes:
        """Keeps bytes (or a file's) of at most 64 MiB, serves them, returns their SHA-256. Raises StoreError."""
        where = {"path": str(data.absolute())} if isinstance(data, Path) else {"data": data}
        sha256 = await self._link.call("add_blob", **where)
        if announce:
            self.announce_content(sha256)
        return sha256

    async def remove_blob(self, sha256: bytes) -> None:
        """Forgets a blob and stops announcing it."""
        self.withdraw_content(sha256)
        await self._link.call("remove_blob", sha256=sha256)

    async def publish_checkpoint(
        self, folder: Path, version: int, *, kind: str = POLICY, link: bool = False, timeout_s: float = 600.0
    ) -> bytes:
        """Cuts, serves and announces a flat folder; returns the manifest hash, for the ledger or the run state.

        `link`: the folder's files are never changed afterwards and need not be copied.
        Raises StoreError (not flat), NetworkDown.
        """
        made = await self._link.call(
            "publish_checkpoint", timeout_s=timeout_s, folder=str(folder.absolute()), version=version, kind=kind,
            link=link,
        )  # fmt: skip
        self._keep_checkpoints(made["kept"])
        self.announce_content(made["manifest_hash"])
        return made["manifest_hash"]

    async def fetch_blob(
        self, sha256: bytes, *, max_bytes: int, timeout_s: float, urls: Sequence[str] = (), announce: bool = False
    ) -> Path:
        """A verified blob's path, from `urls` and whoever the directory names; retries until `timeout_s`.

        Raises ContentUnavailable.
        """

        async def attempt(providers: Sequence[str], left_s: float) -> Any:
            return await self._link.call(
                "fetch_blob", timeout_s=left_s, sha256=sha256, urls=providers, max_bytes=max_bytes
            )

        found = await self._fetch(sha256, urls, timeout_s, attempt)
        if announce:
            self.announce_content(sha256)
        return Path(found["path"])

    async def fetch_checkpoint(
        self, manifest_hash: bytes, *, timeout_s: float, dest: Path | None = None, urls: Sequence[str] = (),
        announce: bool = True, kind: str = POLICY, max_bytes: int = MAX_CHECKPOINT_BYTES,
    ) -> Path:  # fmt: skip
        """A verified checkpoint folder (a copy at `dest` if given.

        Else the store's own: read only, pruned with its version). With `announce` this node is a provider
        from the start and serves chunks as they arrive. Raises ContentUnavailable after `timeout_s`,
        ManifestInvalid (also for another kind, or more than `max_bytes`) or CheckpointWrong at once (take the next
        version).
        """
        target = None if dest is None else str(dest.absolute())

        async def attempt(providers: Sequence[str], left_s: float) -> Any:
            return await self._link.call(
                "fetch_checkpoint", timeout_s=left_s, manifest_hash=manifest_hash, urls=providers, dest=target,
                kind=kind, max_bytes=max_bytes,
            )  # fmt: skip

        self._arriving[manifest_hash] += 1
        if announce:
            self.announce_content(manifest_hash)
        try:
            found = await self._fetch(manifest_hash, urls, timeout_s, attempt)
            self._keep_checkpoints(found["kept"])
        finally:
            self._arriving[manifest_hash] -= 1
            if manifest_hash not in self._checkpoints:
                self.withdraw_content(manifest_hash)
        return Path(found["folder"])

    async def status(self) -> dict[str, Any]:
        """{peers, sent_bytes, checkpoints: [{version, manifest_hash, chunks, chunks_here, complete}]} of dhtd."""
        return await self._link.call("status")

    async def measure_chunk(self, manifest_hash: bytes, urls: Sequence[str], *, timeout_s: float) -> dict[str, Any]:
        """{url, seconds, chunk_bytes, total_bytes}: how fast a chunk comes from the first of `urls` that has it.

        Raises ContentUnavailable, ManifestInvalid, NetworkDown (also after `timeout_s`).
        """
        return await self._link.call("measure_chunk", timeout_s=timeout_s, manifest_hash=manifest_hash, urls=urls)

    @property
    def clock(self) -> NetworkClock:
        """The network's time: what records are dated and judged by."""
        return self._timing.clock

    async def correct_clock(self, offset_s: float) -> None:
        """From now on the network's time is this machine's clock plus `offset_s`. Raises NetworkDown."""
        await self._timing.correct(offset_s)

    def _started(self, result: dict[str, Any]) -> None:
        self.bulk_url, self.multiaddrs = result["bulk_url"], tuple(result["multiaddrs"])
        self._timing.take(result["clock"])
        self._keep_checkpoints(result["kept"])
        for content in result["kept"]:
            self.announce_content(content)
        self._announcer.refresh_soon()

    async def _fetch(
        self, content: bytes, urls: Sequence[str], timeout_s: float,
        attempt: Callable[[Sequence[str], float], Awaitable[dict[str, Any]]],
    ) -> dict[str, Any]:  # fmt: skip
        """Attempts with back-off and fresh providers until `timeout_s`."""
        deadline, delay_s = trio.current_time() + timeout_s, RETRY_FIRST_S
        while True:
            try:
                providers = list(dict.fromkeys([*urls, *await self.providers(content)]))
                found = await attempt(providers, max(0.1, deadline - trio.current_time()))
            except (ContentUnavailable, NetworkDown) as error:
                if trio.current_time() + delay_s > deadline:
                    raise ContentUnavailable(f"{error} (gave up after {timeout_s:.0f} s)") from error
                log.info("%s; trying again in %.1f s", error, delay_s)
                await trio.sleep(delay_s)
                delay_s = min(2 * delay_s, RETRY_LAST_S)
                continue
            for url, reason in found["offenders"].items():
                log.warning("provider %s sent wrong bytes for %s: %s", url, content.hex(), reason)
                self.offenders[url] = reason
            return found

    async def name_providers_forever(self) -> None:
        """Tells dhtd of providers that appeared while a checkpoint arrives."""
        while True:
            await trio.sleep(MORE_PROVIDERS_S)
            for content in +self._arriving:
                try:
                    await self._link.call("add_providers", content=content, urls=await self.providers(content))
                except NetworkDown as error:
                    log.warning("no new providers for %s: %s", content.hex(), error)

    def _keep_checkpoints(self, kept: Sequence[bytes]) -> None:
        """Stops announcing checkpoints that the store has pruned."""
        for content in self._checkpoints - set(kept):
            self.withdraw_content(content)
        self._checkpoints = set(kept)


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
) -> AsyncIterator[Network]:
    """Starts dhtd and yields the Network; on leaving, dhtd and its p2pd are gone.

    `authority` is whose run state counts at first, see `set_authority`; without a `state` it keeps one of its own;
    `admit` says whose content is fetched (anybody can announce anything; hashes protect from wrong bytes, not from slow
    ones). Exceptions of the body pass unchanged.
    Raises NetworkStartFailed.
    """
    data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    failure: Exception | None = None
    with closing(NodeState(data_dir)) if state is None else nullcontext(state) as kept:
        network = Network(
            config, account=account, domain=domain, authority=authority, data_dir=data_dir, state=kept, admit=admit
        )
        async with trio.open_nursery() as nursery:
            try:
                await nursery.start(network._link.run)
                nursery.start_soon(network._announcer.refresh_forever)
                nursery.start_soon(network.name_providers_forever)
                nursery.start_soon(network._timing.follow_forever)
                yield network
            except Exception as error:  # raised again below, outside the nursery's group
                failure = error
            finally:
                nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure
