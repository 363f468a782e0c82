"""Content in the network: blobs and checkpoints by their hash, served, found, fetched and named.

Decides who is asked for bytes and how long, and which providers this node's records name. It refuses to hand out what
dhtd has not verified, to fetch from whom the ledger does not admit, and to give up before the caller's time is over.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import trio

from dht.keys import provider_key
from dht.manifest import DELTA, MAX_CHECKPOINT_BYTES, POLICY
from dht.plan import ContentUnavailable
from dht.records import ProviderRecord, SignedRecord
from node.announcer import Announcer
from node.dhtd_link import DhtdLink, NetworkDown

MORE_PROVIDERS_S = 5.0
RETRY_FIRST_S, RETRY_LAST_S = 0.25, 5.0
MAX_ANNOUNCED_BLOBS = 64  # one signature and one store each, every third of a lifetime

log = logging.getLogger(__name__)
Admit = Callable[[str], Awaitable[bool]]
Lookup = Callable[..., Awaitable[tuple[SignedRecord, ...]]]


async def admit_all(address: str) -> bool:
    """For networks without a ledger."""
    return True


class Content:
    """What this node holds and fetches. `admit` says by address whose content is fetched."""

    def __init__(
        self, link: DhtdLink, announcer: Announcer, *, run_id: bytes, address: str, serves: bool, lookup: Lookup,
        admit: Admit,
    ) -> None:  # fmt: skip
        self._link, self._announcer, self._run_id, self._address = link, announcer, run_id, address
        self._serves, self._lookup, self._admit = serves, lookup, admit
        self._checkpoints: set[bytes] = set()
        self._kept_at = 0
        self._arriving: Counter[bytes] = Counter()
        self.bulk_url = ""
        """Where this node's chunk server is; empty before the start and without one."""

    def started(self, *, bulk_url: str, kept: tuple[int, Sequence[bytes]]) -> None:
        """dhtd has (re)started and holds these checkpoints, which are announced anew."""
        self.bulk_url = bulk_url
        self._keep_checkpoints(kept)
        for content in self._checkpoints:
            self.announce(content)

    def announce(self, content: bytes) -> None:
        """Keeps this node published as a provider of a blob or checkpoint it holds or is fetching, from a moment on.

        One that does not serve stays unnamed.
        """
        if not self._serves:
            return
        record = ProviderRecord(address=self._address, content=content, bulk_url=self.bulk_url)
        self._announcer.announce_soon(("provider", content), record)
        checkpoints = self._checkpoints | set(+self._arriving)
        blobs = [c for kind, c in self._announcer.slots if kind == "provider" and c not in checkpoints]
        for old in blobs[:-MAX_ANNOUNCED_BLOBS]:
            self.withdraw(old)

    def withdraw(self, content: bytes) -> None:
        """Stops refreshing a provider record; it is gone within its lifetime."""
        self._announcer.withdraw(("provider", content))

    async def providers(self, content: bytes) -> tuple[str, ...]:
        """Base URLs of the other nodes that serve `content`, as far as `admit` lets them in."""
        records = await self._lookup(provider_key(self._run_id, content))
        bodies = [r.content for r in records if r.subject != self._address and await self._admit(r.subject)]
        return tuple(body.bulk_url for body in bodies if isinstance(body, ProviderRecord))

    async def add_blob(self, data: bytes, *, announce: bool = True) -> bytes:
        """Keeps at most 64 MiB, serves them, returns their SHA-256. Raises StoreError.

        Without `announce` whoever wants them must know where to ask.
        """
        sha256 = await self._link.call("add_blob", data=data)
        if announce:
            self.announce(sha256)
        return sha256

    async def remove_blob(self, sha256: bytes) -> None:
        """Forgets a blob and stops announcing it."""
        self.withdraw(sha256)
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
        self.announce(made["manifest_hash"])
        return made["manifest_hash"]

    async def fetch_blob(self, sha256: bytes, *, max_bytes: int, timeout_s: float, urls: Sequence[str] = ()) -> Path:
        """A verified blob's path, from `urls` and whoever the directory names; retries until `timeout_s`.

        Raises ContentUnavailable.
        """

        async def attempt(providers: Sequence[str], left_s: float) -> Any:
            return await self._link.call(
                "fetch_blob", timeout_s=left_s, sha256=sha256, urls=providers, max_bytes=max_bytes
            )

        found = await self._fetch(sha256, urls, timeout_s, attempt)
        return Path(found["path"])

    async def fetch_checkpoint(
        self, manifest_hash: bytes, *, timeout_s: float, urls: Sequence[str] = (), announce: bool = True,
        kind: str = POLICY, max_bytes: int = MAX_CHECKPOINT_BYTES, patience_s: float = math.inf,
    ) -> Path:  # fmt: skip
        """A verified checkpoint folder, the store's own: read only, pruned with its version.

        With `announce` this node is a provider from the start and serves chunks as they arrive. Raises
        ContentUnavailable after `timeout_s`, or where nobody delivers it after `patience_s`; ManifestInvalid (also for
        another kind, or more than `max_bytes`) or CheckpointWrong at once (take the next version).
        """

        async def attempt(providers: Sequence[str], left_s: float) -> Any:
            return await self._link.call(
                "fetch_checkpoint", timeout_s=left_s, manifest_hash=manifest_hash, urls=providers, kind=kind,
                max_bytes=max_bytes,
            )  # fmt: skip

        self._arriving[manifest_hash] += 1
        if announce:
            self.announce(manifest_hash)
        try:
            found = await self._fetch(manifest_hash, urls, timeout_s, attempt, patience_s)
            self._keep_checkpoints(found["kept"])
        finally:
            self._arriving[manifest_hash] -= 1
            if manifest_hash not in self._checkpoints:
                self.withdraw(manifest_hash)
        return Path(found["folder"])

    async def make_delta(self, base: bytes, result: bytes, *, timeout_s: float = 600.0) -> tuple[bytes, int]:
        """Makes, serves and announces what turns policy `base` into `result`, both of them here.

        Returns its manifest hash and its size in bytes. Raises StoreError (also where it saves nothing), NetworkDown.
        """
        made = await self._link.call("make_delta", timeout_s=timeout_s, base=base, result=result)
        self._keep_checkpoints(made["kept"])
        self.announce(made["manifest_hash"])
        return made["manifest_hash"], made["size_bytes"]

    async def fetch_by_delta(
        self, manifest_hash: bytes, *, base: bytes, delta: bytes, max_bytes: int, timeout_s: float, patience_s: float,
        announce: bool = True,
    ) -> Path:  # fmt: skip
        """Policy `manifest_hash` as a delta to policy `base`, which is here: as `fetch_checkpoint`, in fewer bytes.

        Raises ContentUnavailable as `fetch_checkpoint`; DeltaInvalid, StoreError and ManifestInvalid at once (fetch all
        of the policy instead).
        """
        deadline = trio.current_time() + timeout_s
        await self.fetch_checkpoint(
            delta, timeout_s=timeout_s, announce=announce, kind=DELTA, max_bytes=max_bytes, patience_s=patience_s
        )

        async def attempt(providers: Sequence[str], left_s: float) -> Any:
            return await self._link.call(
                "apply_delta", timeout_s=left_s, manifest_hash=manifest_hash, base=base, delta=delta, urls=providers
            )

        found = await self._fetch(manifest_hash, (), deadline - trio.current_time(), attempt, patience_s)
        self._keep_checkpoints(found["kept"])
        if announce:
            self.announce(manifest_hash)
        return Path(found["folder"])

    async def measure_chunk(self, manifest_hash: bytes, urls: Sequence[str], *, timeout_s: float) -> dict[str, Any]:
        """{url, seconds, chunk_bytes, total_bytes}: how fast a chunk comes from the first of `urls` that has it.

        Raises ContentUnavailable, ManifestInvalid, NetworkDown (also after `timeout_s`).
        """
        return await self._link.call("measure_chunk", timeout_s=timeout_s, manifest_hash=manifest_hash, urls=urls)

    async def _fetch(
        self, content: bytes, urls: Sequence[str], timeout_s: float,
        attempt: Callable[[Sequence[str], float], Awaitable[dict[str, Any]]], patience_s: float = math.inf,
    ) -> dict[str, Any]:  # fmt: skip
        """Attempts with back-off and fresh providers until `timeout_s`; none begins after `patience_s`."""
        began, delay_s = trio.current_time(), RETRY_FIRST_S
        deadline, last_try = began + timeout_s, began + min(timeout_s, patience_s)
        while True:
            try:
                providers = list(dict.fromkeys([*urls, *await self.providers(content)]))
                found = await attempt(providers, max(0.1, deadline - trio.current_time()))
            except (ContentUnavailable, NetworkDown) as error:
                if trio.current_time() + delay_s > last_try:
                    raise ContentUnavailable(f"{error} (gave up after {last_try - began:.0f} s)") from error
                log.info("%s; trying again in %.1f s", error, delay_s)
                await trio.sleep(delay_s)
                delay_s = min(2 * delay_s, RETRY_LAST_S)
                continue
            for url, reason in found["offenders"].items():
                log.warning("provider %s sent wrong bytes for %s: %s", url, content.hex(), reason)
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

    def _keep_checkpoints(self, kept: tuple[int, Sequence[bytes]]) -> None:
        """Stops announcing checkpoints that the store has pruned, as the newest reply has it.

        Of two calls at once the earlier reply may be read last; what the later one added is not pruned for that.
        """
        at, contents = kept
        if at < self._kept_at:
            return
        for content in self._checkpoints - set(contents):
            self.withdraw(content)
        self._kept_at, self._checkpoints = at, set(contents)
