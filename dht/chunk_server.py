"""Decides how content is served over HTTP: GET /blobs/<sha256> and GET /chunks/<manifest id>/<index>, nothing else.

A chunk that is on its way is long-polled: `?wait_s=` (at most MAX_WAIT_S), then 503 with Retry-After. What is neither
here nor expected is 404. It refuses uploads, ranges and lists; whoever asks gets public, content-addressed bytes
only.
"""

from __future__ import annotations

import asyncio
import errno
import time
from pathlib import Path

from aiohttp import web

from dht.store import ContentStore
from dht.throttle import Throttle

MAX_WAIT_S = 20.0
SLICE_BYTES = 256 * 1024
SEND_TIMEOUT_S = 120.0  # a peer that stops reading is dropped


class PortTaken(Exception):
    """Another program listens on the configured bulk port."""


class ChunkServer:
    """An aiohttp server over a ContentStore. `bytes_per_s` caps what it sends in total; None: no cap."""

    def __init__(self, store: ContentStore, *, bytes_per_s: float | None = None) -> None:
        self._store = store
        self._throttle = Throttle(bytes_per_s, burst_bytes=4 * SLICE_BYTES, now_s=time.monotonic())
        self._runner: web.AppRunner | None = None
        self.sent_bytes = 0

    async def start(self, host: str, port: int) -> str:
        """Listens on `host`:`port` (0: any) and returns the base URL. Raises PortTaken."""
        app = web.Application(client_max_size=1024)
        app.router.add_get("/blobs/{content:[0-9a-f]{64}}", self._blob, allow_head=False)
        app.router.add_get("/chunks/{content:[0-9a-f]{64}}/{index:[0-9]{1,9}}", self._chunk, allow_head=False)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5, handle_signals=False)
        await self._runner.setup()
        site = web.TCPSite(self._runner, host, port)
        try:
            await site.start()
        except OSError as error:
            await self._runner.cleanup()
            if error.errno == errno.EADDRINUSE:
                raise PortTaken(f"bulk port {port} on {host} is in use; choose another with --port") from error
            raise
        bound = self._runner.addresses[0]
        return f"http://{bound[0]}:{bound[1]}"

    async def close(self) -> None:
        """Stops listening and drops connections."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _blob(self, request: web.Request) -> web.StreamResponse:
        path = await self._store.wait_blob(bytes.fromhex(request.match_info["content"]), _wait_s(request))
        if path is None:
            return _absent(self._store.expects(bytes.fromhex(request.match_info["content"])))
        return await self._send(request, path, 0, path.stat().st_size)

    async def _chunk(self, request: web.Request) -> web.StreamResponse:
        content, index = bytes.fromhex(request.match_info["content"]), int(request.match_info["index"])
        deadline = time.monotonic() + _wait_s(request)
        if self._store.checkpoint(content) is None:
            await self._store.wait_blob(content, _wait_s(request))
        files = self._store.checkpoint(content)
        if files is None:
            return _absent(self._store.expects(content))
        if index >= len(files.places):
            return _absent(False)
        if not await files.wait(index, max(0.0, deadline - time.monotonic())):
            return _absent(True)
        place = files.places[index]
        return await self._send(request, files.folder / place.name, place.offset_bytes, place.size_bytes)

    async def _send(self, request: web.Request, path: Path, offset: int, size: int) -> web.StreamResponse:
        """sendfile of one slice after the other.

        The descriptor stays good when the folder is renamed or pruned meanwhile.
        """
        with path.open("rb") as handle:
            response = web.StreamResponse(headers={"Content-Type": "application/octet-stream"})
            response.content_length = size
            await response.prepare(request)
            loop = asyncio.get_running_loop()
            async with asyncio.timeout(SEND_TIMEOUT_S):
                for start in range(offset, offset + size, SLICE_BYTES):
                    count = min(SLICE_BYTES, offset + size - start)
                    await asyncio.sleep(self._throttle.reserve(count, time.monotonic()))
                    if request.transport is None:
                        raise ConnectionResetError("the peer left")
                    await loop.sendfile(request.transport, handle, start, count)
                    self.sent_bytes += count
        return response


def _wait_s(request: web.Request) -> float:
    try:
        wait_s = float(request.query.get("wait_s", "0"))
    except ValueError:
        raise web.HTTPBadRequest(text="wait_s is a number of seconds") from None
    return wait_s if 0.0 <= wait_s <= MAX_WAIT_S else MAX_WAIT_S


def _absent(expected: bool) -> web.Response:
    if expected:
        return web.Response(status=503, headers={"Retry-After": "0"}, text="on its way")
    return web.Response(status=404, text="not here")
