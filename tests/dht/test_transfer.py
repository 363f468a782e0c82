"""Chunk server and downloader over real HTTP on loopback, with providers that lie, stall, cut short and overrun."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from dht.checkpoint import CheckpointFiles, CheckpointWrong
from dht.chunk_server import ChunkServer, PortTaken
from dht.download import Downloader
from dht.manifest import POLICY, chunk_places, encode_manifest, open_manifest
from dht.plan import ContentUnavailable
from dht.signing import RecordDomain
from dht.store import ContentStore

CHUNK = 1024
LIMIT_S = 20.0


class World:
    """A trainer's store with one published checkpoint, and makers of other stores."""

    def __init__(self, base: Path, folder: Path, domain: RecordDomain) -> None:
        self.base, self.domain, self.folder = base, domain, folder
        self.trainer = self.store("trainer")
        self.content = self.trainer.seal(self.trainer.stage(folder, 1, kind=POLICY))
        path = self.trainer.blob_path(self.content)
        assert path is not None
        self.manifest = path.read_bytes()

    def store(self, name: str) -> ContentStore:
        return ContentStore(self.base / name, run_id=self.domain.run_id, chunk_size_bytes=CHUNK)

    def check(self, files: CheckpointFiles) -> None:
        assert files.complete
        assert {p.name: p.read_bytes() for p in files.folder.iterdir()} == {
            p.name: p.read_bytes() for p in self.folder.iterdir()
        }


@pytest.fixture
def world(tmp_path: Path, folder: Path, domain: RecordDomain) -> World:
    async def make() -> World:
        return World(tmp_path, folder, domain)

    return asyncio.run(make())


@asynccontextmanager
async def serving(store: ContentStore, **options: float) -> AsyncIterator[str]:
    server = ChunkServer(store, **options)
    url = await server.start("127.0.0.1", 0)
    try:
        yield url
    finally:
        await server.close()


