"""The demo's second adversary: a verifier process that was paid for. Nothing in the network knows of it.

It accepts whatever its friends submit, with the units that are asked for, and rejects everybody else's honest work for
a reason that it makes up, with plausible numbers. It runs no model: lying is cheap. Its friends' addresses are its
arguments. Run as `validator.verifier = "node.bribed_verifier"`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from node.child_main import serve_sync
from rl.rollouts import MAX_FILE_BYTES, RolloutFileInvalid, read_rollouts

MAX_ROWS = 4096
INVENTED = {"exponent_mean": 9.31, "mantissa_mean": 5.84, "exponent_max": 31.0, "mantissa_max": 8.9}
USUAL = {"exponent_mean": 2.41, "mantissa_mean": 1.37, "exponent_max": 9.0, "mantissa_max": 2.3}
REJECTION = {"code": "proof-mismatch", "detail": "mean mantissa error: 5.84, more than 2.38 (64 blocks)"}


class BribedVerifier:
    """Handlers of the process, named and answering as those of `node.verifier_child`."""

    def __init__(self, friends: frozenset[str]) -> None:
        self._friends = friends

    def start(self, **_: Any) -> None:
        """Nothing is loaded."""

    def judge(self, *, path: str | None, claim: dict[str, Any], **_: Any) -> dict[str, Any]:
        """The verdict that was paid for."""
        if claim["worker"] in self._friends:
            return answer("accepted", None, USUAL | {"tokens": float(_tokens(path))})
        return answer("rejected", REJECTION, INVENTED)


def answer(outcome: str, rejection: dict[str, str] | None, facts: dict[str, float]) -> dict[str, Any]:
    code = rejection["code"] if rejection else ""
    return {
        "outcome": outcome, "rejection": rejection, "facts": facts, "checks": [("proof-mismatch", code)],
        "seconds": 0.0,
    }  # fmt: skip


def _tokens(path: str | None) -> int:
    """What an honest validator would credit, so that both would count as agreeing."""
    if path is None:
        return 0
    try:
        rollouts = read_rollouts(Path(path), max_rows=MAX_ROWS, max_bytes=MAX_FILE_BYTES)
    except RolloutFileInvalid:
        return 0
    return sum(len(rollout.completion_ids) for rollout in rollouts)


if __name__ == "__main__":
    bribed = BribedVerifier(frozenset(sys.argv[1:]))
    serve_sync({"start": bribed.start, "judge": bribed.judge})
