"""Ledger events in words."""

from __future__ import annotations

import pytest

from ledger.events import LeaseTaken
from ledger.types import UNBEGUN_LEASE_UNIX_S
from node.narrate import sentence

MANAGER, NOBODY = "0x" + "2" * 40, "0x" + "0" * 40


@pytest.mark.parametrize(
    ("manager", "expires_unix_s", "words"),
    [
        (MANAGER, UNBEGUN_LEASE_UNIX_S, f"{MANAGER} is to manage pool 4, once it starts (epoch 1)"),
        (MANAGER, 0, f"{MANAGER} manages pool 4 until 1970-01-01 00:00:00 UTC (epoch 1)"),
        (NOBODY, 0, "pool 4 has no manager; its lease is free"),
    ],
)
def test_a_lease_in_words(manager: str, expires_unix_s: int, words: str) -> None:
    event = LeaseTaken(block=1, log_index=0, pool_id=4, manager=manager, epoch=1, expires_unix_s=expires_unix_s)
    assert sentence(event) == words
