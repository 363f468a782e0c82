"""The last number of a text, read exactly: the reward of tasks that ask for a number and nothing else. Pure."""

from __future__ import annotations

import re
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
