"""The owner's wish: over restarts, seen by the running node, and carried out where none runs."""

from __future__ import annotations

import fcntl
import stat
from pathlib import Path

import pytest
import trio
import trio.testing

from node.drain import drain, set_pause
from node.errors import UserError
from node.folder_lock import alone_in
from node.heartbeat import Mode
from node.intent import FILE, Intent, Wish, read_wish, write_wish


@pytest.mark.parametrize("wish", Wish)
def test_a_wish_outlives_the_process(tmp_path: Path, wish: Wish) -> None:
    write_wish(tmp_path, Wish.PAUSE)
    write_wish(tmp_path, wish)
    assert read_wish(tmp_path) is wish
    assert (tmp_path / FILE).exists() == (wish is not Wish.WORK)


def test_only_its_owner_reads_or_writes_it(tmp_path: Path) -> None:
    write_wish(tmp_path, Wish.DRAIN)
    assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o600


@pytest.mark.parametrize("text", ["", "rm -rf", "drain" * 100, "DRAIN"])
def test_other_words_are_no_wish(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text)
    assert read_wish(tmp_path) is Wish.WORK


async def test_the_running_node_sees_it(tmp_path: Path, autojump_clock: trio.testing.MockClock) -> None:
    changes: list[Mode] = []
    intent = Intent(tmp_path, lambda: changes.append(intent.mode))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(intent.follow)
        assert (intent.mode, intent.takes_work) == (Mode.WORKING, True)
        for wish in (Wish.PAUSE, Wish.WORK, Wish.PAUSE, Wish.DRAIN):
            write_wish(tmp_path, wish)
            await trio.sleep(2)
            assert intent.takes_work == (wish is Wish.WORK)
        await intent.wait_draining()
        write_wish(tmp_path, Wish.WORK)
        await trio.sleep(2)
        assert intent.mode is Mode.DRAINING, "one does not return from draining"
        nursery.cancel_scope.cancel()
    assert changes == [Mode.PAUSED, Mode.WORKING, Mode.PAUSED, Mode.DRAINING]


def test_who_asks_before_the_next_look_hears_the_newest_wish(tmp_path: Path) -> None:
    changes: list[Mode] = []
    intent = Intent(tmp_path, lambda: changes.append(intent.mode))
    write_wish(tmp_path, Wish.DRAIN)
    assert (intent.mode, intent.draining) == (Mode.WORKING, False), "not looked for yet"
    assert intent.look() is Mode.DRAINING
    assert intent.draining
    assert intent.look() is Mode.DRAINING
    assert changes == [Mode.DRAINING], "told once"


async def test_a_node_that_was_killed_while_it_drained_goes_on_draining(tmp_path: Path) -> None:
    write_wish(tmp_path, Wish.DRAIN)
    intent = Intent(tmp_path)
    await intent.wait_draining()
    intent.fulfilled()
    assert Intent(tmp_path).takes_work


def test_pause_and_resume(tmp_path: Path) -> None:
    assert "none runs there now" in set_pause(tmp_path, paused=True)
    assert read_wish(tmp_path) is Wish.PAUSE
    with (tmp_path / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert set_pause(tmp_path, paused=False) == f"the node in {tmp_path} takes work again"
    write_wish(tmp_path, Wish.DRAIN)
    with pytest.raises(UserError, match="is to drain"):
        set_pause(tmp_path, paused=False)


def test_a_running_node_is_asked_and_waited_for(tmp_path: Path) -> None:
    told: list[str] = []
    with (tmp_path / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with alone_in(tmp_path) as alone:
            assert not alone
        with pytest.raises(UserError, match="has not left within"):
            drain(tmp_path, lambda: pytest.fail("needs no wallet"), timeout_s=0.0, tell=told.append)
        assert read_wish(tmp_path) is Wish.DRAIN, "and it still drains"

        def tell(line: str) -> None:  # the node leaves, and its process ends
            told.append(line)
            write_wish(tmp_path, Wish.WORK)
            fcntl.flock(lock, fcntl.LOCK_UN)

        drain(tmp_path, lambda: pytest.fail("needs no wallet"), timeout_s=10.0, tell=tell)
    assert told[-1] == "it has left the pool"


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no node's folder"):
        drain(tmp_path / "nowhere", lambda: pytest.fail("no"), timeout_s=1.0, tell=print)
