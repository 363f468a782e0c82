"""The validator's compute process: judges one submission at a time against the policy that it claims.

It parses what strangers wrote, so it has no keys and no network: the worst that a hostile file can do is end this
process, which is no verdict. Keeps the two policies used last in memory, and what it accepted in an index by problem,
by which later copies are known. Before its first verdict it tests its own arithmetic.
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

    def start(
        self, *, task: str, rules: dict[str, Any], thresholds: dict[str, float], compute_type: str, earlier: str | None
    ) -> None:
        """Take the pool's terms.

        Args:
            rules: fields of `verify.rules.Rules`.
            thresholds: fields of `verify.thresholds.Thresholds` in which the pool departs from what was measured.
            compute_type: of all engines of the pool.
            earlier: file of `verify.earlier`; None keeps it in memory.
        """
        import torch

        from rl.hardware import choose_compute_type, read_cpu_flags
        from rl.tasks import load_task
        from verify.earlier import EarlierWork
        from verify.rules import Rules
        from verify.thresholds import thresholds_for

        self._task = load_task(task)
        self._compute_type = choose_compute_type(compute_type, read_cpu_flags(), torch.cuda.is_available())
        self._rules = Rules(
            **rules,
            thresholds=thresholds_for(compute_type, self._compute_type, thresholds),
            second_look=thresholds_for(compute_type, "float32", thresholds),
        )
        self._earlier = EarlierWork(Path(earlier) if earlier else None)
        self._policies: OrderedDict[int, Any] = OrderedDict()
        self._tested = False

    def judge(self, *, path: str | None, claim: dict[str, Any], folders: dict[str, str]) -> dict[str, Any]:
        """Judge the file at `path`. `folders` says where each verified policy version lies.

        Raises CheckFailed: there is no verdict; SelfTestFailed: there never will be one on this machine as it is.
        """
        from node.verify_file import judge_each
        from rl.rollouts import read_rollouts
        from verify.rules import Claim

        began = time.monotonic()
        terms = Claim(**claim)

        def policy(version: int) -> Any:
            if version not in self._policies:
                self._policies[version] = self._load(Path(folders[str(version)]))
                if len(self._policies) > LOADED_POLICIES:
                    self._policies.popitem(last=False)
            self._policies.move_to_end(version)
            return self._policies[version]

        verdict, ran = judge_each(
            Path(path) if path else None,
            claim=terms,
            rules=self._rules,
            task=self._task,
            load_policy=policy,
            earlier=self._earlier,
        )
        if path and verdict.outcome == "accepted":
            rows = self._rules.groups * self._rules.samples
            self._earlier.add(terms.run_id, terms.position, terms.file_hash, read_rollouts(Path(path), max_rows=rows))
        return {
            "outcome": verdict.outcome,
            "rejection": None if verdict.rejection is None else asdict(verdict.rejection),
            "facts": verdict.facts,
            "checks": [(check, found.code if found else "") for check, found in ran],
            "seconds": time.monotonic() - began,
        }

    def _load(self, folder: Path) -> Any:
        """The policy in `folder`; the first is compared with the plain forward pass. Raises SelfTestFailed."""
        from verify.prefill import TransformersPolicy
        from verify.self_test import self_test

        policy = TransformersPolicy(folder, compute_dtype=self._compute_type)
        if not self._tested:
            facts = self_test(policy, folder)
            self._tested = True
            print("self-test passed:", ", ".join(f"{name} {value:.3g}" for name, value in facts.items()), flush=True)
        return policy


def main() -> None:
    process = VerifierProcess()
    serve_sync({"start": process.start, "judge": process.judge})


if __name__ == "__main__":
    main()
