"""When a compute process is started again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.testing

from node.child import ChildTimeout
from node.keeper import keep_running


class Process:
    """Lives so many seconds each time and then fails; the last life goes on. `born` are the starts."""

    def __init__(self, *lives_s: float) -> None:
        self.lives_s, self.born = list(lives_s), list[float]()
        self.done = trio.Event()

    async def live(self) -> None:
        self.born.append(trio.current_time())
        if not self.lives_s:
            self.done.set()
            await trio.sleep_forever()
        await trio.sleep(self.lives_s.pop(0))
        raise ChildTimeout("it ended")


async def kept(process: Process, desk: Any) -> list[float]:
    """The pauses between the end of each life and the next start."""
    lives_s = list(process.lives_s)
    async with trio.open_nursery() as nursery:

        async def keep() -> None:
            await keep_running(process.live, desk, faults=(ChildTimeout,), told="it failed, trying again")

        nursery.start_soon(keep)
        await process.done.wait()
        nursery.cancel_scope.cancel()
    starts = zip(process.born, process.born[1:], lives_s, strict=False)
    return [born - before - life_s for before, born, life_s in starts]


async def test_the_pause_doubles_up_to_a_minute_while_it_fails_soon(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Also where it never comes so far as to be ready, and has failed for longer than a minute in all."""
    assert await kept(Process(*[1.0] * 8), SimpleNamespace()) == pytest.approx([2, 4, 8, 16, 32, 60, 60, 60])
    assert "it failed, trying again in 32 s: it ended" in caplog.text


async def test_one_that_has_lived_starts_soon_again(autojump_clock: trio.testing.MockClock) -> None:
    assert await kept(Process(1.0, 1.0, 61.0, 1.0), SimpleNamespace()) == pytest.approx([2, 4, 2, 4])


async def test_the_manager_has_it_started_again_at_once(autojump_clock: trio.testing.MockClock) -> None:
    desk, process = SimpleNamespace(), Process(50.0)
    async with trio.open_nursery() as nursery:

        async def keep() -> None:
            await keep_running(process.live, desk, faults=(ChildTimeout,), told="it failed")

        nursery.start_soon(keep)
        await trio.sleep(10)
        desk.restart_engine()
        await process.done.wait()
        nursery.cancel_scope.cancel()
    assert process.born[1] - process.born[0] == pytest.approx(10)


async def test_another_fault_is_not_swallowed() -> None:
    async def live() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await keep_running(live, SimpleNamespace(), faults=(ChildTimeout,), told="it failed")  # type: ignore[arg-type]
