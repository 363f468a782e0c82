"""Asks other nodes and the chain for the time, and keeps this node's idea of it right while it runs.

Answers every peer with the network's time as this node has it. Asks relays of the pool and its manager only: a
worker's address is nobody else's business. Whom to believe `dht.clock` decides; the machine's clock is never set.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import trio

from dht.clock import AGREE_S, ClockSample, NetworkClock, clock_sample, judge_clock, offset_in_words
from ledger.client import Ledger
from ledger.errors import LedgerError
from ledger.types import Pool
from node.chain import on_chain
from node.child import ChildError
from node.dhtd_link import NetworkDown
from node.handover import relays
from node.network import Network
from node.streams import Peer, Refusal, StreamError

log = logging.getLogger(__name__)
CLOCK_PROTOCOL = "/intellect-node/clock/1"
CLOCK_BYTES = 256
ASK_TIMEOUT_S = 10.0
MAX_ASKED = 8
LOOK_S, RETRY_S, AGAIN_S = 5.0, 60.0, 600.0


def serve_clock(peer: Peer, now_s: Callable[[], float]) -> None:
    """Tell whoever asks what `now_s()` says, in unix seconds."""

    async def answer(remote: str, message: dict[str, Any]) -> dict[str, Any]:
        if message:
            raise Refusal("malformed", "the question after the time carries nothing")
        return {"unix_s": now_s()}

    peer.handle(CLOCK_PROTOCOL, answer, CLOCK_BYTES, max_reply_bytes=CLOCK_BYTES)


async def ask_clocks(
    peer: Peer, multiaddrs: Sequence[str], *, wall_s: Callable[[], float] = time.time
) -> list[ClockSample]:
    """What the peers' clocks say against `wall_s`, of at most MAX_ASKED; who does not answer properly is left out."""
    samples: list[ClockSample] = []

    async def ask(multiaddr: str) -> None:
        try:
            # The first answer also pays for dialling; the second one's round trip is the network's own.
            answers = [await _ask(peer, multiaddr, wall_s) for _ in range(2)]
        except StreamError as fault:
            log.info("no time from a peer: %s", fault)
            return
        good = [answer for answer in answers if answer is not None]
        if good:
            samples.append(min(good, key=lambda answer: answer.error_s))

    async with trio.open_nursery() as nursery:
        for multiaddr in multiaddrs[:MAX_ASKED]:
            nursery.start_soon(ask, multiaddr)
    return samples


async def _ask(peer: Peer, multiaddr: str, wall_s: Callable[[], float]) -> ClockSample | None:
    sent_unix_s = wall_s()
    reply = await peer.request(multiaddr, CLOCK_PROTOCOL, {}, timeout_s=ASK_TIMEOUT_S, max_bytes=CLOCK_BYTES)
    received_unix_s, theirs = wall_s(), reply.get("unix_s")
    if not isinstance(theirs, float) or not math.isfinite(theirs) or not 0 < theirs < 2**40:
        log.info("%s answers the question after the time with %r", multiaddr, theirs)
        return None
    return clock_sample(sent_unix_s=sent_unix_s, theirs_unix_s=theirs, received_unix_s=received_unix_s)


def chain_clock(ledger: Ledger, *, wall_s: Callable[[], float] = time.time) -> ClockSample:
    """The chain's time against this machine's, blocking. Errors as of `Ledger.chain_time_s`."""
    sent_unix_s = wall_s()
    theirs_unix_s = ledger.chain_time_s() + 0.5  # it counts whole seconds
    sample = clock_sample(sent_unix_s=sent_unix_s, theirs_unix_s=theirs_unix_s, received_unix_s=wall_s())
    return ClockSample(offset_s=sample.offset_s, error_s=sample.error_s + 0.5)


async def timekeepers(ledger: Ledger, network: Network, pool: Pool) -> list[str]:
    """Multiaddrs of the pool's relays and manager, as far as they are live. Raises NetworkDown."""
    found = await relays(ledger, network, pool.pool_id)
    nodes = [*found, await network.node(pool.manager)]
    return [node.multiaddrs[0] for node in nodes if node is not None and node.multiaddrs]


async def keep_clock(peer: Peer, network: Network, ledger: Ledger, pool: Pool) -> None:
    """Ask again every AGAIN_S, and soon after somebody has set the machine's clock; for ever."""
    asked_s = -math.inf
    while True:
        await trio.sleep(LOOK_S)
        stepped_s = network.clock.stepped_s
        stepped = abs(stepped_s) > AGREE_S
        if trio.current_time() - asked_s < (RETRY_S if stepped else AGAIN_S):
            continue
        asked_s = trio.current_time()
        try:
            addresses = [a for a in await timekeepers(ledger, network, pool) if not a.endswith(peer.peer_id)]
            samples = await ask_clocks(peer, addresses, wall_s=network.clock.wall_s)
            if not samples:
                continue  # nobody to ask: the directory's own time stays
            verdict = judge_clock(samples, await on_chain(chain_clock, ledger))
            if abs(network.clock.stepped_s - stepped_s) > AGREE_S / 2:
                log.info("this machine's clock was set while others were asked for theirs: they are asked again")
                asked_s = -math.inf
                continue
            if stepped or abs(verdict.offset_s - network.clock.offset_s) > AGREE_S / 2:
                log.warning(
                    "this machine's clock is %s by the word of %d peers (%s); records are dated accordingly",
                    offset_in_words(-verdict.offset_s), verdict.asked, verdict.source,
                )  # fmt: skip
                await network.correct_clock(verdict.offset_s)
        except (NetworkDown, ChildError, LedgerError) as fault:
            log.info("the clock is not compared: %s", fault)


@asynccontextmanager
async def kept_clock(peer: Peer, network: Network, ledger: Ledger, pool: Pool) -> AsyncIterator[NetworkClock]:
    """The network's clock, served to peers and kept right in the block."""
    serve_clock(peer, network.clock.now_s)
    failure: Exception | None = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(keep_clock, peer, network, ledger, pool)
        try:
            yield network.clock
        except Exception as error:  # raised again below, outside the nursery's group
            failure = error
        finally:
            nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure
