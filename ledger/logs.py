"""The contracts' logs as typed events.

Decides which logs are events of ours and what their fields are called here. Refuses nothing: a foreign log is None.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ledger import events
from ledger.abi import decode_log
from ledger.types import Bar, CaseState, Kind, Outcome, PoolState, Role, Terms, reason_text

EVENTS = {
    name: kind
    for name, kind in vars(events).items()
    if isinstance(kind, type) and issubclass(kind, events.Event) and kind not in (events.Event, events.PoolEvent)
}
_AMOUNTS = {name: f"{name}_wei" for name in ("amount", "stake", "locked", "burnt", "funds")}
_TIMES = {name: f"{name}_unix_s" for name in ("matures", "expires", "until")}
_RENAMED = _AMOUNTS | _TIMES
_PARSED: dict[str, Callable[[Any], object]] = {
    "bar": Bar,
    "kind": Kind,
    "outcome": Outcome,
    "reason": reason_text,
    "role": Role,
    "terms": lambda values: terms_of(values),
}


def parse_log(log: dict[str, Any]) -> events.Event | None:
    """One entry of `eth_getLogs` or of a receipt as an event; None where it is none of ours."""
    topics = [bytes.fromhex(topic[2:]) for topic in log["topics"]]
    decoded = decode_log(topics, bytes.fromhex(log["data"][2:])) if topics else None
    if decoded is None or decoded[0] not in EVENTS:
        return None
    kind, values = EVENTS[decoded[0]], {}
    for name, value in decoded[1].items():
        snake = re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower()
        if snake == "state":
            value = PoolState(value) if kind is events.PoolStateChanged else CaseState(value)
        values[_RENAMED.get(snake, snake)] = _PARSED[snake](value) if snake in _PARSED else value
    return kind(block=int(log["blockNumber"], 16), log_index=int(log["logIndex"], 16), **values)


def terms_of(values: tuple[Any, ...]) -> Terms:
    """The contract's struct, whose fields have the same order."""
    return Terms(**dict(zip(Terms.__dataclass_fields__, values, strict=True)))


def terms_tuple(terms: Terms) -> tuple[Any, ...]:
    """The inverse of `terms_of`."""
    return tuple(getattr(terms, name) for name in Terms.__dataclass_fields__)
