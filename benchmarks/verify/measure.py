"""The validator's process of the study: prefills the cases that it is named, and keeps what it measures of each.

Arguments: folder, "full" or "quick", arithmetic, "seeded" or "unseeded". Each line of the input names a case; each line
of the output says that one is done. It gives no verdict.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from benchmarks.verify.alterations import altered
from benchmarks.verify.generate import policy_folder, rollouts_path
from benchmarks.verify.plan import Case, find
from benchmarks.verify.records import MAX_ROWS, write_record
from rl.rollouts import Rollout, read_rollouts, write_rollouts
from rl.seeded import Sampling
from verify.policy import Prefilled
from verify.prefill import TransformersPolicy
from verify.proofs import BlockErrors, ProofFault, build_many, compare_many


def record_path(out: Path, case: Case, compute_type: str, kind: str) -> Path:
    """Where what was measured of a case lies. `kind`: seeded or unseeded, the pool that the prefill stands for."""
    return out / "records" / f"{case.file_name}.{compute_type}.{kind}.npz"


def main(out: Path, quick: bool, compute_type: str, kind: str) -> None:
    """Measure what is missing, until the input ends."""
    policy, loaded = None, None
    for line in sys.stdin:
        case = find(line.rstrip("\n"), quick=quick)
        path = record_path(out, case, compute_type, kind)
        if not path.exists():
            if policy is None or loaded != case.policy:
                policy = TransformersPolicy(policy_folder(out, case), compute_dtype=compute_type)  # type: ignore[arg-type]
                loaded = case.policy
            _measure(policy, out, quick, case, path, seeded=kind == "seeded")
        print(case.name, flush=True)


def _measure(policy: TransformersPolicy, out: Path, quick: bool, case: Case, path: Path, *, seeded: bool) -> None:
    rollouts = _rollouts(policy, out, quick, case)
    keys = case.keys([(r.counter, r.group, r.sample) for r in rollouts]) if seeded else None
    prefilled = policy.prefill(rollouts, sampling=Sampling(), keys=keys)
    noise: list[tuple[BlockErrors, ...]] = []
    coarse: list[Prefilled] = []
    if policy.compute_type == "float32":
        coarse = policy.prefill(rollouts, sampling=Sampling(), keys=keys, compute_type="bfloat16")
        noise = _errors(_proved(rollouts, coarse), prefilled)
    if case.reproved:
        # By a prefill in bfloat16, as by the engine that it saves: so the validator's is one more rounding away.
        rollouts = _proved(rollouts, coarse or prefilled)
    if not rollouts_path(out, case).exists():
        write_rollouts(rollouts_path(out, case), tuple(rollouts))
    write_record(path, _errors(rollouts, prefilled), prefilled, noise, coarse)


def _rollouts(policy: TransformersPolicy, out: Path, quick: bool, case: Case) -> list[Rollout]:
    owner = find(case.source, quick=quick) if case.source else case
    rollouts = list(read_rollouts(rollouts_path(out, owner), max_rows=MAX_ROWS))
    if case.source:
        wanted = case.submissions * case.groups * case.terms.samples
        rollouts = altered(rollouts[:wanted], case.alteration, eos_token_id=policy.tokenizer.eos_token_id)
    return rollouts


def _proved(rollouts: list[Rollout], prefilled: list[Prefilled]) -> list[Rollout]:
    """With the proofs and log-probabilities that the right policy gives to the tokens: no check can fault them."""
    proofs = build_many([p.states for p in prefilled])
    return [
        replace(r, proofs=tuple(own), logprobs=tuple(p.logprobs.tolist()))
        for r, own, p in zip(rollouts, proofs, prefilled, strict=True)
    ]


def _errors(rollouts: list[Rollout], prefilled: list[Prefilled]) -> list[tuple[BlockErrors, ...]]:
    compared = compare_many([p.states for p in prefilled], [r.proofs for r in rollouts])
    faults = [found for found in compared if isinstance(found, ProofFault)]
    if faults:
        raise ValueError(f"a proof that an engine made is malformed: {faults[0].detail}")
    return [found for found in compared if not isinstance(found, ProofFault)]


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2] == "quick", sys.argv[3], sys.argv[4])
