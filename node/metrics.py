"""One JSON object a line: what a role did, for people, plots and the run's report.

Decides nothing; a line is written whole or not at all, so a reader of the growing file never parses a half one.
Lines are dated by the clock that the log is given, which is the network's: so those of several machines fit together.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

METRICS_FILE = "metrics.jsonl"
"""In a node's data folder."""


class MetricsLog:
    """Appends to `metrics.jsonl` of one node."""

    def __init__(self, path: Path, *, now_s: Callable[[], float] = time.time) -> None:
        """`now_s`: unix seconds."""
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.now_s = now_s

    def write(self, kind: str, **values: Any) -> None:
        """One line; numbers that JSON cannot hold become null."""
        clean = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in values.items()}
        line = json.dumps({"kind": kind, "unix_s": round(self.now_s(), 3), **clean}, separators=(",", ":"))
        os.write(self._descriptor, line.encode() + b"\n")

    def close(self) -> None:
        os.close(self._descriptor)


class MetricsTail:
    """Reads the lines that were added to a metrics file since the last look."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def read(self) -> list[dict[str, Any]]:
        """New complete lines, parsed; none while the file does not exist."""
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            file.seek(self._offset)
            data = file.read()
        complete = data[: data.rfind(b"\n") + 1]
        self._offset += len(complete)
        return [json.loads(line) for line in complete.splitlines()]
