"""This project's `PolicyTrainer` as one side of the comparison; see `benchmarks.learning.side`.

With a case's `groups` it trains on those in every step. Without, it generates completions with its own engine. As TRL
does, it takes the step's prompts as they come and asks for no more where a group has no signal.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.learning.side import Meter, Talk, forget_peak, peak_mib, read_case, resident_mib
from rl.batch import TrainingGroup
from rl.numbers import last_number
from rl.recipe import Recipe
from rl.trainer import PolicyTrainer, StepMetrics


def main() -> None:
    talk, case = Talk(), read_case()
    torch.set_num_threads(1)
    recipe = Recipe(optimizer_steps=1, warmup_steps=0, recompute_activations=case["recompute"], **case["recipe"])
    trainer = PolicyTrainer(Path(case["model"]), recipe=recipe, compute_type=case["compute_type"])
    groups = [_group(number, fields) for number, fields in enumerate(case["groups"])]
    source = None if groups else Generated(case, trainer)
    forget_peak()
    talk.say(ready=True, resident_mib=resident_mib())
    meter = Meter()
    for step in range(case["steps"]):
        talk.wait()
        began = time.perf_counter()
        batch, rewards = (groups, [x for g in groups for x in g.rewards]) if source is None else source.batch(step)
        made_s = time.perf_counter() - began
        meter.start()
        metrics = trainer.step(batch) if batch else None
        meter.stop()
        talk.say(
            **meter.take(),
            batch={"wall_s": made_s},
            **_shown(metrics),
            reward=sum(rewards) / len(rewards),
            peak_mib=peak_mib(),
            resident_mib=resident_mib(),
        )


def _shown(metrics: StepMetrics | None) -> dict[str, float | None]:
    if metrics is None:
        return {"grad_norm": None, "entropy": None}
    return {"grad_norm": metrics.grad_norm, "entropy": metrics.entropy}


def _group(number: int, fields: dict[str, Any]) -> TrainingGroup:
    completions = tuple(map(tuple, fields["completions"]))
    return TrainingGroup(
        problem_id=str(number),
        prompt_ids=tuple(fields["prompt_ids"]),
        completions=completions,
        rewards=tuple(fields["rewards"]),
        behaviour_logprobs=tuple((0.0,) * len(tokens) for tokens in completions),
    )


class Generated:
    """Completions of the newest policy, by vLLM."""

    def __init__(self, case: dict[str, Any], trainer: PolicyTrainer) -> None:
        from transformers import AutoTokenizer

        from rl.vllm_engine import VllmEngine

        self._case, self._trainer = case, trainer
        self._tokenizer = AutoTokenizer.from_pretrained(case["model"])
        self._engine = VllmEngine(
            Path(case["model"]),
            compute_type=case["compute_type"],
            max_model_len=256,
            prove=_no_proofs,
            seed=case["seed"],
        )

    def batch(self, step: int) -> tuple[list[TrainingGroup], list[float]]:
        """The step's groups that have signal, and the rewards of all completions."""
        from rl.seeded import Sampling

        case = self._case
        if step:
            folder = Path(case["scratch"]) / "policy"
            self._trainer.save(folder, step=step, submissions=())
            self._engine.load(folder)
        start = step * case["prompts_per_step"] % len(case["problems"])
        problems = case["problems"][start : start + case["prompts_per_step"]]
        made = self._engine.generate(
            [tuple(problem["prompt_ids"]) for problem in problems],
            samples=case["group_size"],
            max_tokens=case["max_new_tokens"],
            sampling=Sampling(temperature=case["recipe"]["temperature"]),
            seed=None,
        )
        groups, rewards = [], []
        for number, (problem, completions) in enumerate(zip(problems, made, strict=True)):
            gold = last_number(problem["answer"])
            texts = [self._tokenizer.decode(c.token_ids, skip_special_tokens=True) for c in completions]
            worth = [float(last_number(text) == gold) for text in texts]
            rewards += worth
            if len(set(worth)) > 1:
                fields = {"completions": [c.token_ids for c in completions], "rewards": worth}
                groups.append(_group(number, problem | fields))
        return groups, rewards


def _no_proofs(spans: Sequence[np.ndarray]) -> list[list[bytes]]:
    """A proof builder that builds none."""
    return [[] for _ in spans]


if __name__ == "__main__":
    main()
