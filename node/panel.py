"""Whose turn it is among the validators that are drawn, and when to look at a docket again. Pure.

A panel is wider than its quorum, so that one that is away or bribed does not decide; but more checks than the quorum
needs are wasted. Hence only the first `quorum` in the court's order check a file at once, and the others stand by: they
are called when those who have shown their verdicts disagree, or a round has passed without an outcome. That binds
nobody: whoever is drawn may answer, and the court counts it.

Decides from what the court said and the pool's terms. Refuses to guess: an error that it does not know is None, and is
the caller's to raise. Times are seconds of chain time.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

from ledger.types import Docket, Kind, Terms

NEVER = math.inf
SOON_S, LATER_S = 1.0, 30.0
FOR_GOOD = {"AlreadyDecided", "VerdictsClosed", "OwnCase", "JoinedTooLate", "AlreadyCommitted", "AlreadyRevealed"}
MAX_DOUBLINGS = 8
"""As `Court` widens a panel."""
FOR_NOW = {"NotActiveMember", "WrongRole", "StakeTooLow"}
"""An ejected validator may be invited again, one whose stake is too low may add to it."""


def look_again_s(error_name: str, *, opened_s: float, terms: Terms, now_s: float) -> float | None:
    """When to ask the court again; NEVER where it would say the same for ever.

    Args:
        error_name: what `requireDrawn` reverted with.
        opened_s: when the submission, accusation or appeal was made; the panel widens with every round from then on.
    """
    if error_name in FOR_GOOD:
        return NEVER
    if error_name == "TooEarly":
        return now_s + SOON_S
    if error_name in FOR_NOW:
        return now_s + LATER_S
    if error_name == "NotDrawn":
        return next_round_s(opened_s, terms, now_s)
    return None


def called(quorum: int, *, rounds: int, shown: Mapping[str, str]) -> int:
    """How many of the court's order are called to check a docket that has no outcome.

    Twice as many after each round, as the court widens the panel; and once a quorum has shown its verdicts, as many
    more as the side with most of them lacks.

    Args:
        rounds: whole rounds since it was opened.
        shown: validator → outcome and units, of each verdict that was revealed.
    """
    widened = quorum << min(max(0, rounds), MAX_DOUBLINGS)
    if len(shown) < quorum:
        return widened
    return max(widened, len(shown) + quorum - max(Counter(shown.values()).values()))


def next_round_s(opened_s: float, terms: Terms, now_s: float) -> float:
    """When the panel next widens."""
    return opened_s + (rounds_of(opened_s, terms, now_s) + 1) * terms.round_s


def rounds_of(opened_s: float, terms: Terms, now_s: float) -> int:
    """Whole rounds that have passed since."""
    return int(max(0.0, now_s - opened_s) // terms.round_s)


def closes_s(docket: Docket, terms: Terms) -> int:
    """The last second in which verdicts on this docket count."""
    return docket.opened_unix_s + (terms.challenge_s if docket.kind is Kind.APPEAL else terms.verdict_s)
