"""How a role (trio) asks the ledger (blocking): in a thread, and again when the chain is away for a while.

Retries `ChainUnavailable` and `NotMined` for ever and an endpoint's own errors (overload, a block that it has just
forgotten) a few times, with back-off and one log line each time. What the contract or the deployment says is final.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from typing import TypeVar

import trio

from ledger.client import Ledger
from ledger.cursor import EventCursor
from ledger.errors import ChainUnavailable, NotMined, RpcError
from ledger.events import Event

log = logging.getLogger(__name__)
T = TypeVar("T")
POLL_S = 1.0
RETRY_FIRST_S, RETRY_LAST_S = 0.5, 15.0
MAX_RPC_ERRORS = 8


async def on_chain(call: Callable[..., T], *arguments: object) -> T:
    """`call(*arguments)` in a thread, until the chain answers."""
    delay_s, errors = RETRY_FIRST_S, 0
    while True:
        try:
            return await trio.to_thread.run_sync(call, *arguments)
        except (ChainUnavailable, NotMined, RpcError) as fault:
            errors += isinstance(fault, RpcError)
            if errors > MAX_RPC_ERRORS:
                raise
            log.warning("%s; trying again in %.1f s", fault, delay_s)
            await trio.sleep(delay_s)
            delay_s = min(2 * delay_s, RETRY_LAST_S)


async def follow_events(ledger: Ledger, cursor: EventCursor, *, poll_s: float = POLL_S) -> AsyncIterator[Event]:
    """Every event from the cursor on, for ever; a block is committed once all its events were handled.

    After a crash events of the last block come again, so handling must be idempotent.
    """
    while True:
        events = await on_chain(ledger.events, cursor)
        for event in events:
            yield event
        if events:
            cursor.commit(events[-1].block)
        else:
            await trio.sleep(poll_s)
