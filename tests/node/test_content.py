"""What a node announces of its store, and how long it looks for content: real `Content`, a store that says as told."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing

from dht.plan import ContentUnavailable
from dht.records import RecordBody
from node.content import Content, admit_all

A, B, C = (letter * 32 for letter in (b"a", b"b", b"c"))


class Store:
    """Link to dhtd and announcer in one: replies when it is let, and remembers what is announced."""

    def __init__(self) -> None:
        self.announced: dict[tuple[str, bytes], RecordBody] = {}
        self.made: list[bytes] = [A]
        self.turn = {B: trio.Event(), C: trio.Event()}
        self.now = 0

    @property
    def slots(self) -> tuple[tuple[str, bytes], ...]:
        return tuple(self.announced)

    def announce_soon(self, slot: tuple[str, bytes], body: RecordBody) -> None:
        self.announced[slot] = body

    def withdraw(self, slot: tuple[str, bytes]) -> None:
        self.announced.pop(slot, None)

    async def call(self, method: str, *, result: bytes = b"", **_: Any) -> dict[str, Any]:
        if method == "fetch_checkpoint":
            raise ContentUnavailable("no provider is known")
        self.made.append(result)
        self.now += 1
        reply = {"manifest_hash": result, "size_bytes": 1, "kept": (self.now, list(self.made))}
        await self.turn[result].wait()
        return reply


def content_of(store: Store) -> Content:
    async def lookup(*_: str) -> tuple[()]:
        return ()

    content = Content(
        store, store, run_id=bytes(32), address="0x" + "11" * 20, serves=True, lookup=lookup, admit=admit_all,  # type: ignore[arg-type]
    )  # fmt: skip
    content.started(bulk_url="http://127.0.0.1:1", kept=(0, [A]))
    return content


@pytest.mark.parametrize("order", [(B, C), (C, B)])
async def test_replies_read_in_any_order_leave_announced_what_is_kept(
    autojump_clock: trio.testing.MockClock, order: tuple[bytes, bytes]
) -> None:
    store = Store()
    content = content_of(store)
    async with trio.open_nursery() as nursery:
        for result in (B, C):
            nursery.start_soon(content.make_delta, A, result)
            await trio.testing.wait_all_tasks_blocked()
        for result in order:
            store.turn[result].set()
            await trio.testing.wait_all_tasks_blocked()
    assert {slot[1] for slot in store.slots} == {A, B, C}


async def test_what_was_pruned_is_announced_no_more(autojump_clock: trio.testing.MockClock) -> None:
    store = Store()
    content = content_of(store)
    store.made.remove(A)
    store.turn[B].set()
    await content.make_delta(A, B)
    assert {slot[1] for slot in store.slots} == {B}


@pytest.mark.parametrize(("given", "waited_s"), [({"patience_s": 10.0}, 10), ({}, 300)])
async def test_what_nobody_has_is_looked_for_as_long_as_was_said(
    autojump_clock: trio.testing.MockClock, given: dict[str, float], waited_s: int
) -> None:
    content, began = content_of(Store()), trio.current_time()
    with pytest.raises(ContentUnavailable, match=f"gave up after {waited_s} s"):
        await content.fetch_checkpoint(B, timeout_s=300, **given)
    assert waited_s - 6 <= trio.current_time() - began <= waited_s
