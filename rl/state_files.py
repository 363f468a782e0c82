"""What a trainer's state looks like from outside: its two files, what it says of itself, and how large it may be.

Imports no torch: whoever keeps and moves states does not read them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from rl import flat_json

TENSORS, FACTS = "state.safetensors", "state.json"
FORMAT = 2
"""1 held a random state, which now follows from `updates`."""
MAX_FACTS_BYTES = 4096
SLACK_BYTES = 2**20
"""Of a state, beyond its large tensors: header and step counts."""


class StateInvalid(Exception):
    """A state that does not fit this model and policy; the message says where."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateFacts:
    """`version`: the policy that the state goes with; `updates`: optimiser steps taken since policy 0."""

    version: int
    updates: int


def largest_state_bytes(policy_bytes: int) -> int:
    """Most bytes of the state of a policy of so many bytes, two a parameter: weights and two moments in float32."""
    return 6 * policy_bytes + SLACK_BYTES


def write_facts(folder: Path, facts: StateFacts) -> None:
    """Write FACTS into an unfinished `folder`."""
    fields = {"format": FORMAT, "version": facts.version, "updates": facts.updates}
    (folder / FACTS).write_text(json.dumps(fields) + "\n")


def read_facts(folder: Path) -> StateFacts:
    """What the state in `folder` says of itself. Raises StateInvalid."""
    try:
        with (folder / FACTS).open("rb") as file:
            raw = file.read(MAX_FACTS_BYTES + 1)
        if len(raw) > MAX_FACTS_BYTES:
            raise StateInvalid(f"{FACTS} is larger than {MAX_FACTS_BYTES} bytes")
        facts = flat_json.loads(raw)
    except (OSError, ValueError) as fault:
        raise StateInvalid(f"{FACTS} cannot be read: {fault}") from fault
    if not isinstance(facts, dict) or set(facts) != {"format", "version", "updates"} or facts["format"] != FORMAT:
        raise StateInvalid(f"{FACTS} is not of format {FORMAT}")
    numbers = facts["version"], facts["updates"]
    if not all(type(number) is int and 0 <= number < 2**63 for number in numbers):
        raise StateInvalid(f"{FACTS} holds a number out of range")
    return StateFacts(version=facts["version"], updates=facts["updates"])
