"""The validator's compute process: judges one submission at a time against the policy that it claims.

It parses what strangers wrote, so it has no keys and no network: the worst that a hostile file can do is end this
process, which is no verdict. Keeps the two policies used last in memory.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import asdict
from pathlib import Path
from typing import Any

from node.child_main import serve_sync

LOADED_POLICIES = 2


class VerifierProcess:
    """Handlers of the verifier process; the first call must be `start`."""

    def start(self, *, task: str, rules: dict[str, Any], thresholds: dict[str, float], compute_type: str) -> None:
        """`rules` and `thresholds` hold the fields of `verify.rules.Rules` and `verify.thresholds.Thresholds`."""
        from rl.tasks import load_task
        from verify.prefill import TransformersPolicy
        from verify.rules import Rules
        from verify.thresholds import Thresholds

        self._task = load_task(task)
        self._rules = Rules(**rules, thresholds=Thresholds(**thresholds))
        self._load = lambda folder: TransformersPolicy(folder, compute_dtype=compute_type)
        self._policies: OrderedDict[int, Any] = OrderedDict()

    def judge(self, *, path: str | None, claim: dict[str, Any], folders: dict[str, str]) -> dict[str, Any]:
        """Judge the file at `path`. `folders` says where each verified policy version lies."""
        from node.verify_file import judge_each
        from verify.rules import Claim

        began = time.monotonic()

        def policy(version: int) -> Any:
            if version not in self._policies:
                self._policies[version] = self._load(Path(folders[str(version)]))
                if len(self._policies) > LOADED_POLICIES:
                    self._policies.popitem(last=False)
            self._policies.move_to_end(version)
            return self._policies[version]

        verdict, ran = judge_each(
            Path(path) if path else None,
            claim=Claim(**claim),
            rules=self._rules,
            task=self._task,
            load_policy=policy,
        )
        return {
            "outcome": verdict.outcome,
            "rejection": None if verdict.rejection is None else asdict(verdict.rejection),
            "facts": verdict.facts,
            "checks": [(check, found.code if found else "") for check, found in ran],
            "seconds": time.monotonic() - began,
        }


def main() -> None:
    process = VerifierProcess()
    serve_sync({"start": process.start, "judge": process.judge})


if __name__ == "__main__":
    main()
