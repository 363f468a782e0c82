"""When a validator that may not answer now looks at a docket again."""

from __future__ import annotations

import dataclasses

import pytest

from ledger.types import Docket, Kind, Outcome, Terms
from node.panel import LATER_S, NEVER, SOON_S, called, closes_s, look_again_s, next_round_s, rounds_of

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


@pytest.mark.parametrize(
    ("quorum", "rounds", "shown", "count"),
    [
        (2, 0, [], 2),  # as many as must agree
        (2, 0, ["accepted 7"], 2),  # the other one may agree
        (2, 0, ["accepted 7", "rejected 0"], 3),  # one of the two is wrong: a third says which
        (2, 0, ["accepted 7", "accepted 8"], 3),  # other units are another verdict
        (2, 0, ["accepted 7", "rejected 0", "late 0"], 4),
        (3, 0, ["accepted 7", "accepted 7", "rejected 0"], 4),
        (3, 0, ["accepted 7", "late 0", "rejected 0"], 5),
        (1, 0, [], 1),
        (1, 3, [], 8),  # as the court widens the panel
        (2, 1, [], 4),
        (2, 1, ["accepted 7", "rejected 0"], 4),
        (2, 10_000, [], 512),
        (2, -1, [], 2),
    ],
)
def test_as_many_are_called_as_can_decide(quorum: int, rounds: int, shown: list[str], count: int) -> None:
    assert called(quorum, rounds=rounds, shown={f"0x{n}": position for n, position in enumerate(shown)}) == count


def test_rounds_are_whole_and_begin_when_the_docket_was_opened() -> None:
    assert [rounds_of(5_000, TERMS, now_s) for now_s in (4_990, 5_000, 5_059, 5_060, 5_179)] == [0, 0, 0, 1, 2]
    assert next_round_s(5_000, TERMS, 5_179) == 5_180
