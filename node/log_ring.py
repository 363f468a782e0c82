"""The node's last log lines in memory, to be shown to its pool's manager: bounded, and without secrets.

Decides what of a line is a secret. It errs on the safe side: whatever looks like a key, a password or an access token
goes, and so does the way inside a URL. It reads no file: what other programs logged is not the manager's to see.
"""

from __future__ import annotations

import logging
import re
from collections import deque

MAX_LINES = 200
MAX_LINE_CHARS = 300
HIDDEN = "[hidden]"
_RULES = (
    # A URL's user, path and query may hold an API key; scheme and host are what helps.
    (re.compile(r"\b(https?|wss?)://(?:[^\s/@]*@)?([^\s/?#'\")]+)[^\s'\")]*", re.IGNORECASE), r"\1://\2"),
    (re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9+/=._\-]{6,}"), rf"\1 {HIDDEN}"),
    (
        re.compile(r"(?i)([\"']?\b[\w\-]*(?:password|passphrase|secret|token|mnemonic|api[_-]?key|private[_-]?key|seed)"
                   r"[\w\-]*[\"']?\s*[=:]\s*)(\"[^\"]*\"|'[^']*'|[^\s,;)}]+)"),
        rf"\1{HIDDEN}",
    ),
    # A private key is 64 hex digits, as is a harmless hash: both go.
    (re.compile(r"\b(?:0x)?[0-9a-fA-F]{64,}\b"), HIDDEN),
)  # fmt: skip


def redact(text: str) -> str:
    """`text` on one line, at most MAX_LINE_CHARS long, without secrets and control characters."""
    if len(text) > 4 * MAX_LINE_CHARS:
        text = text[: 4 * MAX_LINE_CHARS].rpartition(" ")[0] or text[:MAX_LINE_CHARS]  # no half of a secret at the end
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return "".join(c if c.isprintable() else " " for c in text)[:MAX_LINE_CHARS]


class LogRing(logging.Handler):
    """A logging handler that keeps the last MAX_LINES lines, redacted."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: deque[str] = deque(maxlen=MAX_LINES)
        self.setFormatter(logging.Formatter("%(asctime)s %(name)s %(levelname)s %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        """Keeps a line."""
        self._lines.extend(redact(line) for line in self.format(record).splitlines()[:MAX_LINES])

    def last(self, count: int) -> list[str]:
        """The last `count` lines, oldest first."""
        return list(self._lines)[-count:] if count > 0 else []
