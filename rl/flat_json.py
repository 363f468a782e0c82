"""JSON of bounded depth.

Python's parser recurses in C. Where a library has raised the recursion limit, as some here do, brackets nested deeply
enough end the whole process instead of raising; so their depth is counted before anything is parsed. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

MAX_DEPTH = 100
_MARKS = re.compile(r'["\\\[\]{}]')


def loads(text: str | bytes, parse_constant: Callable[[str], Any] | None = None) -> Any:
    """As `json.loads`. Raises ValueError, also where brackets are nested more than MAX_DEPTH deep."""
    if isinstance(text, bytes):
        text = text.decode()
    if text.count("[") + text.count("{") > MAX_DEPTH and _depth(text) > MAX_DEPTH:
        raise ValueError(f"nested more than {MAX_DEPTH} deep")
    return json.loads(text, parse_constant=parse_constant)


def _depth(text: str) -> int:
    """The deepest nesting outside strings."""
    depth = deepest = 0
    in_string, escaped_at = False, -1
    for mark in _MARKS.finditer(text):
        if mark.start() == escaped_at:
            continue
        if mark[0] == '"':
            in_string = not in_string
        elif in_string:
            escaped_at = mark.end() if mark[0] == "\\" else -1
        elif mark[0] in "[{":
            depth += 1
            deepest = max(deepest, depth)
        else:
            depth -= mark[0] in "]}"
    return deepest
