"""Keeps a role's compute process at work: started again whenever it failed, or the pool's manager asks for it.

Decides the pause before the next try: it doubles while the process fails soon after its start. It refuses to give up,
and to swallow a fault that it was not told of.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import NoReturn

import trio

from node.order_desk import OrderDesk

log = logging.getLogger(__name__)
FIRST_PAUSE_S, LAST_PAUSE_S = 2.0, 60.0
"""The last is also how long a process must have lived for the next pause to be the first again."""


async def keep_running(
    live: Callable[[], Awaitable[None]], desk: OrderDesk, *, faults: tuple[type[Exception], ...], told: str
) -> NoReturn:
    """`live` is one life of the process, which ends by one of `faults`; `told` begins the line that the log gets."""
    pause_s = FIRST_PAUSE_S
    while True:
        began = trio.current_time()
        try:
            with trio.CancelScope() as scope:
                desk.restart_engine = scope.cancel
                await live()
        except faults as fault:
            pause_s = FIRST_PAUSE_S if trio.current_time() - began > LAST_PAUSE_S else pause_s
            log.error("%s in %.0f s: %s", told, pause_s, fault)
            await trio.sleep(pause_s)
            pause_s = min(2 * pause_s, LAST_PAUSE_S)
