"""Real step metrics to hold the collapse watch against: one tiny policy a run, trained in this process, well or badly.

`python -m benchmarks.learning.collapse MODEL OUT FIRST END` trains the tiny model of the tests at each setting, with
the seeds from FIRST to before END, and writes the metrics of every step as one JSON object a run and line. It judges
nothing: whether `rl.watch` sees what it should in these series is for the tests to say (tests/rl/test_watch.py).
"""

from __future__ import annotations

import json
import random
import shutil
import sys
import tempfile
from collections import deque
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from rl.batch import TrainingGroup
from rl.tasks import load_task
from rl.trainer import PolicyTrainer, Recipe

GROUPS, SAMPLES, MAX_NEW_TOKENS, STEPS = 10, 8, 4, 45
MAX_DRAWN = 60
"""Problems drawn for a step at most; a run without signal in them is over."""
KEYS = ("reward", "length_mean", "limit_share", "grad_norm", "clip_ratio", "entropy", "kl_behaviour")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """How a run is trained, well until step `spoilt_from`, if there is one."""

    learning_rate: float
    optimizer_steps: int = 1
    lag: int = 0
    """Rollouts come from the policy of so many steps before."""
    spoilt_from: int | None = None
    spoilt_rate: float = 0.0
    """The learning rate from then on, without a bound on the gradient norm."""


SETTINGS = (
    Setting(learning_rate=3e-4),
    Setting(learning_rate=1e-3),
    Setting(learning_rate=5e-4, optimizer_steps=2, lag=2),
    Setting(learning_rate=1e-3, optimizer_steps=4, lag=2),
    Setting(learning_rate=1e-3, optimizer_steps=4, lag=2, spoilt_from=25, spoilt_rate=5e-3),
    Setting(learning_rate=1e-3, lag=1, spoilt_from=20, spoilt_rate=1.2e-2),
    Setting(learning_rate=5e-3, lag=2, spoilt_from=0, spoilt_rate=5e-3),
)


@torch.no_grad()
def _sample(
    model: Any, prompt: tuple[int, ...], eos: int, generator: torch.Generator
) -> tuple[list[list[int]], list[list[float]]]:
    """SAMPLES completions at temperature 1, each to its EOS or the limit, and their tokens' log-probs."""
    rows, chosen = torch.tensor([prompt] * SAMPLES), []
    for _ in range(MAX_NEW_TOKENS):
        distribution = model(input_ids=rows).logits[:, -1].float().log_softmax(-1)
        tokens = torch.multinomial(distribution.exp(), 1, generator=generator)
        rows = torch.cat([rows, tokens], dim=1)
        chosen.append(distribution.gather(-1, tokens))
    completions, logprobs = [], []
    for row, said in zip(rows[:, len(prompt) :].tolist(), torch.cat(chosen, dim=1).tolist(), strict=True):
        length = row.index(eos) + 1 if eos in row else len(row)
        completions.append(row[:length])
        logprobs.append(said[:length])
    return completions, logprobs


def metrics_of(model: Path, setting: Setting, seed: int) -> Iterator[dict[str, float]]:
    """The metrics of each step of one run, until its steps are done or nothing has signal any more."""
    rng, generator = random.Random(seed), torch.Generator().manual_seed(seed)
    tokenizer, task = AutoTokenizer.from_pretrained(model), load_task("digits")
    eos = tokenizer.eos_token_id
    recipe = Recipe(
        learning_rate=setting.learning_rate, warmup_steps=0, optimizer_steps=setting.optimizer_steps, grad_norm_clip=1.0
    )
    trainer = PolicyTrainer(model, recipe=recipe, compute_type="float32")
    load = lambda folder: AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)  # noqa: E731
    policies = deque([load(model)], maxlen=setting.lag + 1)
    with tempfile.TemporaryDirectory() as folder:
        for step in range(STEPS):
            policy = policies[0]
            if step == setting.spoilt_from:
                trainer._recipe = replace(recipe, learning_rate=setting.spoilt_rate, grad_norm_clip=100.0)
            groups, rewards, lengths = [], [], []
            for _ in range(MAX_DRAWN):
                problem = task.problem(rng.randrange(10))
                text = tokenizer.apply_chat_template(
                    [{"role": "user", "content": problem.prompt}], add_generation_prompt=True, return_dict=False
                )
                prompt = tuple(text)
                completions, logprobs = _sample(policy, prompt, eos, generator)
                worth = [
                    task.reward(problem, tokenizer.decode(c, skip_special_tokens=True), c[-1] == eos)
                    for c in completions
                ]
                rewards += worth
                lengths += map(len, completions)
                if len(set(worth)) > 1:
                    groups.append(
                        TrainingGroup(
                            problem_id=problem.problem_id,
                            prompt_ids=prompt,
                            completions=tuple(map(tuple, completions)),
                            rewards=tuple(worth),
                            behaviour_logprobs=tuple(map(tuple, logprobs)),
                        )
                    )
                if len(groups) == GROUPS:
                    break
            if len(groups) < GROUPS:
                return
            shown = asdict(trainer.step(groups))
            trainer.save(target := Path(folder) / f"policy-{step + 1}", step=step, submissions=[])
            policies.append(load(target))
            shutil.rmtree(target)
            limit_share = sum(length >= MAX_NEW_TOKENS for length in lengths) / len(lengths)
            shown |= {"reward": sum(rewards) / len(rewards), "length_mean": sum(lengths) / len(lengths)}
            shown |= {"limit_share": limit_share}
            yield {key: float(f"{shown[key]:.5g}") for key in KEYS}


def main(model: Path, out: Path, seeds: range) -> None:
    with out.open("w") as sink:
        for seed in seeds:
            for setting in SETTINGS:
                rows = list(metrics_of(model, setting, seed))
                run = {"setting": asdict(setting), "seed": seed} | {k: [row[k] for row in rows] for k in KEYS}
                print(json.dumps(run, separators=(",", ":")), file=sink, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), range(int(sys.argv[3]), int(sys.argv[4])))