@asynccontextmanager
async def hostile(handler: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_get("/{tail:.*}", handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield "http://{}:{}".format(*runner.addresses[0])
    finally:
        await runner.cleanup()


def run(story: Callable[[], Awaitable[None]]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(LIMIT_S):
            await story()

    asyncio.run(limited())


def downloader(**options: float) -> Downloader:
    return Downloader(rng=random.Random(1), **options)


async def poisoned(_: web.Request) -> web.StreamResponse:
    return web.Response(body=b"\0" * CHUNK)


async def oversized(_: web.Request) -> web.StreamResponse:
    return web.Response(body=bytes(CHUNK + 1))


async def endless(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    with contextlib.suppress(ConnectionError):
        while True:
            await response.write(bytes(65536))
    return response


async def truncating(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    response.content_length = 14
    await response.prepare(request)
    await response.write(b"half")
    assert request.transport is not None
    request.transport.close()
    return response


async def short(_: web.Request) -> web.StreamResponse:
    return web.Response(body=b"short")


async def stalled(_: web.Request) -> web.StreamResponse:
    await asyncio.Event().wait()
    return web.Response()


async def redirecting(_: web.Request) -> web.StreamResponse:
    raise web.HTTPFound("http://127.0.0.1:1/")


def test_a_checkpoint_travels_whole(world: World) -> None:
    async def story() -> None:
        async with serving(world.trainer) as url, downloader() as client:
            data, _ = await client.fetch_blob(world.content, [url], 10_000)
            files = await world.store("worker").begin(data)
            report = await client.fetch_checkpoint(files, [url])
            world.check(files)
            assert report.offenders == {}
            assert report.served_bytes == {url: files.manifest.size_bytes}

    run(story)


@pytest.mark.parametrize("lie", [poisoned, oversized, endless])
def test_a_liar_is_named_and_the_checkpoint_still_arrives(
    world: World, lie: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> None:
    async def story() -> None:
        async with serving(world.trainer) as honest, hostile(lie) as liar, downloader() as client:
            files = await world.store("worker").begin(world.manifest)
            report = await client.fetch_checkpoint(files, [liar, honest])
            world.check(files)
            assert set(report.offenders) == {liar}

    run(story)


@pytest.mark.parametrize("fault", [truncating, short, stalled, redirecting])
def test_a_faulty_provider_is_passed_by_without_blame(
    world: World, fault: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> None:
    async def story() -> None:
        async with serving(world.trainer) as honest, hostile(fault) as faulty, downloader(stall_s=0.3) as client:
            files = await world.store("worker").begin(world.manifest)
            report = await client.fetch_checkpoint(files, [faulty, honest])
            world.check(files)
            assert report.offenders == {}
            assert report.served_bytes[faulty] == 0

    run(story)


@pytest.mark.parametrize("fault", [poisoned, truncating])
def test_alone_with_a_bad_provider_it_gives_up_and_says_why(
    world: World, fault: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> None:
    async def story() -> None:
        async with hostile(fault) as url, downloader() as client:
            files = await world.store("worker").begin(world.manifest)
            with pytest.raises(ContentUnavailable, match=url):
                await client.fetch_checkpoint(files, [url])
            assert not files.complete
            with pytest.raises(ContentUnavailable, match=url):
                await client.fetch_blob(world.content, [url], 10_000)

    run(story)


def test_resume_takes_up_what_is_there_and_rechecks_it(world: World) -> None:
    async def story() -> None:
        async with serving(world.trainer) as url, downloader() as client:
            trainer = world.trainer.checkpoint(world.content)
            assert trainer is not None
            first = await world.store("worker").begin(world.manifest)
            model = (world.folder / "model.safetensors").read_bytes()
            offset = len(first.places) - len(range(0, len(model), CHUNK))
            for number in range(4):
                await first.write(offset + number, model[number * CHUNK : (number + 1) * CHUNK])
            with (first.folder / "model.safetensors").open("r+b") as handle:
                handle.write(b"rotten")  # the disk lied about the first of them
            again = await world.store("worker").begin(world.manifest)
            assert sum(again.have) == 3
            report = await client.fetch_checkpoint(again, [url])
            world.check(again)
            assert report.served_bytes == {url: again.manifest.size_bytes - 3 * CHUNK}

    run(story)


def test_a_relay_serves_the_first_chunk_before_it_has_the_last(world: World) -> None:
    async def story() -> None:
        relay, gate = world.store("relay"), asyncio.Event()
        served = await world.trainer.begin(world.manifest)
        last = len(served.places) - 1

        async def trainer(request: web.Request) -> web.StreamResponse:
            index = int(request.path.rsplit("/", 1)[1])
            if index == last:
                await gate.wait()
            place = served.places[index]
            data = (served.folder / place.name).read_bytes()
            return web.Response(body=data[place.offset_bytes : place.offset_bytes + place.size_bytes])

        async with (
            hostile(trainer) as origin, serving(relay) as relay_url, downloader() as client, downloader() as other,
        ):  # fmt: skip
            files = await relay.begin(world.manifest)
            filling = asyncio.create_task(client.fetch_checkpoint(files, [origin]))
            async with aiohttp.ClientSession() as session:
                base = f"{relay_url}/chunks/{world.content.hex()}"
                async with session.get(f"{base}/0?wait_s=10") as response:
                    assert response.status == 200
                    assert len(await response.read()) == files.places[0].size_bytes
                assert not files.have[last]
                async with session.get(f"{base}/{last}") as response:
                    assert response.status == 503
            worker = await world.store("worker").begin(world.manifest)
            following = asyncio.create_task(other.fetch_checkpoint(worker, [relay_url]))
            assert await worker.wait(last - 1, 10)
            assert not filling.done()
            gate.set()
            await asyncio.gather(filling, following)
            world.check(worker)

    run(story)


def test_a_provider_that_appears_later_is_used(world: World) -> None:
    async def story() -> None:
        async with serving(world.trainer) as honest, hostile(stalled) as silent, downloader(stall_s=0.5) as client:
            files = await world.store("worker").begin(world.manifest)
            fetching = asyncio.create_task(client.fetch_checkpoint(files, [silent]))
            while not client.add_providers(world.content, [honest]) and not fetching.done():
                await asyncio.wait([fetching], timeout=0.01)
            await fetching
            world.check(files)

    run(story)


def test_a_manifest_that_contradicts_itself_never_becomes_a_checkpoint(world: World) -> None:
    async def story() -> None:
        manifest = open_manifest(world.manifest, run_id=world.domain.run_id)
        files = tuple(replace(file, sha256=b"x" * 32) for file in manifest.files)
        arriving = await world.store("worker").begin(encode_manifest(replace(manifest, files=files)))
        for index, place in enumerate(arriving.places):
            chunk = (world.folder / place.name).read_bytes()[place.offset_bytes :][: place.size_bytes]
            await arriving.write(index, chunk)
        with pytest.raises(CheckpointWrong, match=r"model\.safetensors"):
            await arriving.finish()
        assert not arriving.complete
        assert len(arriving.missing) == len(arriving.places)

    run(story)


def test_what_the_server_answers(world: World) -> None:
    async def story() -> None:
        async with serving(world.trainer) as url, aiohttp.ClientSession() as session:
            name, unknown = world.content.hex(), "0" * 64
            for path, status in (
                (f"/blobs/{name}", 200), (f"/blobs/{unknown}?wait_s=5", 404), (f"/chunks/{name}/0", 200),
                (f"/chunks/{name}/999999999", 404), (f"/chunks/{unknown}/0?wait_s=5", 404), ("/", 404),
                (f"/blobs/{name}/../../trainer", 404), (f"/chunks/{name}/-1", 404), (f"/blobs/{name.upper()}", 404),
                (f"/blobs/{name}?wait_s=soon", 400), (f"/blobs/{name}?wait_s=nan", 200),
            ):  # fmt: skip
                async with session.get(url + path) as response:
                    assert response.status == status, path
            async with session.put(f"{url}/blobs/{name}", data=b"x") as response:
                assert response.status == 405
            with world.trainer.expecting(b"e" * 32):
                async with session.get(f"{url}/blobs/{(b'e' * 32).hex()}") as response:
                    assert response.status == 503

    run(story)


def test_a_taken_port_is_named(world: World) -> None:
    async def story() -> None:
        async with serving(world.trainer) as url:
            with pytest.raises(PortTaken, match="in use"):
                await ChunkServer(world.trainer).start("127.0.0.1", int(url.rsplit(":", 1)[1]))

    run(story)


def test_a_capped_server_delivers_and_counts(world: World) -> None:
    async def story() -> None:
        server = ChunkServer(world.trainer, bytes_per_s=10_000_000)
        url = await server.start("127.0.0.1", 0)
        async with downloader() as client:
            files = await world.store("worker").begin(world.manifest)
            await client.fetch_checkpoint(files, [url])
        world.check(files)
        assert server.sent_bytes == files.manifest.size_bytes
        await server.close()

    run(story)


def test_the_speed_of_one_verified_chunk_from_the_first_who_has_it(world: World) -> None:
    async def absent(_: web.Request) -> web.StreamResponse:
        raise web.HTTPNotFound

    async def story() -> None:
        manifest = open_manifest(world.manifest, run_id=world.domain.run_id)
        places = chunk_places(manifest)
        async with (
            serving(world.trainer) as good,
            hostile(poisoned) as liar,
            hostile(oversized) as long,
            hostile(absent) as empty,
            downloader() as client,
        ):
            report = await client.measure_chunk(world.content, places, [empty, liar, long, good])
            assert (report.url, report.size_bytes) == (good, CHUNK)
            assert report.seconds > 0
            with pytest.raises(ContentUnavailable, match="another SHA-256"):
                await client.measure_chunk(world.content, places, [empty, liar])
            for urls in ([], ["http://127.0.0.1:1"]):
                with pytest.raises(ContentUnavailable):
                    await client.measure_chunk(world.content, places, urls)
            with pytest.raises(ContentUnavailable, match="no chunk"):
                await client.measure_chunk(world.content, (), [good])

    run(story)
