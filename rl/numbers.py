"""Numbers of rewards: the last one written in a text, read exactly; and how a rollout file stores one. Pure."""

from __future__ import annotations

import re
import struct
from fractions import Fraction

# Thousands marks count only in groups of three; a sign only where it cannot be a minus between two operands.
_NUMBER = re.compile(r"(?<![\w.])[-−]?(?:\d{1,3}(?:,\d{3})+|\d{1,18})(?:\.\d{1,18}|/\d{1,18})?(?![\w])")


def last_number(text: str) -> Fraction | None:
    """The last integer, decimal or fraction written in `text`, exactly; None if there is none."""
    found = _NUMBER.findall(text)
    if not found:
        return None
    try:
        return Fraction(found[-1].replace(",", "").replace("−", "-"))
    except (ZeroDivisionError, ValueError):  # x/0, or more digits than Python reads
        return None


def as_stored(reward: float) -> float:
    """`reward` rounded to the 32 bits that a rollout file gives it, so that what is read equals what was computed."""
    return struct.unpack("<f", struct.pack("<f", reward))[0]
