"""TRL's `GRPOTrainer` as one side of the comparison. Runs in TRL's own environment, not in the project's.

With a case's `groups` it trains on those in every step, handed to it by its own `rollout_func`. Without, it generates
completions itself and is paid for right numbers. A step is from TRL's `on_step_begin` to its `on_step_end`: all micro-
batches forward and backward, clipping, optimiser. Generating, scoring and padding the batch is counted apart.
"""

from __future__ import annotations

from typing import Any

import torch
from datasets import Dataset
from transformers import AutoTokenizer, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from benchmarks.learning.side import Meter, Talk, forget_peak, peak_mib, read_case, resident_mib
from benchmarks.learning.trl_cases import Given, right_numbers


class Measured(GRPOTrainer):
    """Counts what it takes to get a batch apart from training on it."""

    training, batch_making = Meter(), Meter()

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        self.training.stop()
        self.batch_making.start()
        made = super()._generate_and_score_completions(inputs)
        self.batch_making.stop()
        self.training.start()
        return made


class StepByStep(TrainerCallback):
    """Waits before each step until it is asked for, and tells what it took."""

    def __init__(self, talk: Talk) -> None:
        self._talk = talk

    def on_step_begin(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        self._talk.wait()
        Measured.training.start()

    def on_step_end(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
        Measured.training.stop()

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float], **rest: Any) -> None:
        if "grad_norm" not in logs:
            return  # the summary at the end
        self._talk.say(
            **Measured.training.take(),
            batch=Measured.batch_making.take(),
            grad_norm=logs["grad_norm"],
            entropy=logs["entropy"],
            reward=logs["reward"],
            peak_mib=peak_mib(),
            resident_mib=resident_mib(),
        )


def main() -> None:
    talk, case = Talk(), read_case()
    torch.set_num_threads(1)
    recipe, groups = case["recipe"], case["groups"]
    per_step = len(groups) if groups else case["prompts_per_step"]
    settings = GRPOConfig(
        output_dir=case["scratch"],
        use_cpu=True,
        bf16=case["compute_type"] == "bfloat16",
        model_init_kwargs={"dtype": "float32"},
        gradient_checkpointing=case["recompute"],
        per_device_train_batch_size=case["sequences_at_once"],
        gradient_accumulation_steps=per_step * case["group_size"] // case["sequences_at_once"],
        num_generations=case["group_size"],
        max_completion_length=case["max_new_tokens"],
        max_steps=case["steps"],
        shuffle_dataset=False,
        learning_rate=recipe["learning_rate"],
        lr_scheduler_type="constant",
        adam_beta1=0.9,
        adam_beta2=0.99,
        weight_decay=0.0,
        max_grad_norm=recipe["grad_norm_clip"],
        loss_type="dapo",  # the mean over all tokens of the step, as ours
        scale_rewards="group",
        beta=0.0,
        epsilon=recipe["clip_epsilon"],
        delta=recipe["clip_delta"],
        entropy_coef=recipe["entropy_coefficient"],
        temperature=recipe["temperature"],
        logging_steps=1,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        seed=case["seed"],
    )
    tokenizer = AutoTokenizer.from_pretrained(case["model"])
    given = Given(groups) if groups else None
    trainer = Measured(
        model=case["model"],
        reward_funcs=given.rewards if given else right_numbers,
        args=settings,
        train_dataset=Dataset.from_list(given.rows() if given else generated_rows(case, tokenizer)),
        processing_class=tokenizer,
        callbacks=[StepByStep(talk)],
        rollout_func=given.rollouts if given else None,
    )
    forget_peak()
    talk.say(ready=True, resident_mib=resident_mib())
    trainer.train()


def generated_rows(case: dict[str, Any], tokenizer: Any) -> list[dict[str, Any]]:
    """The case's problems as rendered text. Raises ValueError if TRL would feed other tokens than the other side."""
    for problem in case["problems"]:
        if tokenizer(problem["text"])["input_ids"] != problem["prompt_ids"]:
            raise ValueError(f"the tokens of {problem['text']!r} differ between the two sides")
    return [{"prompt": problem["text"], "answer": problem["answer"]} for problem in case["problems"]]


if __name__ == "__main__":
    main()
