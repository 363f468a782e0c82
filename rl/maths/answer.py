r"""Finds the final answer in a completion: the last `\boxed{…}` after the thinking, else what "Final Answer:" says.

It refuses to search: a number somewhere in the prose is no answer, nor is a box inside the thinking.
"""

from __future__ import annotations

import re

MAX_ANSWER_CHARS = 400
"""Longer boxes hold no answer of the kinds that can be graded."""
_BOX = re.compile(r"\\(?:boxed|fbox)\s*\{")
_STATED = re.compile(
    # Possessive blanks: three runs side by side that may give back took 4 s for 800 newlines, with the fourth power.
    r"(?:final\s++answer|answer\s++is|answer)\s*+(?:is\b)?\s*+[:：]?\s*+(\S[^\n]{0,400})",
    re.IGNORECASE,
)


def after_thinking(text: str) -> str:
    """What follows the last `</think>`; nothing where a thought was begun and not ended."""
    said = text.rpartition("</think>")[2]
    return "" if "<think>" in said else said


def final_answer(text: str) -> str | None:
    """The answer as it is written; None where there is none, or the last box is not closed."""
    said = after_thinking(text)
    boxes = list(_BOX.finditer(said))
    if boxes:
        return _closed(said, boxes[-1].end())
    stated = list(_STATED.finditer(said))
    return _undecorated(stated[-1][1]) if stated else None


def _closed(text: str, start: int) -> str | None:
    depth = 1
    for place in range(start, min(len(text), start + MAX_ANSWER_CHARS + 1)):
        if text[place] in "{}" and text[place - 1] != "\\":
            depth += 1 if text[place] == "{" else -1
            if depth == 0:
                return text[start:place].strip()
    return None


def _undecorated(line: str) -> str:
    """Without the asterisks of Markdown and the full stop at the end."""
    return line.replace("**", "").strip().rstrip(".").strip()
