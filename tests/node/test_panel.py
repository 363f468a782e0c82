"""When a validator that may not answer now looks at a docket again."""

from __future__ import annotations

import dataclasses

import pytest

from ledger.types import Docket, Kind, Outcome, Terms
from node.panel import LATER_S, NEVER, SOON_S, closes_s, look_again_s

TERMS = Terms(min_stake_wei=1, slash_wei=1, round_s=60, verdict_s=1000, challenge_s=300)


@pytest.mark.parametrize(
    ("error_name", "expected"),
    [
        ("AlreadyDecided", NEVER),
        ("VerdictsClosed", NEVER),
        ("OwnCase", NEVER),
        ("JoinedTooLate", NEVER),
        ("AlreadyRevealed", NEVER),
        ("TooEarly", 5_130 + SOON_S),
        ("NotActiveMember", 5_130 + LATER_S),
        ("StakeTooLow", 5_130 + LATER_S),
        ("NotDrawn", 5_000 + 3 * 60),
        ("SomethingNew", None),
    ],
)
def test_the_reason_says_when(error_name: str, expected: float | None) -> None:
    assert look_again_s(error_name, opened_s=5_000, terms=TERMS, now_s=5_130) == expected


@pytest.mark.parametrize(("now_s", "expected"), [(5_000, 5_060), (5_059, 5_060), (5_060, 5_120), (4_990, 5_060)])
def test_who_is_not_drawn_asks_again_when_the_panel_widens(now_s: float, expected: float) -> None:
    assert look_again_s("NotDrawn", opened_s=5_000, terms=TERMS, now_s=now_s) == expected


def test_verdicts_on_appeals_close_with_the_challenge_window() -> None:
    docket = Docket(
        docket_id=b"d", pool_id=1, node="", kind=Kind.SUBMISSION, outcome=Outcome.PENDING, opened_unix_s=50, quorum=1,
        panel=1, commits=0, validators=1, seed_block=1, seed=b"", about=b"",
    )  # fmt: skip
    assert closes_s(docket, TERMS) == 1050
    assert closes_s(dataclasses.replace(docket, kind=Kind.APPEAL), TERMS) == 350
