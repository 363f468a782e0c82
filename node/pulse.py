"""The node's side of heartbeats: finds its pool's manager, beats, and keeps what the manager answers.

Decides whom to beat to (the newest record of whoever manages the pool now) and when. It refuses to believe an answer of
anybody else (the stream authenticates the manager's peer id, the record binds that to the manager's wallet), and to
stop: a manager, directory or chain that is away is asked again.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

import trio

from dht.records import NodeRecord, RunStateRecord
from dht.signing import RecordDomain, Signer
from node.dhtd_link import NetworkDown
from node.heartbeat import HEARTBEAT_BYTES, HEARTBEAT_PROTOCOL, Answer, Heartbeat, Mode, open_answer, sign_heartbeat
from node.network import Network
from node.state import Counter
from node.streams import Peer, RemoteError, StreamError

log = logging.getLogger(__name__)
LOOK_FIRST_S, LOOK_S = 1.0, 10.0
REPLY_TIMEOUT_S = 10.0


class Pulse:
    """Beats for one node. `manager` tells who manages the pool now, and may wait for the chain."""

    def __init__(
        self,
        peer: Peer,
        network: Network,
        *,
        account: Signer,
        domain: RecordDomain,
        manager: Callable[[], Awaitable[str]],
        sequence: Counter,
        heartbeat_s: float,
        mode: Callable[[], Mode],
        on_manager: Callable[[NodeRecord], Awaitable[None]],
    ) -> None:
        """`on_manager` gets the manager's record whenever it is another one than before."""
        self._peer, self._network, self._account, self._domain = peer, network, account, domain
        self._ask_manager, self._sequence, self._heartbeat_s = manager, sequence, heartbeat_s
        self._mode, self._on_manager = mode, on_manager
        self._manager: NodeRecord | None = None
        self._wake = trio.Event()
        self.step = 0
        """The step that this node works for."""
        self.answer: Answer | None = None
        """The manager's last one."""

    async def run(self) -> None:
        """Beat until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._follow_manager)
            while True:
                began_s = trio.current_time()
                interval_s = self.answer.every_s if self.answer else self._heartbeat_s
                if self._manager is not None:
                    await self._beat(self._manager)
                with trio.move_on_at(began_s + interval_s):
                    await self._wake.wait()
                    self._wake = trio.Event()

    def beat_soon(self) -> None:
        """Tell the manager at once, for something has changed."""
        self._wake.set()

    @property
    def run_state(self) -> RunStateRecord | None:
        """The newest run state that the manager answered with."""
        return self.answer.run_state if self.answer else None

    async def _beat(self, manager: NodeRecord) -> None:
        beat = Heartbeat(
            node=self._account.address,
            node_peer=self._peer.peer_id,
            manager_peer=manager.peer_id,
            sequence=self._sequence.next(),
            mode=self._mode(),
            step=self.step,
        )
        message = sign_heartbeat(beat, domain=self._domain, account=self._account)
        try:
            reply = await self._peer.request(
                manager.multiaddrs[0], HEARTBEAT_PROTOCOL, message, timeout_s=REPLY_TIMEOUT_S, max_bytes=HEARTBEAT_BYTES
            )
            answer = open_answer(reply)
        except (StreamError, ValueError) as fault:
            unknown = isinstance(fault, RemoteError) and fault.code == "unknown"
            log.log(logging.INFO if unknown else logging.WARNING, "a heartbeat did not count: %s", fault)
            return
        if self.answer is None or answer.standing != self.answer.standing:
            log.info("to its manager this node is %s", answer.standing)
        self.answer = answer

    async def _follow_manager(self) -> None:
        while True:
            try:
                address = await self._ask_manager()
                record = await self._network.node(address)
            except NetworkDown as fault:
                log.warning("cannot look for the manager: %s", fault)
                record = None
            if record is not None and record.multiaddrs and record != self._manager:
                await self._on_manager(record)
                self._manager = record
                self.beat_soon()
            await trio.sleep(LOOK_S if self._manager else LOOK_FIRST_S)


def newer(one: RunStateRecord | None, other: RunStateRecord | None) -> RunStateRecord | None:
    """The newer of two words of the manager: leases, policy versions and open steps only grow."""
    if one is None or other is None:
        return one or other
    return max(one, other, key=lambda state: (state.epoch, state.policy_version, state.open_step))
