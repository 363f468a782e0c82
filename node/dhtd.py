"""Decides how the directory child is put together.

Kademlia, content store, chunk server and downloader on one asyncio loop. Run as `python -m node.dhtd` by
node/dhtd_link.py. It holds no key of the wallet, signs nothing and decides nothing about membership: whom the ledger
admits it is told. When its stdin ends it stops p2pd and leaves.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
import time
import weakref
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from dht.admission import Admitted
from dht.chunk_server import ChunkServer, PortTaken
from dht.clock import ClockSample
from dht.directory import PublishRefused
from dht.download import Downloader
from dht.kademlia import KademliaDirectory
from dht.lean_hivemind import DHT_CLOCK
from dht.manifest import MAX_CHECKPOINT_BYTES, MAX_MANIFEST_BYTES, POLICY, check_asked, chunk_places, open_manifest
from dht.patching import policy, stage_delta, stage_result
from dht.plan import ContentUnavailable
from dht.records import Authority, RecordInvalid, SignedRecord, encode_record, open_record
from dht.signing import RecordDomain
from dht.store import MAX_BLOB_BYTES, ContentStore
from node.child_main import serve_asyncio

PUBLISH_AT_ONCE = 16
CLOSE_TIMEOUT_S = 4.0

log = logging.getLogger("dhtd")


class NotStarted(Exception):
    """A call came before `start`."""


class Dhtd:
    """The handlers. `start` once, then the rest in any order and overlapping."""

    def __init__(self) -> None:
        self._domain: RecordDomain | None = None
        self._admitted = Admitted(b"")
        self._store: ContentStore | None = None
        self._directory: KademliaDirectory | None = None
        self._server: ChunkServer | None = None
        self._downloader: Downloader | None = None
        self._locks: weakref.WeakValueDictionary[bytes, asyncio.Lock] = weakref.WeakValueDictionary()
        self._publishing = asyncio.Semaphore(PUBLISH_AT_ONCE)

    async def start(
        self, *, chain_id: int, contract: str, salt: bytes, run_id: bytes, manager: str, epoch: int, host: str,
        bulk_port: int, dht_port: int, bootstrap: Sequence[str], data_dir: str, keep_versions: int,
        bytes_per_s: float | None, chunk_size_bytes: int, client: bool = False, serve: bool = True,
        clock_offset_s: float | None = None, chain_clock: Sequence[float] = (), admitted: bytes | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        """Opens store, server if it is to `serve`, directory. Raises PortTaken, OSError, hivemind's P2PDaemonError.

        `clock_offset_s` is the network's time minus this machine's, if known from before; `chain_clock` is the
        chain's (offset, error), or empty. Bootstrap peers are asked for theirs before the directory is joined.
        `admitted` are the addresses whose records count, in a row; None admits everybody.
        """
        folder = Path(data_dir)
        DHT_CLOCK.correct(clock_offset_s or 0.0)
        self._domain = RecordDomain(chain_id=chain_id, contract=contract, salt=salt, run_id=run_id)
        self._admitted = Admitted(admitted)
        self._store = ContentStore(
            folder / "content", run_id=run_id, keep_versions=keep_versions, chunk_size_bytes=chunk_size_bytes
        )
        self._downloader = Downloader()
        bulk_url = ""
        if serve:
            self._server = ChunkServer(self._store, bytes_per_s=bytes_per_s)
            bulk_url = await self._server.start(host, bulk_port)
        if not client:
            check_port_free(host, dht_port)
        self._directory = await KademliaDirectory.open(
            domain=self._domain, authority=Authority(manager=manager, epoch=epoch), host=host, port=dht_port,
            bootstrap=bootstrap, data_dir=folder,
            chain_clock=ClockSample(offset_s=chain_clock[0], error_s=chain_clock[1]) if chain_clock else None,
            time_is_known=clock_offset_s is not None, client=client, admitted=self._admitted,
        )  # fmt: skip
        return {
            "bulk_url": bulk_url, "multiaddrs": await self._directory.multiaddrs(), "kept": self._kept(),
            "clock": await self.clock(),
        }  # fmt: skip

    async def clock(self) -> dict[str, Any]:
        """{offset_s: the network's time minus this machine's, stepped_s: how far somebody has set the latter since,
        verdict: [source, peers asked, doubted] of the last question to the bootstrap peers, or None}."""
        verdict = self._open_directory.clock_verdict
        return {
            "offset_s": DHT_CLOCK.offset_s, "stepped_s": DHT_CLOCK.stepped_s,
            "verdict": None if verdict is None else [verdict.source, verdict.asked, verdict.doubted],
        }  # fmt: skip

    async def set_clock(self, *, offset_s: float) -> None:
        """What the node found out since: records are judged by it from now on."""
        DHT_CLOCK.correct(offset_s)

    async def set_manager(self, *, manager: str, epoch: int) -> None:
        """From now on only this manager's run state counts, here and for what others store here."""
        self._open_directory.authority = Authority(manager=manager, epoch=epoch)

    async def change_admitted(self, *, add: bytes, remove: bytes) -> None:
        """From now on the records of these addresses count as well, and those of these no more."""
        self._admitted.change(add=add, remove=remove)

    async def publish(self, *, records: Sequence[bytes]) -> list[list[str]]:
        """Stores encoded records; per record [] or [error class, message]."""
        return list(await asyncio.gather(*map(self._publish_one, records)))

    async def lookup(self, *, keys: Sequence[str]) -> list[bytes]:
        """Encoded valid records under `keys`."""
        return [encode_record(record) for record in await self._open_directory.lookup(*keys)]

    async def add_blob(self, *, data: bytes) -> bytes:
        """Keeps bytes; returns the SHA-256."""
        return self._open_store.add_blob(data)

    async def remove_blob(self, *, sha256: bytes) -> None:
        """Forgets a blob."""
        self._open_store.remove_blob(sha256)

    async def publish_checkpoint(self, *, folder: str, version: int, kind: str, link: bool) -> dict[str, Any]:
        """Copies (or links) and cuts a flat folder; from now on it is served. Returns {manifest_hash, kept}."""
        store = self._open_store
        data = await asyncio.to_thread(partial(store.stage, Path(folder), version, kind=kind, link=link))
        return {"manifest_hash": store.seal(data), "kept": self._kept()}

    async def fetch_blob(self, *, sha256: bytes, urls: Sequence[str], max_bytes: int) -> dict[str, Any]:
        """Fetches a blob unless it is here; returns {path, offenders}."""
        async with self._lock(sha256):
            return await self._fetch(sha256, urls, max_bytes)

    async def fetch_checkpoint(
        self, *, manifest_hash: bytes, urls: Sequence[str], kind: str, max_bytes: int
    ) -> dict[str, Any]:
        """Fetches and verifies a checkpoint, serving its chunks meanwhile.

        Returns {folder, offenders, kept}. Raises ManifestInvalid for another kind or more bytes.
        """
        store = self._open_store
        with store.expecting(manifest_hash):
            async with self._lock(manifest_hash):
                found = await self._fetch(manifest_hash, urls, MAX_MANIFEST_BYTES)
                data = Path(found["path"]).read_bytes()
                check_asked(open_manifest(data, run_id=store.run_id), kind=kind, max_bytes=max_bytes)
                files = await store.begin(data)
                report = await self._open_downloader.fetch_checkpoint(files, urls)
        store.prune()
        return {
            "folder": str(files.folder), "offenders": {**found["offenders"], **report.offenders},
            "kept": self._kept(),
        }  # fmt: skip

    async def make_delta(self, *, base: bytes, result: bytes) -> dict[str, Any]:
        """Makes what turns one policy into another, both of them here; from now on it is served.

        Returns {manifest_hash, size_bytes, kept}. Raises StoreError.
        """
        store = self._open_store
        data = await asyncio.to_thread(stage_delta, store, base, result)
        size_bytes = open_manifest(data, run_id=store.run_id).size_bytes
        return {"manifest_hash": store.seal(data), "size_bytes": size_bytes, "kept": self._kept()}

    async def apply_delta(
        self, *, manifest_hash: bytes, base: bytes, delta: bytes, urls: Sequence[str]
    ) -> dict[str, Any]:
        """Makes policy `manifest_hash` of policy `base` and a delta, both of them here; its manifest comes from `urls`.

        Returns {folder, offenders, kept}. Raises StoreError, DeltaInvalid, ManifestInvalid, ContentUnavailable.
        """
        store = self._open_store
        with store.expecting(manifest_hash):
            async with self._lock(manifest_hash):
                found = await self._fetch(manifest_hash, urls, MAX_MANIFEST_BYTES)
                data = Path(found["path"]).read_bytes()
                check_asked(open_manifest(data, run_id=store.run_id), kind=POLICY, max_bytes=MAX_CHECKPOINT_BYTES)
                files = store.checkpoint(manifest_hash)
                if files is None or not files.complete:
                    await asyncio.to_thread(partial(stage_result, store, data, base=base, delta=delta))
                    store.seal(data)
        return {
            "folder": str(policy(store, manifest_hash).folder), "offenders": found["offenders"], "kept": self._kept(),
        }  # fmt: skip

    async def measure_chunk(self, *, manifest_hash: bytes, urls: Sequence[str]) -> dict[str, Any]:
        """Fetches one of the largest chunks of a checkpoint from the first of `urls` that has it, and forgets it.

        Returns {url, seconds, chunk_bytes, total_bytes}. Raises ContentUnavailable, ManifestInvalid.
        """
        async with self._lock(manifest_hash):
            found = await self._fetch(manifest_hash, urls, MAX_MANIFEST_BYTES)
        data = Path(found["path"]).read_bytes()
        manifest = open_manifest(data, run_id=self._record_domain.run_id)
        report = await self._open_downloader.measure_chunk(manifest_hash, chunk_places(manifest), urls)
        return {
            "url": report.url, "seconds": report.seconds, "chunk_bytes": report.size_bytes,
            "total_bytes": manifest.size_bytes,
        }  # fmt: skip

    async def add_providers(self, *, content: bytes, urls: Sequence[str]) -> None:
        """More providers for a checkpoint download under way."""
        self._open_downloader.add_providers(content, urls)

    async def status(self) -> dict[str, Any]:
        """What a person wants to know: peers in the table, bytes sent, checkpoints and how complete they are."""
        server, store = self._server, self._open_store
        return {
            "peers": self._open_directory.peers, "table": self._open_directory.table,
            "peer_id": self._open_directory.peer_id, "sent_bytes": server.sent_bytes if server else 0,
            "checkpoints": [
                {"version": f.manifest.version, "kind": f.manifest.kind, "manifest_hash": f.content,
                 "chunks": len(f.places), "chunks_here": sum(f.have), "complete": f.complete,
                 "folder": str(f.folder), "size_bytes": f.manifest.size_bytes}
                for f in store.checkpoints()
            ],
        }  # fmt: skip

    async def close(self) -> None:
        """Stops everything `start` made; what was not made is left out."""
        for part in (self._server, self._directory):
            if part is not None:
                await part.close()
        if self._downloader is not None:
            await self._downloader.__aexit__(None, None, None)

    @property
    def _record_domain(self) -> RecordDomain:
        if self._domain is None:
            raise NotStarted("dhtd was not started")
        return self._domain

    @property
    def _open_store(self) -> ContentStore:
        if self._store is None:
            raise NotStarted("dhtd was not started")
        return self._store

    @property
    def _open_directory(self) -> KademliaDirectory:
        if self._directory is None:
            raise NotStarted("dhtd was not started")
        return self._directory

    @property
    def _open_downloader(self) -> Downloader:
        if self._downloader is None:
            raise NotStarted("dhtd was not started")
        return self._downloader

    def _kept(self) -> tuple[int, list[bytes]]:
        """The complete checkpoints, and when that was so: replies may be read in another order than they were made."""
        return time.monotonic_ns(), [files.content for files in self._open_store.checkpoints() if files.complete]

    def _lock(self, content: bytes) -> asyncio.Lock:
        """One fetch of the same content at a time; the second finds it done."""
        return self._locks.setdefault(content, asyncio.Lock())

    async def _fetch(self, sha256: bytes, urls: Sequence[str], max_bytes: int) -> dict[str, Any]:
        store, offenders = self._open_store, dict[str, str]()
        if store.blob_path(sha256) is None:
            with store.expecting(sha256):
                data, report = await self._open_downloader.fetch_blob(sha256, urls, min(max_bytes, MAX_BLOB_BYTES))
                store.add_fetched(data)
                offenders = report.offenders
        return {"path": str(store.blob_path(sha256)), "offenders": offenders}

    async def _publish_one(self, data: bytes) -> list[str]:
        try:
            async with self._publishing:
                await self._open_directory.publish(self._open(data))
        except (RecordInvalid, PublishRefused) as error:
            return [type(error).__name__, str(error)]
        return []

    def _open(self, data: bytes) -> SignedRecord:
        return open_record(
            data, domain=self._record_domain, authority=self._open_directory.authority, admitted=self._admitted,
            now_unix_s=DHT_CLOCK.now_s(),
        )  # fmt: skip


