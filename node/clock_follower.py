"""One time for a node and its directory child: who of the two learns it tells the other.

The child takes the network's time from its bootstrap peers while it is alone; the node hears of it at the start and by
looking now and then, and hands down what it found out itself. Whom to believe is decided elsewhere (`dht.clock`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import trio

from dht.clock import AGREE_S, NetworkClock, offset_in_words
from node.dhtd_link import DhtdLink, NetworkDown

log = logging.getLogger(__name__)
LOOK_S = 5.0


class ClockFollower:
    """The node's clock, kept equal to that of its dhtd. `on_change` is called after each correction."""

    def __init__(self, link: DhtdLink, *, on_change: Callable[[], None]) -> None:
        self.clock = NetworkClock()
        self._link, self._on_change = link, on_change
        self._known = self._doubted = False

    def start_params(self) -> dict[str, Any]:
        """What dhtd is told at a start: the offset as it is then, if anybody ever said one."""
        return {"clock_offset_s": self.clock.offset_s if self._known else None}

    async def correct(self, offset_s: float) -> None:
        """Date and judge records by this machine's clock plus `offset_s`, here and in dhtd. Raises NetworkDown."""
        self.clock.correct(offset_s)
        self._known = True
        self._on_change()
        await self._link.call("set_clock", offset_s=offset_s)

    async def follow_forever(self) -> None:
        """Take over what dhtd learns while it runs."""
        while True:
            await trio.sleep(LOOK_S)
            try:
                self.take(await self._link.call("clock"))
            except NetworkDown as error:
                log.info("the directory's clock is not known: %s", error)

    def take(self, state: dict[str, Any]) -> None:
        """Take over dhtd's `clock`."""
        source, asked, doubted = state["verdict"] or ("own", 0, False)
        self._known = self._known or asked > 0
        if doubted and not self._doubted:
            log.warning("the bootstrap peers' time is not followed: this machine's clock and the chain contradict it")
        self._doubted = doubted
        if abs(state["offset_s"] - self.clock.offset_s) < AGREE_S / 2:
            return
        self.clock.correct(state["offset_s"])
        log.warning(
            "this machine's clock is %s; records are dated with the network's time (said by: %s)",
            offset_in_words(-state["offset_s"]), source,
        )  # fmt: skip
        self._on_change()
