"""Peers that tell the time, and peers that lie about it or are silent, over real libp2p hosts."""

from __future__ import annotations

import time
from typing import Any

import pytest
import trio

from dht.clock import ClockSample, NetworkClock
from node import clock
from node.clock import CLOCK_PROTOCOL, ask_clocks, keep_clock, serve_clock
from node.peer_key import make_peer_key
from node.streams import RemoteError, open_peer

LISTEN = "/ip4/127.0.0.1/tcp/0"


async def test_peers_are_asked_together_and_the_unfit_are_left_out() -> None:
    async with (
        open_peer(make_peer_key(b"\1" * 32), LISTEN) as asker,
        open_peer(make_peer_key(b"\2" * 32), LISTEN) as right,
        open_peer(make_peer_key(b"\3" * 32), LISTEN) as ahead,
        open_peer(make_peer_key(b"\4" * 32), LISTEN) as garbled,
        open_peer(make_peer_key(b"\5" * 32), LISTEN) as mute,
    ):
        serve_clock(right, time.time)
        serve_clock(ahead, lambda: time.time() + 3600)
        answers: list[Any] = [float("nan"), -1.0, "now", 2**63, None, float("inf")]

        async def garble(remote: str, message: dict[str, Any]) -> dict[str, Any]:
            return {"unix_s": answers.pop()}

        garbled.handle(CLOCK_PROTOCOL, garble, 256)
        peers = (right, ahead, garbled, garbled, garbled, mute)
        samples = await ask_clocks(asker, [peer.multiaddrs[0] for peer in peers])
        assert answers == []
        near, far = sorted(samples, key=lambda sample: sample.offset_s)
        assert abs(near.offset_s) <= near.error_s + 0.01
        assert abs(far.offset_s - 3600) <= far.error_s + 0.01
        assert near.error_s < 1.0


async def test_the_question_carries_nothing() -> None:
    async with (
        open_peer(make_peer_key(b"\1" * 32), LISTEN) as asker,
        open_peer(make_peer_key(b"\2" * 32), LISTEN) as server,
    ):
        serve_clock(server, time.time)
        with pytest.raises(RemoteError, match="carries nothing"):
            await asker.request(server.multiaddrs[0], CLOCK_PROTOCOL, {"unix_s": 1}, 10)
        with pytest.raises(RemoteError, match="too-large"):
            await asker.request(server.multiaddrs[0], CLOCK_PROTOCOL, {"x": bytes(300)}, 10)


class Chain:
    """A ledger of which only the time is asked."""

    def __init__(self, ahead_s: float) -> None:
        self.ahead_s = ahead_s

    def chain_time_s(self) -> int:
        return int(time.time() + self.ahead_s)


@pytest.mark.parametrize("ahead_s", [0, -600])
def test_the_chains_time_counts_whole_seconds(ahead_s: float) -> None:
    sample = clock.chain_clock(Chain(ahead_s))  # type: ignore[arg-type]
    assert abs(sample.offset_s - ahead_s) <= sample.error_s + 0.01
    assert 0.5 <= sample.error_s < 1.5


class FakeNetwork:
    """A node's network of which only the clock is used."""

    def __init__(self) -> None:
        self.wall_ahead_s = 0.0
        self.steady_s = 100.0
        self.clock = NetworkClock(wall=lambda: 1e9 + self.steady_s + self.wall_ahead_s, steady=lambda: self.steady_s)
        self.corrected: list[float] = []

    async def correct_clock(self, offset_s: float) -> None:
        self.clock.correct(offset_s)
        self.corrected.append(offset_s)


async def test_a_machine_set_while_peers_are_asked_makes_their_answers_worthless(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    network, asked = FakeNetwork(), 0

    async def ask(peer: Any, addresses: Any, *, wall_s: Any) -> list[ClockSample]:
        nonlocal asked
        asked += 1
        return [ClockSample(offset_s=-network.wall_ahead_s, error_s=0.01)]

    async def keepers(*_: Any) -> list[str]:
        return ["/ip4/127.0.0.1/tcp/1/p2p/other"]

    async def chain(*_: Any) -> ClockSample:
        network.wall_ahead_s = 3600.0  # after the peers were asked: they had said that this clock is right
        return ClockSample(offset_s=-3600.0, error_s=0.5)

    for name, fake in (("ask_clocks", ask), ("timekeepers", keepers), ("on_chain", chain)):
        monkeypatch.setattr(clock, name, fake)
    before_s = network.clock.now_s()

    class Me:
        peer_id = "me"

    async with trio.open_nursery() as nursery:
        nursery.start_soon(keep_clock, Me(), network, None, None)  # type: ignore[arg-type]
        await trio.sleep(clock.LOOK_S + 1)
        assert (asked, network.corrected) == (1, [])
        await trio.sleep(clock.LOOK_S)
        assert (asked, network.corrected) == (2, [-3600.0])
        assert network.clock.now_s() == before_s
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("right_peers", [1, 3])
async def test_a_machine_set_while_the_node_runs_is_noticed_and_peers_are_asked_again(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock, right_peers: int
) -> None:
    network, asked = FakeNetwork(), 0

    def sample() -> ClockSample:
        return ClockSample(offset_s=-network.wall_ahead_s, error_s=0.01)

    async def ask(peer: Any, addresses: Any, *, wall_s: Any) -> list[ClockSample]:
        nonlocal asked
        asked += 1
        return [sample() for _ in range(right_peers)]

    async def keepers(*_: Any) -> list[str]:
        return ["/ip4/127.0.0.1/tcp/1/p2p/other"]

    monkeypatch.setattr(clock, "ask_clocks", ask)
    monkeypatch.setattr(clock, "timekeepers", keepers)

    async def chain(*_: Any) -> ClockSample:  # without a thread, for which the autojump clock would not wait
        return sample()

    monkeypatch.setattr(clock, "on_chain", chain)

    class Me:
        peer_id = "me"

    async with trio.open_nursery() as nursery:
        nursery.start_soon(keep_clock, Me(), network, None, None)  # type: ignore[arg-type]
        await trio.sleep(clock.AGAIN_S - 1)
        assert (asked, network.corrected) == (1, [])
        network.wall_ahead_s = 600.0  # somebody sets the machine's clock
        before_s = network.clock.now_s()
        await trio.sleep(clock.LOOK_S + 1)
        assert (asked, network.corrected) == (2, [-600.0])
        assert network.clock.now_s() == before_s
        network.wall_ahead_s = 0.0  # and puts it right again
        await trio.sleep(clock.RETRY_S + clock.LOOK_S)
        assert network.corrected == [-600.0, 0.0]
        await trio.sleep(clock.RETRY_S * 3)
        assert asked == 3
        nursery.cancel_scope.cancel()
