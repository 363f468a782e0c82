"""When a validator should look at a docket again that it may not answer now. Pure.

Decides from what the court said and the pool's terms. Refuses to guess: an error that it does not know is None, and is
the caller's to raise. Times are seconds of chain time.
"""

from __future__ import annotations

import math

from ledger.types import Docket, Kind, Terms

NEVER = math.inf
SOON_S, LATER_S = 1.0, 30.0
FOR_GOOD = {"AlreadyDecided", "VerdictsClosed", "OwnCase", "JoinedTooLate", "AlreadyCommitted", "AlreadyRevealed"}
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
        rounds = int(max(0.0, now_s - opened_s) // terms.round_s)
        return opened_s + (rounds + 1) * terms.round_s
    return None


def closes_s(docket: Docket, terms: Terms) -> int:
    """The last second in which verdicts on this docket count."""
    return docket.opened_unix_s + (terms.challenge_s if docket.kind is Kind.APPEAL else terms.verdict_s)
