"""Decides what a response is worth: verified content, a lie, a silence or a "not yet".

Carries out a DownloadPlan over aiohttp. Every byte is bounded before it is hashed and hashed before it is kept. It
refuses redirects, compressed bodies and anything longer than asked for, and never returns content whose SHA-256 does
not fit.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import aiohttp

from dht.checkpoint import CheckpointFiles, ChunkWrong
from dht.manifest import ChunkPlace
from dht.plan import ChunkRequest, ContentUnavailable, DownloadPlan, told

CONNECT_TIMEOUT_S = 5.0
STALL_S = 20.0  # no byte for this long: the provider is silent
WAIT_S = 10.0  # asked of the provider's long poll; must stay below STALL_S


class _Lie(Exception):
    """The provider sent what it should not have."""


class _Silence(Exception):
    """The provider did not deliver: transport, timeout, truncation, absence."""


class _NotYet(Exception):
    """The provider expects the content itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchReport:
    """Who lied (URL → what was wrong) and who served how many verified bytes."""

    offenders: dict[str, str]
    served_bytes: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedReport:
    """One verified chunk of `size_bytes` came from `url` in `seconds`."""

    url: str
    size_bytes: int
    seconds: float


class Downloader:
    """Fetches blobs and checkpoints from base URLs. Open with `async with`; one asyncio loop."""

    def __init__(self, *, stall_s: float = STALL_S, wait_s: float = WAIT_S, rng: random.Random | None = None) -> None:
        self._wait_s, self._rng = wait_s, rng or random.Random()
        self._session = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S, sock_read=stall_s),
            connector=aiohttp.TCPConnector(limit=0), auto_decompress=False, trust_env=False,
            cookie_jar=aiohttp.DummyCookieJar(),
        )  # fmt: skip
        self._plans: dict[bytes, tuple[DownloadPlan, asyncio.Event]] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    def add_providers(self, content: bytes, urls: Sequence[str]) -> bool:
        """Makes a checkpoint download under way know more providers; False when there is none."""
        if (running := self._plans.get(content)) is None:
            return False
        for url in urls:
            running[0].add_provider(url)
        running[1].set()
        return True

    async def fetch_blob(self, sha256: bytes, urls: Sequence[str], max_bytes: int) -> tuple[bytes, FetchReport]:
        """The bytes of a blob, from the first provider that has them. Raises ContentUnavailable."""
        reasons: dict[str, str] = {}
        offenders: dict[str, str] = {}
        for url in self._rng.sample(list(urls), len(urls)):
            try:
                data = await self._get(f"{url}/blobs/{sha256.hex()}?wait_s={self._wait_s}", max_bytes, exact=None)
                if hashlib.sha256(data).digest() != sha256:
                    raise _Lie("bytes of another SHA-256")
            except _Lie as error:
                offenders[url] = reasons[url] = str(error)
            except (_Silence, _NotYet) as error:
                reasons[url] = str(error)
            else:
                return data, FetchReport(offenders=offenders, served_bytes={url: len(data)})
        raise ContentUnavailable(told(sha256, reasons))

    async def fetch_checkpoint(self, files: CheckpointFiles, urls: Sequence[str]) -> FetchReport:
        """Fetches the missing chunks into `files` and finishes it. Raises ContentUnavailable, CheckpointWrong."""
        plan, more = DownloadPlan(files.missing, urls, rng=self._rng), asyncio.Event()
        self._plans[files.content] = (plan, more)
        flights: dict[asyncio.Task[int], ChunkRequest] = {}
        try:
            while not plan.done:
                for request in plan.next(time.monotonic()):
                    flights[asyncio.create_task(self._fetch_chunk(files, request))] = request
                if plan.hopeless and not flights:
                    raise ContentUnavailable(told(files.content, plan.reasons))
                await self._wait_for_change(plan, flights, more)
        finally:
            for task, request in flights.items():
                task.cancel()
                plan.dropped(request)
            await asyncio.gather(*flights, return_exceptions=True)
            del self._plans[files.content]
        await files.finish()
        return FetchReport(offenders=plan.offenders, served_bytes=plan.served_bytes)

    async def measure_chunk(self, content: bytes, places: Sequence[ChunkPlace], urls: Sequence[str]) -> SpeedReport:
        """How fast one of the largest chunks arrives, from the first provider that has it; the bytes are dropped.

        Raises ContentUnavailable.
        """
        largest = max((place.size_bytes for place in places), default=0)
        index = self._rng.choice([i for i, place in enumerate(places) if place.size_bytes == largest] or [0])
        reasons: dict[str, str] = {} if places else dict.fromkeys(urls, "the checkpoint has no chunk")
        for url in [url for url in urls if url not in reasons]:
            began_s = time.monotonic()
            try:
                data = await self._get(f"{url}/chunks/{content.hex()}/{index}", largest, exact=largest)
            except (_Lie, _Silence, _NotYet) as error:
                reasons[url] = str(error)
                continue
            seconds = time.monotonic() - began_s
            if hashlib.sha256(data).digest() == places[index].sha256:
                return SpeedReport(url=url, size_bytes=largest, seconds=seconds)
            reasons[url] = "bytes of another SHA-256"
        raise ContentUnavailable(told(content, reasons))

    async def _wait_for_change(
        self, plan: DownloadPlan, flights: dict[asyncio.Task[int], ChunkRequest], more: asyncio.Event
    ) -> None:
        news = asyncio.create_task(more.wait())
        try:
            done, _ = await asyncio.wait(
                [*flights, news], timeout=plan.pause_s(time.monotonic()), return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            news.cancel()
        more.clear()
        for task in done - {news}:
            request, now_s = flights.pop(task), time.monotonic()
            try:
                size_bytes = task.result()
            except (_Lie, ChunkWrong) as error:
                plan.lied(request, str(error))
            except _NotYet:
                plan.not_yet(request, now_s)
            except _Silence as error:
                plan.failed(request, str(error), now_s)
            except BaseException:
                plan.dropped(request)  # ours (disk): the caller hears of it
                raise
            else:
                plan.delivered(request, size_bytes, now_s)

    async def _fetch_chunk(self, files: CheckpointFiles, request: ChunkRequest) -> int:
        size = files.places[request.index].size_bytes
        url = f"{request.provider}/chunks/{files.content.hex()}/{request.index}?wait_s={self._wait_s}"
        await files.write(request.index, await self._get(url, size, exact=size))
        return size

    async def _get(self, url: str, max_bytes: int, *, exact: int | None) -> bytes:
        """The body of a 200, at most `max_bytes`; `exact` bytes if given. Raises _Lie, _Silence, _NotYet."""
        try:
            async with self._session.get(url, allow_redirects=False) as response:
                if response.status == 503:
                    raise _NotYet("expects it itself")
                if response.status == 404:
                    raise _Silence("does not have it")
                if response.status != 200:
                    raise _Silence(f"status {response.status}")
                if response.content_length is not None and response.content_length > max_bytes:
                    raise _Lie(f"announces {response.content_length} bytes, at most {max_bytes} were asked")
                body = bytearray()
                async for block in response.content.iter_any():
                    body += block
                    if len(body) > max_bytes:
                        raise _Lie(f"sends more than the {max_bytes} bytes asked")
        except TimeoutError:
            raise _Silence("stalled") from None
        except (aiohttp.ClientError, ValueError, OSError) as error:
            raise _Silence(f"transport: {error!r}") from error
        if exact is not None and len(body) != exact:
            raise _Silence(f"truncated at {len(body)} of {exact} bytes")
        return bytes(body)
