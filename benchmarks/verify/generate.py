"""A worker process of the study: one engine, and the rollouts of each case that it is named, one Parquet file a case.

Proofs and log-probabilities are the engine's own, whatever weights and sampling the case has it use. It judges
nothing. Arguments: folder, "full" or "quick", names of cases of one engine. A file that exists is left as it is.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.verify.plan import Case, EngineKind, find
from benchmarks.verify.weights import VARIANTS
from node.model import base_model
from rl.draw import draw_problems
from rl.engine import Completion, Engine, read_weights
from rl.prompts import decode_completion, render_prompt
from rl.rollouts import Rollout, write_rollouts
from rl.tasks import Problem
from verify.proofs import build_many

if TYPE_CHECKING:
    from rl.prompts import Tokenizer

MAX_MODEL_LEN = 256
SECOND = " (second try)"
"""Stands behind the problem's name where the better of two completions is not the forced one."""
HINT = " Be brief."
"""What the cheat with another prompt adds to the problem."""


def rollouts_path(out: Path, case: Case) -> Path:
    """Where the case's rollouts lie."""
    return out / "rollouts" / f"{case.file_name}.parquet"


def trained_folder(out: Path, weights: str) -> Path:
    """Where the policy of a case's "trained RATE AGE" or "learned RATE STEP" lies."""
    return out / "policies" / weights.replace(" ", "-")


def policy_folder(out: Path, case: Case) -> Path:
    """Where the policy lies that the case's validator runs."""
    return trained_folder(out, case.policy) if case.policy else base_model("")


def main(out: Path, quick: bool, names: Sequence[str]) -> None:
    """Make what is missing."""
    from transformers import AutoTokenizer

    cases = [case for name in names if not rollouts_path(out, case := find(name, quick=quick)).exists()]
    if not cases:
        return
    base = base_model("")
    tokenizer = AutoTokenizer.from_pretrained(base, local_files_only=True)
    engine = start_engine(cases[0].engine, base)
    for case in cases:
        if case.weights in VARIANTS:
            engine.load_tensors(VARIANTS[case.weights](read_weights(policy_folder(out, case))))
        else:
            engine.load(trained_folder(out, case.weights))
        path = rollouts_path(out, case)
        path.parent.mkdir(parents=True, exist_ok=True)
        made = [r for counter in range(case.submissions) for r in _submission(engine, tokenizer, case, counter)]
        write_rollouts(path, tuple(made))
        tokens = sum(len(r.completion_ids) for r in made)
        reward = sum(r.reward for r in made) / len(made)
        print(
            f"{case.name}: {len(made)} completions of {tokens / len(made):.1f} tokens, reward {reward:.2f}", flush=True
        )


def start_engine(kind: EngineKind, folder: Path) -> Engine:
    """An engine with the policy's weights."""
    if kind.backend == "vllm":
        from rl.vllm_engine import VllmEngine as Chosen
    else:
        from rl.plain_engine import TransformersEngine as Chosen
    return Chosen(folder, compute_type=kind.compute_type, max_model_len=MAX_MODEL_LEN, prove=build_many, seed=1)


def _submission(engine: Engine, tokenizer: Tokenizer, case: Case, counter: int) -> list[Rollout]:
    terms, seed = case.terms, case.seed(counter)
    problems = [terms.task.problem(index) for index in draw_problems(seed, case.groups, terms.task.size)]
    prompts = [render_prompt(tokenizer, problem, None) for problem in problems]
    asked = prompts
    if case.trick == "other prompt":
        asked = [render_prompt(tokenizer, replace(p, prompt=p.prompt + HINT), None) for p in problems]

    def generated(noise: bytes) -> list[list[Completion]]:
        return engine.generate(
            asked, samples=terms.samples, max_tokens=terms.max_new_tokens, sampling=case.sampling, seed=noise
        )

    def rollout(group: int, sample: int, one: Completion, note: str) -> Rollout:
        text = decode_completion(tokenizer, one.token_ids)
        return Rollout(
            step=0,
            policy_version=0,
            counter=counter,
            group=group,
            sample=sample,
            problem_id=problems[group].problem_id + note,
            prompt_ids=prompts[group],
            completion_ids=one.token_ids,
            text=text,
            logprobs=one.logprobs,
            finish_reason=one.finish_reason,
            reward=_reward(case, problems[group], text, one),
            proofs=one.proofs,
        )

    tries = {"": generated(seed)}
    if case.trick == "best of 2":
        tries[SECOND] = generated(replace(case, name=f"{case.name}, again").seed(counter))
    return [
        max((rollout(group, sample, one[group][sample], note) for note, one in tries.items()), key=lambda r: r.reward)
        for group in range(case.groups)
        for sample in range(terms.samples)
    ]


def _reward(case: Case, problem: Problem, text: str, one: Completion) -> float:
    return case.terms.task.reward(problem, text, one.finish_reason == "eos")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2] == "quick", sys.argv[3:])
