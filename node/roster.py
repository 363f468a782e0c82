"""The manager's list of nodes: what it learnt of each, put through the table of `node.life`.

Decides which event a fact is: a changed ledger entry, a fresh record, a counted heartbeat, a silence. Asks nobody and
waits for nothing: facts and the own monotonic clock are arguments, what is to be done is returned. It refuses
heartbeats of nodes that it never met, and those of a second peer while the first one of that wallet is alive.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from node.heartbeat import Mode
from node.life import LAPSED_AFTER, SUSPECT_AFTER, TIMED, Action, Event, State, Watch, after, silence
from node.stream_errors import Refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What the ledger says of an address in the pool: active member, barred from becoming one, or put out at last."""

    active: bool
    barred: bool
    ejected: bool
    """Its last membership ended by ejection, and not by its own leaving."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A node's new state and what is to be done about it."""

    address: str
    before: State
    state: State
    event: Event
    action: Action


@dataclass(slots=True, kw_only=True)
class _Entry:
    state: State
    since_s: float
    heard_s: float
    member: bool = False
    peer_id: str = ""
    """The peer that beats for this address; "" before the first heartbeat."""
    mode: Mode = Mode.WORKING
    """What the last counted heartbeat said."""
    record_sequence: int = -1
    stale_sequence: int | None = None
    """Records up to this one are from before its last departure; None: the first one seen says it."""
    removal_asked: bool = False


