"""The states of a node as its pool's manager sees it, and what the manager does at each change.

One table (state, event) → (state, action) and one judge of silence. Pure: what the ledger, the directory and the
streams said arrives as events, and time is the receiver's own monotonic clock. It refuses pairs that the table does not
list, every comparison with a clock of the sender, and to hold a silence against a node when it was the manager that was
away.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

SUSPECT_AFTER = 3
"""Missed heartbeats after which a node is suspect."""
DEAD_AFTER = 6
"""Missed heartbeats after which a node is dead and taken off the ledger."""
LAPSED_AFTER = 2 * DEAD_AFTER
"""Heartbeats within which the ledger must show who says that it joined: 120 s at 10 s, as long as an invite is good. It
says so once its join is mined, and another invite in vain costs nobody anything: shorter heartbeats may wait less."""
REMOVAL_REASON = "missed-heartbeats"


class State(StrEnum):
    """Where a node is in its life. The ledger decides membership; these say what its manager expects of it."""

    UNKNOWN = "unknown"
    WAITING = "waiting"
    """Announced, staked and wanted, but no member."""
    INVITED = "invited"
    """Has taken an invite; the ledger does not show it as a member yet."""
    ACTIVE = "active"
    SUSPECT = "suspect"
    """A member that missed SUSPECT_AFTER heartbeats."""
    DEAD = "dead"
    """Missed DEAD_AFTER heartbeats; taken off the ledger, or about to be."""
    DRAINING = "draining"
    """A member that said it is about to leave."""
    LEFT = "left"
    EJECTED = "ejected"
    """Taken out by a person; only a person's invite brings it back."""
    BLACKLISTED = "blacklisted"
    """Barred on the ledger."""


class Event(StrEnum):
    """What the manager learns of a node."""

    ANNOUNCED = "announced"
    """No member, but staked, wanted, and in the directory by a record newer than its last departure."""
    HANDED_OVER = "handed-over"
    """It took the invite and says that it joined."""
    UNREACHED = "unreached"
    """It could not be reached or did not take the invite."""
    LAPSED = "lapsed"
    """It says that it joined, and LAPSED_AFTER heartbeats later the ledger still shows no member."""
    JOINED = "joined"
    """The ledger shows it as an active member."""
    BEAT = "beat"
    """A counted heartbeat: it works or is paused."""
    DRAINS = "drains"
    """A counted heartbeat that says it is about to leave."""
    LATE = "late"
    SILENT = "silent"
    KEPT = "kept"
    """It was to be taken off the ledger but was not: it beat in time, or the ledger refused."""
    LEFT = "left"
    """The ledger shows that it left."""
    EJECTED = "ejected"
    """The ledger shows that it was put out."""
    BARRED = "barred"
    PARDONED = "pardoned"
    GONE = "gone"
    """No member, and its record ran out."""


class Action(StrEnum):
    """What the manager does upon a change."""

    NONE = "none"
    INVITE = "invite"
    REMOVE = "remove"
    """Take it off the ledger, with REMOVAL_REASON."""
    FORGET = "forget"


