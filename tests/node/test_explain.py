"""Ledger events in words: there are words for every event, and none of them can steer a terminal."""

from __future__ import annotations

import dataclasses
import typing
from enum import IntEnum

import pytest

from ledger import events
from ledger.logs import EVENTS
from ledger.types import Bar, Member, Node, Role, Terms
from node.explain import explain_address
from node.narrate import concerns, sentence

ADDRESS = "0x" + "Ab" * 20


def example(kind: type[events.Event]) -> events.Event:
    """An event with something in every field."""
    hints = typing.get_type_hints(kind)
    values: dict[str, object] = {}
    for field in dataclasses.fields(kind):
        hint = hints[field.name]
        if hint is Terms:
            values[field.name] = Terms(min_stake_wei=10**18, slash_wei=10**18)
        elif issubclass(hint, IntEnum):
            values[field.name] = list(hint)[-1]
        else:
            values[field.name] = {int: 7, bool: True, bytes: b"h" * 32, str: ADDRESS}[hint]
    return kind(**values)


@pytest.mark.parametrize("kind", EVENTS.values(), ids=EVENTS)
def test_there_are_words_for_every_event(kind: type[events.Event]) -> None:
    event = example(kind)
    told = sentence(event)
    assert told
    assert kind.__name__ not in told
    named = [field.name for field in dataclasses.fields(kind) if getattr(event, field.name) == ADDRESS]
    assert concerns(event, (ADDRESS,)) is bool(named)


@pytest.mark.parametrize(
    ("locked", "told"),
    [
        (0, "Stake: 100 tokens at work."),
        (40, "Stake: 60 tokens at work, open cases may burn up to 40."),
        (200, "Stake: 0 tokens at work, open cases may burn up to 200."),
    ],
)
def test_stake_under_a_case_is_not_at_work(locked: int, told: str) -> None:
    node = Node(
        address=ADDRESS, staker=ADDRESS, stake_wei=100 * 10**18, unbonding_wei=0, locked_wei=locked * 10**18,
        matures_unix_s=0,
    )  # fmt: skip
    member = Member(
        address=ADDRESS, role=Role.WORKER, active=False, since_unix_s=0, epoch=1, used=0, bar=Bar.BY_VERDICT
    )
    assert told in explain_address(ADDRESS, [], pool_id=1, node=node, member=member, credit_wei=0).summary
