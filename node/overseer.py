"""The manager's shell around the roster: takes heartbeats, looks at directory and ledger, invites and removes.

Decides nothing about a node's life (`node.roster` does) and nothing about who is wanted or what the ledger says (the
`Pool` it is given does). A node, a relay or a chain that does not answer holds up nobody else and no timer: heartbeats
are judged without asking the ledger.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Protocol

import trio

from dht.records import NodeRecord, RunStateRecord, SignedRecord
from dht.signing import RecordDomain
from ledger.errors import ChainUnavailable, NotMined, Reverted, RpcError
from node.dhtd_link import NetworkDown
from node.heartbeat import HEARTBEAT_BYTES, HEARTBEAT_PROTOCOL, Answer, encode_answer, open_heartbeat
from node.life import REMOVAL_REASON, Action, Event, State
from node.metrics import MetricsLog
from node.network import Network
from node.roster import Change, Roster, Standing
from node.state import NodeState
from node.streams import Peer, Refusal, StreamError

log = logging.getLogger(__name__)
LOOK_S = 2.0
TICK_S = 1.0
LEDGER_LOOK_S = 10.0
REMOVE_RETRY_S = 15.0
INVITE_RETRY_S = 30.0
ASKED_AT_ONCE = 16
"""Questions to the ledger; each takes a thread."""
INVITED_AT_ONCE = 256
"""Invites on their way: a node that takes one and does not answer holds its place for up to 30 s."""


class Pool(Protocol):
    """What the overseer needs of the ledger: facts and deeds about one pool. `node.membership.ManagedPool` is it."""

    async def standing(self, address: str) -> Standing:
        """What the ledger says; waits for the chain."""
        ...

    async def members(self) -> tuple[str, ...]:
        """The active members; waits for the chain."""
        ...

    async def wants(self, node: NodeRecord) -> bool:
        """Whether this node, no member yet, has the stake and a role that the pool takes; waits for the chain."""
        ...

    async def invite(self, node: NodeRecord) -> None:
        """Sign an invite and hand it over; the node joins before it answers. Raises StreamError, Reverted."""
        ...

    async def remove(self, address: str, reason: str) -> None:
        """One try to take a member out. Raises Reverted, ChainUnavailable, NotMined, RpcError."""
        ...


class Overseer:
    """The manager's side of every node's life."""

    def __init__(
        self,
        pool: Pool,
        network: Network,
        state: NodeState,
        metrics: MetricsLog,
        *,
        domain: RecordDomain,
        own_address: str,
        heartbeat_s: float,
        run_state: Callable[[], RunStateRecord | None],
    ) -> None:
        self._pool, self._network, self._state, self._metrics = pool, network, state, metrics
        self._domain, self._own_address, self._run_state = domain, own_address, run_state
        self.roster = Roster(heartbeat_s=heartbeat_s, now_s=trio.current_time(), remembered=state.lives())
        self._records: dict[str, SignedRecord] = {}
        self._invite_at_s: dict[str, float] = {}
        self._remove_at_s: dict[str, float] = {}
        self._busy: set[str] = set()
        self._asking, self._inviting = trio.CapacityLimiter(ASKED_AT_ONCE), trio.CapacityLimiter(INVITED_AT_ONCE)
        self._nursery: trio.Nursery | None = None
        self._own_peer = ""

    def listen(self, peer: Peer) -> None:
        """Take heartbeats from now on."""
        self._own_peer = peer.peer_id
        peer.handle(HEARTBEAT_PROTOCOL, self._receive, HEARTBEAT_BYTES, max_reply_bytes=HEARTBEAT_BYTES)

    async def run(self) -> None:
        """Oversee until cancelled."""
        async with trio.open_nursery() as self._nursery:
            self._nursery.start_soon(self._tick_forever)
            self._nursery.start_soon(self._look_at_members_forever)
            while True:
                await self._look()
                await trio.sleep(LOOK_S)

    async def _receive(self, remote: str, message: dict[str, Any]) -> dict[str, Any]:
        beat = open_heartbeat(message, domain=self._domain, remote=remote, own_peer=self._own_peer)
        now_s = trio.current_time()
        self.roster.admit(beat.node, beat.node_peer, now_s)
        if not self._state.note_heard("heartbeat", beat.node, beat.node_peer, beat.sequence):
            raise Refusal("replayed", f"heartbeat {beat.sequence} is not newer than the last one")
        self._act(self.roster.beat(beat.node, beat.node_peer, beat.mode, now_s))
        self._invite_at_s.pop(beat.node, None)  # a way to it is open now
        return encode_answer(
            Answer(
                standing=str(self.roster.state(beat.node)),
                every_s=self.roster.heartbeat_s,
                run_state=self._run_state(),
            )
        )

    async def _tick_forever(self) -> None:
        while True:
            now_s = trio.current_time()
            self._act(self.roster.look(now_s))
            for address in self.roster.members():
                due = now_s >= self._remove_at_s.get(address, 0.0)
                if due and self.roster.state(address) is State.DEAD:  # also one that was busy when it was declared dead
                    self._start(address, self._remove)
            await trio.sleep(TICK_S)

    async def _look_at_members_forever(self) -> None:
        """The ledger's word on every member: those of before this process, then those that are known to be."""
        for address in await self._pool.members():
            self._act(
                self.roster.ledger_says(
                    address, Standing(active=True, barred=False, ejected=False), trio.current_time()
                )
            )
        while True:
            # Not seldomer than heartbeats are due: who left or was barred is not to be taken for silent first.
            await trio.sleep(min(LEDGER_LOOK_S, self.roster.heartbeat_s))
            async with trio.open_nursery() as nursery:
                for address in self.roster.members():
                    nursery.start_soon(self._ask_ledger, address)

    async def _look(self) -> None:
        """The directory's word on everybody else."""
        try:
            records = await self._network.nodes()
        except NetworkDown as fault:
            log.warning("cannot look for newcomers: %s", fault)
            return
        nodes = {record.subject: record for record in records if isinstance(record.content, NodeRecord)}
        before = self._records
        self._records = {address: record for address, record in nodes.items() if address != self._own_address}
        now_s = trio.current_time()
        for address in self.roster.states():
            if address not in self._records:
                self._act(self.roster.absent(address, now_s))
        for address, record in self._records.items():
            self.roster.seen(address, record.sequence)
            known = before.get(address)
            if known is not None and known.content != record.content:
                self._invite_at_s.pop(address, None)  # it has moved, or has sealed its address meanwhile
            if not self.roster.is_member(address):
                self._start(address, self._consider)

    def _start(self, address: str, task: Callable[[str], Any]) -> None:
        """One task at a time about each node."""
        if self._nursery is None or address in self._busy:
            return
        self._busy.add(address)

        async def run() -> None:
            try:
                await task(address)
            finally:
                self._busy.discard(address)

        self._nursery.start_soon(run)

    async def _ask_ledger(self, address: str) -> Standing:
        async with self._asking:
            standing = await self._pool.standing(address)
        self._act(self.roster.ledger_says(address, standing, trio.current_time()))
        return standing

    async def _wants(self, record: SignedRecord) -> bool:
        async with self._asking:
            return await self._pool.wants(record.content)

    async def _consider(self, address: str) -> None:
        """Whether a node that announced itself is to be invited; invites it."""
        record = self._records.get(address)
        if record is None or trio.current_time() < self._invite_at_s.get(address, 0.0):
            return
        standing = await self._ask_ledger(address)
        if standing.active or standing.barred or not await self._wants(record):
            return
        for change in self._note(self.roster.announced(address, record.sequence, trio.current_time())):
            if change.action is Action.INVITE:
                await self._invite(address, record)

    async def _invite_back(self, address: str) -> None:
        """One that beats although it is no member any more: its record may ask for more than what it once was."""
        record = self._records.get(address)
        if record is not None and await self._wants(record):
            await self._invite(address, record)

    async def _invite(self, address: str, record: SignedRecord) -> None:
        """`record` is the very one that is wanted: a newer one may name another role."""
        taken = False
        if not (record.content.multiaddrs or record.content.sealed or self.roster.has_beaten(address)):
            return  # a worker that has not sealed its address yet: in a moment it will have
        try:
            async with self._inviting:
                await self._pool.invite(record.content)
            taken = True
        except (StreamError, Reverted) as fault:
            log.warning("could not hand an invite to %s: %s", address, fault)
            self._invite_at_s[address] = trio.current_time() + INVITE_RETRY_S
        self._act(self.roster.invite_ended(address, taken=taken, now_s=trio.current_time()))
        if taken:
            self._invite_at_s.pop(address, None)
            await self._ask_ledger(address)

    async def _remove(self, address: str) -> None:
        """One try; it waits for the next one where it holds up nothing else that is to be done about the node."""
        if self.roster.state(address) is not State.DEAD or not self.roster.is_member(address):
            return  # it turned out to be alive, or is off already
        self.roster.asked_to_remove(address)
        self._remove_at_s.pop(address, None)
        try:
            async with self._asking:
                await self._pool.remove(address, REMOVAL_REASON)
        except Reverted as refused:
            log.error("the ledger does not take %s out: %s", address, refused)
            self._act(self.roster.removal_refused(address, trio.current_time()))
        except (ChainUnavailable, NotMined, RpcError) as fault:
            log.warning("%s is not taken out yet: %s", address, fault)
            self._remove_at_s[address] = trio.current_time() + REMOVE_RETRY_S
        else:
            await self._ask_ledger(address)
            log.info("%s was taken off the ledger: %s", address, REMOVAL_REASON)

    def _act(self, changes: list[Change]) -> None:
        for change in self._note(changes):
            match change.action:
                case Action.INVITE:
                    self._invite_at_s.pop(change.address, None)
                    self._start(change.address, self._invite_back)
                case Action.FORGET:
                    self._invite_at_s.pop(change.address, None)

    def _note(self, changes: list[Change]) -> list[Change]:
        for change in changes:
            if change.state is change.before:
                continue
            self._state.note_life(change.address, change.state)
            self._metrics.write("life", node=change.address, before=change.before, state=change.state,
                                event=change.event)  # fmt: skip
            level = logging.WARNING if change.event in (Event.LATE, Event.SILENT) else logging.INFO
            log.log(level, "%s is %s (was %s): %s", change.address, change.state, change.before, change.event)
        return changes