_S, _E, _A = State, Event, Action
TABLE: dict[tuple[State, Event], tuple[State, Action]] = {
    (_S.UNKNOWN, _E.ANNOUNCED): (_S.WAITING, _A.INVITE),
    (_S.UNKNOWN, _E.JOINED): (_S.ACTIVE, _A.NONE),  # a member from before the manager's restart
    (_S.UNKNOWN, _E.BARRED): (_S.BLACKLISTED, _A.NONE),
    (_S.WAITING, _E.ANNOUNCED): (_S.WAITING, _A.INVITE),  # the earlier invite did not arrive
    (_S.WAITING, _E.BEAT): (_S.WAITING, _A.NONE),
    (_S.WAITING, _E.DRAINS): (_S.LEFT, _A.NONE),
    (_S.WAITING, _E.HANDED_OVER): (_S.INVITED, _A.NONE),
    (_S.WAITING, _E.UNREACHED): (_S.WAITING, _A.NONE),
    (_S.WAITING, _E.JOINED): (_S.ACTIVE, _A.NONE),
    (_S.WAITING, _E.BARRED): (_S.BLACKLISTED, _A.NONE),
    (_S.WAITING, _E.GONE): (_S.UNKNOWN, _A.FORGET),
    (_S.INVITED, _E.ANNOUNCED): (_S.INVITED, _A.NONE),
    (_S.INVITED, _E.BEAT): (_S.INVITED, _A.NONE),
    (_S.INVITED, _E.DRAINS): (_S.LEFT, _A.NONE),
    (_S.INVITED, _E.LAPSED): (_S.WAITING, _A.NONE),
    (_S.INVITED, _E.JOINED): (_S.ACTIVE, _A.NONE),
    (_S.INVITED, _E.BARRED): (_S.BLACKLISTED, _A.NONE),
    (_S.INVITED, _E.GONE): (_S.UNKNOWN, _A.FORGET),
    (_S.ACTIVE, _E.BEAT): (_S.ACTIVE, _A.NONE),
    (_S.ACTIVE, _E.DRAINS): (_S.DRAINING, _A.NONE),
    (_S.ACTIVE, _E.LATE): (_S.SUSPECT, _A.NONE),
    (_S.ACTIVE, _E.LEFT): (_S.LEFT, _A.NONE),
    (_S.ACTIVE, _E.EJECTED): (_S.EJECTED, _A.NONE),
    (_S.ACTIVE, _E.BARRED): (_S.BLACKLISTED, _A.NONE),
    (_S.SUSPECT, _E.BEAT): (_S.ACTIVE, _A.NONE),
    (_S.SUSPECT, _E.DRAINS): (_S.DRAINING, _A.NONE),
    (_S.SUSPECT, _E.SILENT): (_S.DEAD, _A.REMOVE),
    (_S.SUSPECT, _E.LEFT): (_S.LEFT, _A.NONE),
    (_S.SUSPECT, _E.EJECTED): (_S.EJECTED, _A.NONE),
    (_S.SUSPECT, _E.BARRED): (_S.BLACKLISTED, _A.NONE),
    (_S.DEAD, _E.ANNOUNCED): (_S.WAITING, _A.INVITE),
    (_S.DEAD, _E.BEAT): (_S.WAITING, _A.INVITE),  # off the ledger already; before that a beat is KEPT
    (_S.DEAD, _E.DRAINS): (_S.LEFT, _A.NONE),
    (_S.DEAD, _E.KEPT): (_S.ACTIVE, _A.NONE),
    (_S.DEAD, _E.JOINED): (_S.ACTIVE, _A.NONE),
    (_S.DEAD, _E.LEFT): (_S.LEFT, _A.NONE),
    (_S.DEAD, _E.EJECTED): (_S.DEAD, _A.NONE),  # our own removal, seen on the ledger
    (_S.DEAD, _E.BARRED): (_S.BLACKLISTED, _A.NONE),
    (_S.DEAD, _E.GONE): (_S.DEAD, _A.NONE),  # remembered: it comes back without hand work
    (_S.DRAINING, _E.BEAT): (_S.ACTIVE, _A.NONE),  # its owner changed their mind
    (_S.DRAINING, _E.DRAINS): (_S.DRAINING, _A.NONE),
    (_S.DRAINING, _E.LATE): (_S.DRAINING, _A.NONE),
    (_S.DRAINING, _E.SILENT): (_S.DEAD, _A.REMOVE),
    (_S.DRAINING, _E.LEFT): (_S.LEFT, _A.NONE),
    (_S.DRAINING, _E.EJECTED): (_S.EJECTED, _A.NONE),
    (_S.DRAINING, _E.BARRED): (_S.BLACKLISTED, _A.NONE),
    (_S.LEFT, _E.ANNOUNCED): (_S.WAITING, _A.INVITE),
    (_S.LEFT, _E.BEAT): (_S.WAITING, _A.INVITE),
    (_S.LEFT, _E.DRAINS): (_S.LEFT, _A.NONE),
    (_S.LEFT, _E.JOINED): (_S.ACTIVE, _A.NONE),
    (_S.LEFT, _E.BARRED): (_S.BLACKLISTED, _A.NONE),
    (_S.LEFT, _E.GONE): (_S.UNKNOWN, _A.FORGET),
    (_S.EJECTED, _E.ANNOUNCED): (_S.EJECTED, _A.NONE),
    (_S.EJECTED, _E.BEAT): (_S.EJECTED, _A.NONE),
    (_S.EJECTED, _E.DRAINS): (_S.EJECTED, _A.NONE),
    (_S.EJECTED, _E.JOINED): (_S.ACTIVE, _A.NONE),
    (_S.EJECTED, _E.BARRED): (_S.BLACKLISTED, _A.NONE),
    (_S.EJECTED, _E.GONE): (_S.EJECTED, _A.NONE),
    (_S.BLACKLISTED, _E.ANNOUNCED): (_S.BLACKLISTED, _A.NONE),
    (_S.BLACKLISTED, _E.BEAT): (_S.BLACKLISTED, _A.NONE),
    (_S.BLACKLISTED, _E.DRAINS): (_S.BLACKLISTED, _A.NONE),
    (_S.BLACKLISTED, _E.PARDONED): (_S.WAITING, _A.NONE),
    (_S.BLACKLISTED, _E.GONE): (_S.BLACKLISTED, _A.NONE),
}
TIMED = frozenset((State.ACTIVE, State.SUSPECT, State.DRAINING))
"""States whose silence counts."""
REMEMBERED = frozenset((State.DEAD, State.EJECTED, State.LEFT))
"""States that the ledger does not tell and that must outlive the manager's process."""


class NotInTable(Exception):
    """A fault of ours: nothing is said about this event in this state."""


def after(state: State, event: Event) -> tuple[State, Action]:
    """The next state and what it asks for. Raises NotInTable."""
    try:
        return TABLE[state, event]
    except KeyError:
        raise NotInTable(f"a node that is {state} cannot have: {event}") from None


def silence(state: State, *, heard_s: float, now_s: float, heartbeat_s: float) -> Event | None:
    """What the time since `heard_s` means for a node; both are the receiver's monotonic seconds."""
    if state not in TIMED:
        return None
    missed = (now_s - heard_s) / heartbeat_s
    if missed >= DEAD_AFTER and state is not State.ACTIVE:  # an active node is suspect first
        return Event.SILENT
    return Event.LATE if missed >= SUSPECT_AFTER and state is State.ACTIVE else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """When the manager itself was last awake, in its own monotonic seconds."""

    heartbeat_s: float
    awake_s: float

    def look(self, now_s: float) -> tuple[Watch, bool]:
        """The watch after a look at `now_s`, and whether the manager had been away, so that all timers start anew.

        Half of what separates suspect from active: a shorter gap cannot by itself make a node suspect.
        """
        away = now_s - self.awake_s > self.heartbeat_s * SUSPECT_AFTER / 2
        return replace(self, awake_s=now_s), away
