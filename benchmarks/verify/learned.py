"""Policies that have learnt, for the study: the demo's task, rollouts of the real engine, the project's own trainer.

Arguments: folder, a learning rate, the steps after which the policy is kept. Honest work of a policy that answers
nearly always alike is noisier than that of the model it began as, and what the bounds are must hold for both. It
decides how little training shows that: the steps are those of the demo, with fewer rollouts each.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.verify.generate import start_engine, trained_folder
from benchmarks.verify.plan import RUN_ID, EngineKind
from benchmarks.verify.settings import DEMO
from node.model import base_model
from rl.batch import TrainingGroup
from rl.draw import draw_problems, draw_seed
from rl.engine import Engine
from rl.hardware import choose_compute_type, read_cpu_flags
from rl.prompts import Tokenizer, decode_completion, render_prompt
from rl.seeded import Sampling
from rl.trainer import PolicyTrainer, Recipe

PROMPTS, GROUPS = 16, 8
"""Asked in a step, and trained on at most: the groups with unequal rewards, or where none is left there is no step."""
TRAINER = "0x" + "77" * 20
"""Stands for the worker whose rollouts are trained on."""


def main(out: Path, rate: str, kept: Sequence[int]) -> None:
    """Train up to the last step that is kept, unless all are there."""
    wanted = {step: trained_folder(out, f"learned {rate} {step}") for step in kept}
    if all(folder.exists() for folder in wanted.values()):
        return
    recipe = Recipe(learning_rate=float(rate), warmup_steps=0, optimizer_steps=1, grad_norm_clip=1.0)
    compute_type = choose_compute_type("auto", read_cpu_flags(), has_gpu=False)
    trainer = PolicyTrainer(base_model(""), recipe=recipe, compute_type=compute_type)
    engine = start_engine(EngineKind(), base_model(""))
    tokenizer = _tokenizer()
    current = out / "policies" / f"learning-{rate}"
    for step in range(1, max(kept) + 1):
        groups, reward = _rollouts(engine, tokenizer, step)
        metrics = trainer.step(groups) if groups else None
        norm = "none" if metrics is None else f"{metrics.grad_norm:.3f}, entropy {metrics.entropy:.3f}"
        print(f"lr {rate}, step {step}: reward {reward:.2f}, {len(groups)} groups, gradient norm {norm}", flush=True)
        for folder in (current, *([wanted[step]] if step in wanted and not wanted[step].exists() else [])):
            folder.parent.mkdir(parents=True, exist_ok=True)
            trainer.save(folder, step=step, submissions=())
        engine.load(current)


def _tokenizer() -> Tokenizer:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(base_model(""), local_files_only=True)


def _rollouts(engine: Engine, tokenizer: Tokenizer, step: int) -> tuple[list[TrainingGroup], float]:
    """Groups with signal, and the mean reward of all."""
    seed = draw_seed(RUN_ID, step, TRAINER, 0)
    problems = [DEMO.task.problem(index) for index in draw_problems(seed, PROMPTS, DEMO.task.size)]
    prompts = [render_prompt(tokenizer, problem, None) for problem in problems]
    answers = engine.generate(
        prompts, samples=DEMO.samples, max_tokens=DEMO.max_new_tokens, sampling=Sampling(), seed=seed
    )
    groups, rewards = [], []
    for problem, prompt, members in zip(problems, prompts, answers, strict=True):
        earned = tuple(
            DEMO.task.reward(problem, decode_completion(tokenizer, one.token_ids), one.finish_reason == "eos")
            for one in members
        )
        rewards += earned
        if len(set(earned)) > 1:
            groups.append(
                TrainingGroup(
                    problem_id=problem.problem_id,
                    prompt_ids=prompt,
                    completions=tuple(one.token_ids for one in members),
                    rewards=earned,
                    behaviour_logprobs=tuple(one.logprobs for one in members),
                )
            )
    return groups[:GROUPS], sum(rewards) / len(rewards)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], [int(step) for step in sys.argv[3:]])
