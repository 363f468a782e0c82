"""Who gets a place and who gives way, without any stream."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trio
import trio.testing

from node.stream_places import GaveWay, NoPlace, Places


class Crowd:
    """Requests that hold their places until the test is over."""

    def __init__(self, nursery: trio.Nursery, *, per_peer: int = 2, in_all: int = 4) -> None:
        self.places, self.nursery = Places(per_peer=per_peer, in_all=in_all), nursery
        self.said: list[tuple[str, str]] = []

    async def slow(self, peer: str) -> None:
        """A request that never arrives."""
        await self._one(peer, self._wait)

    async def worked_on(self, peer: str) -> None:
        """A request that our handler is at."""
        await self._one(peer, self._work)

    async def _one(self, peer: str, run: Callable[[str], object]) -> None:
        self.nursery.start_soon(run, peer)
        await trio.testing.wait_all_tasks_blocked()

    async def _wait(self, peer: str) -> None:
        try:
            with self.places.take(peer), self.places.waiting(peer):
                await trio.sleep_forever()
        except (GaveWay, NoPlace) as end:
            self.said.append((peer, type(end).__name__))

    async def _work(self, peer: str) -> None:
        try:
            with self.places.take(peer):
                await trio.sleep_forever()
        except NoPlace:
            self.said.append((peer, "NoPlace"))


async def test_a_peer_has_its_share_and_no_more() -> None:
    async with trio.open_nursery() as nursery:
        crowd = Crowd(nursery)
        for _ in range(9):
            await crowd.slow("one")
        assert crowd.said == [("one", "NoPlace")] * 7
        await crowd.slow("two")
        await crowd.worked_on("three")
        assert len(crowd.said) == 7, "whoever was refused takes no place"
        nursery.cancel_scope.cancel()


async def test_the_oldest_that_is_waited_for_gives_way_and_first_that_of_who_has_most() -> None:
    async with trio.open_nursery() as nursery:
        crowd = Crowd(nursery)
        for peer in ("one", "two", "two", "three"):
            await crowd.slow(peer)
        await crowd.worked_on("four")
        assert crowd.said == [("two", "GaveWay")]
        await crowd.worked_on("five")
        assert crowd.said[1:] == [("one", "GaveWay")], "now all have as many, and this one is the oldest"
        nursery.cancel_scope.cancel()


async def test_what_is_worked_on_gives_way_to_nobody() -> None:
    async with trio.open_nursery() as nursery:
        crowd = Crowd(nursery)
        for peer in ("one", "two", "three", "four"):
            await crowd.worked_on(peer)
        await crowd.worked_on("five")
        await crowd.slow("six")
        assert crowd.said == [("five", "NoPlace"), ("six", "NoPlace")]
        nursery.cancel_scope.cancel()


async def test_a_place_is_free_again_however_the_request_ends() -> None:
    places = Places(per_peer=1, in_all=1)
    with pytest.raises(RuntimeError, match="handler"), places.take("one"):
        raise RuntimeError("a handler's fault")
    with trio.move_on_after(0), places.take("one"), places.waiting("one"):
        await trio.sleep_forever()
    with places.take("one"), pytest.raises(NoPlace, match="requests of one peer"), places.take("one"):
        raise AssertionError
    with places.take("two"), pytest.raises(NoPlace, match="at once"), places.take("one"):
        raise AssertionError