def check_port_free(host: str, port: int) -> None:
    """Raises PortTaken when `port` is fixed and in use; p2pd itself would only time out."""
    if port:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError as error:
                raise PortTaken(f"DHT port {port} on {host} is in use; choose another") from error


async def serve() -> None:
    """Serves the handlers until stdin ends, then stops what was started, in CLOSE_TIMEOUT_S at most."""
    dhtd = Dhtd()
    names = ("start", "set_manager", "change_admitted", "publish", "lookup", "add_blob", "remove_blob",
             "publish_checkpoint", "make_delta", "apply_delta", "fetch_blob", "fetch_checkpoint", "measure_chunk",
             "add_providers", "status", "clock", "set_clock")  # fmt: skip
    try:
        await serve_asyncio({name: getattr(dhtd, name) for name in names}, expected=(ContentUnavailable, PortTaken))
    finally:
        try:
            await asyncio.wait_for(dhtd.close(), CLOSE_TIMEOUT_S)
        except TimeoutError:
            log.warning("closing took more than %.0f s; leaving anyway", CLOSE_TIMEOUT_S)


def main() -> None:
    """Entry point. On leaving, the own process group (p2pd) is told to end, however far `start` had come."""
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    try:
        asyncio.run(serve())
    finally:
        if os.getpgrp() == os.getpid():
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            os.killpg(0, signal.SIGTERM)


if __name__ == "__main__":
    main()
