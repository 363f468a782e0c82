"""An engine process that computes nothing, for tests of a node's life: its files are handed in and never judged."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from node.child_main import serve_sync

SOLVE_S = 1.5


def ready(**_: Any) -> dict[str, Any]:
    return {"seconds": 0.0, "backend": "none", "compute_type": "none", "moved_probe": False}


def solve(*, path: str, step: int, counter: int, **_: Any) -> dict[str, Any]:
    time.sleep(SOLVE_S)  # work that is under way when a wish or an order arrives
    Path(path).write_bytes(b"PAR1 %d/%d" % (step, counter))
    return {"seconds": SOLVE_S}


if __name__ == "__main__":
    serve_sync({"prepare": ready, "start": ready, "load": ready, "solve": solve})