class Roster:
    """All nodes that the manager knows. `now_s` is always the manager's own monotonic clock."""

    def __init__(self, *, heartbeat_s: float, now_s: float, remembered: Mapping[str, State]) -> None:
        self.heartbeat_s = heartbeat_s
        self._watch = Watch(heartbeat_s=heartbeat_s, awake_s=now_s)
        self._entries = {
            address: _Entry(state=state, since_s=now_s, heard_s=now_s) for address, state in remembered.items()
        }

    def state(self, address: str) -> State:
        """Where the node is in its life."""
        entry = self._entries.get(address)
        return entry.state if entry else State.UNKNOWN

    def states(self) -> dict[str, State]:
        """Every known node."""
        return {address: entry.state for address, entry in self._entries.items()}

    def members(self) -> tuple[str, ...]:
        """Whom the ledger showed as an active member when it was last asked."""
        return tuple(address for address, entry in self._entries.items() if entry.member)

    def is_member(self, address: str) -> bool:
        """Whether the ledger showed it as an active member when it was last asked."""
        entry = self._entries.get(address)
        return entry is not None and entry.member

    def has_beaten(self, address: str) -> bool:
        """Whether a heartbeat of it was counted since this manager started."""
        entry = self._entries.get(address)
        return entry is not None and entry.peer_id != ""

    def ledger_says(self, address: str, standing: Standing, now_s: float) -> list[Change]:
        """The ledger was asked about this address."""
        known = self._entries.get(address)
        if known is None and not standing.active and not standing.barred:
            return []
        entry = known or self._entries.setdefault(address, _Entry(state=State.UNKNOWN, since_s=now_s, heard_s=now_s))
        was_member, entry.member = entry.member, standing.active
        changes = []
        if standing.barred != (entry.state is State.BLACKLISTED):
            changes.append(self._put(address, Event.BARRED if standing.barred else Event.PARDONED, now_s))
        if standing.active and not was_member:
            entry.removal_asked = False
            changes.append(self._put(address, Event.JOINED, now_s))
        elif was_member and not standing.active and not standing.barred:
            # A removal of ours that came too late to be called back is nobody's verdict on the node.
            late = entry.removal_asked and entry.state is not State.DEAD
            changes.append(self._put(address, Event.EJECTED if standing.ejected and not late else Event.LEFT, now_s))
        return changes

    def seen(self, address: str, record_sequence: int) -> None:
        """The directory has this record of a known node."""
        if entry := self._entries.get(address):
            entry.record_sequence = max(entry.record_sequence, record_sequence)

    def announced(self, address: str, record_sequence: int, now_s: float) -> list[Change]:
        """A staked and wanted node that is no member is in the directory."""
        entry = self._entries.setdefault(address, _Entry(state=State.UNKNOWN, since_s=now_s, heard_s=now_s))
        entry.record_sequence = max(entry.record_sequence, record_sequence)
        if entry.state in (State.DEAD, State.LEFT):
            if entry.stale_sequence is None:
                entry.stale_sequence = record_sequence
            leaving = entry.mode is Mode.DRAINING and now_s - entry.heard_s < SUSPECT_AFTER * self.heartbeat_s
            if leaving or record_sequence <= entry.stale_sequence:
                return []
        return [self._put(address, Event.ANNOUNCED, now_s)]

    def absent(self, address: str, now_s: float) -> list[Change]:
        """No record of this node is in the directory any more."""
        entry = self._entries.get(address)
        if entry is None or entry.member or now_s - entry.heard_s < SUSPECT_AFTER * self.heartbeat_s:
            return []
        entry.stale_sequence = -1  # whatever comes now was made after it had gone
        return [self._put(address, Event.GONE, now_s)]

    def invite_ended(self, address: str, *, taken: bool, now_s: float) -> list[Change]:
        """An invite was handed over, or could not be. What became of the node meanwhile counts more."""
        if self.state(address) is not State.WAITING:
            return []
        return [self._put(address, Event.HANDED_OVER if taken else Event.UNREACHED, now_s)]

    def admit(self, address: str, peer_id: str, now_s: float) -> None:
        """Whether this peer may beat for the address. Raises Refusal."""
        entry = self._entries.get(address)
        if entry is None:
            raise Refusal("unknown", "this node is neither a member nor staked and announced, as far as is known here")
        alive = now_s - entry.heard_s < SUSPECT_AFTER * self.heartbeat_s
        if entry.peer_id not in ("", peer_id) and alive:
            raise Refusal("another-peer", f"another node of this wallet is alive, peer {entry.peer_id}; stop one")

    def beat(self, address: str, peer_id: str, mode: Mode, now_s: float) -> list[Change]:
        """A heartbeat was admitted and counted."""
        entry = self._entries[address]
        entry.peer_id, entry.heard_s, entry.mode = peer_id, now_s, mode
        if entry.state is State.DEAD and entry.member:
            return [self._put(address, Event.KEPT, now_s)]
        return [self._put(address, Event.DRAINS if mode is Mode.DRAINING else Event.BEAT, now_s)]

    def asked_to_remove(self, address: str) -> None:
        """The removal is on its way to the ledger, from where it cannot be called back."""
        self._entries[address].removal_asked = True

    def removal_refused(self, address: str, now_s: float) -> list[Change]:
        """The ledger did not take the node out."""
        entry = self._entries[address]
        entry.removal_asked = False
        return [self._put(address, Event.KEPT, now_s)] if entry.state is State.DEAD and entry.member else []

    def look(self, now_s: float) -> list[Change]:
        """What the time that has passed means; to be called often. After a gap of ours every timer starts anew."""
        self._watch, away = self._watch.look(now_s)
        changes = []
        for address, entry in list(self._entries.items()):
            if away:
                entry.heard_s = now_s
                entry.since_s = now_s
            event = silence(entry.state, heard_s=entry.heard_s, now_s=now_s, heartbeat_s=self.heartbeat_s)
            if entry.state is State.INVITED and now_s - entry.since_s > LAPSED_AFTER * self.heartbeat_s:
                event = Event.LAPSED
            if event is not None:
                changes.append(self._put(address, event, now_s))
        return changes

    def _put(self, address: str, event: Event, now_s: float) -> Change:
        entry = self._entries[address]
        before = entry.state
        entry.state, action = after(before, event)
        if entry.state is not before:
            entry.since_s = now_s
            if entry.state in (State.DEAD, State.LEFT):
                entry.stale_sequence = entry.record_sequence if entry.record_sequence >= 0 else None
            if entry.state in TIMED and before not in TIMED:
                entry.heard_s = now_s
        if action is Action.FORGET:
            del self._entries[address]
        return Change(address=address, before=before, state=entry.state, event=event, action=action)
