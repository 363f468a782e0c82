"""The compute process of `eval` and `task filter`: one policy, asked each problem of a list several times.

Owns one engine. Which problems, how many answers and which seed it is told; the noise of an answer follows from the
seed and the problem's place alone, so that two policies asked alike differ by nothing but themselves. It proves
nothing, has no keys and no network.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from eth_utils import keccak

from node.child_main import serve_sync
from node.engine_child import choose_backend

PART = 16
"""Problems that are answered in one call: with 8 answers each enough to keep an engine's 64 rows busy."""


class AnswersProcess:
    """Handlers of the process; the first call must be `start`."""

    def start(
        self,
        *,
        folder: str,
        backend: str,
        compute_type: str,
        task: str,
        indices: Sequence[int],
        system_prompt: str | None,
        length_targets: Sequence[int],
        length_alpha: float,
        max_new_tokens: int,
        sampling: dict[str, Any],
        samples: int,
        seed: int,
    ) -> dict[str, Any]:
        """Load the policy and render the prompts. Returns what computes, and in what.

        Args:
            indices: of the task's problems, in the order in which they are asked.
            length_targets, length_alpha: of `rl.lengths.LengthReward`; targets are drawn by the seed.
            sampling: fields of `rl.seeded.Sampling`.

        Raises OSError, ValueError: the folder is no usable checkpoint, or its model too short for the prompts.
        """
        import torch
        from transformers import AutoConfig, AutoTokenizer

        from rl.hardware import choose_compute_type, read_cpu_flags
        from rl.lengths import LengthReward, draw_targets, with_target
        from rl.prompts import render_prompt
        from rl.seeded import Sampling
        from rl.tasks import load_task

        self._task, self._sampling, self._samples = load_task(task), Sampling(**sampling), samples
        self._max_new_tokens, self._seed = max_new_tokens, seed
        problems = [self._task.problem(index) for index in indices]
        lengths = LengthReward.of(length_targets, length_alpha)
        self._targets: list[int | None] = [None] * len(problems)
        if lengths is not None:
            drawn = draw_targets(self._noise(0), len(problems), lengths.targets)
            problems = [with_target(problem, target) for problem, target in zip(problems, drawn, strict=True)]
            self._targets = list(drawn)
        self._problems = problems
        self._tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        self._prompts = [render_prompt(self._tokenizer, problem, system_prompt) for problem in problems]
        needed = max(map(len, self._prompts)) + max_new_tokens
        longest = getattr(AutoConfig.from_pretrained(folder, local_files_only=True), "max_position_embeddings", needed)
        if needed > longest:
            raise ValueError(f"prompt and completion need {needed} tokens, the model has {longest}: ask for fewer")
        chosen = choose_compute_type(compute_type, read_cpu_flags(), torch.cuda.is_available())
        named = choose_backend(backend, vllm_is_installed=importlib.util.find_spec("vllm") is not None)
        self._engine = _engine_class(named)(
            Path(folder), compute_type=chosen, max_model_len=needed, prove=_unproven, seed=seed
        )
        return {"backend": named, "compute_type": chosen}

    def answer(self, *, part: int) -> list[dict[str, Any]]:
        """Fields of `rl.answers.Answers` for the problems from PART * part on, and `fault` where one has no worth."""
        from rl.prompts import decode_completion
        from rl.tasks import RewardFailed

        some, answers = slice(part * PART, (part + 1) * PART), []
        completions = self._engine.generate(
            self._prompts[some],
            samples=self._samples,
            max_tokens=self._max_new_tokens,
            sampling=self._sampling,
            seed=self._noise(1 + part),
        )
        for problem, target, group in zip(self._problems[some], self._targets[some], completions, strict=True):
            texts = [decode_completion(self._tokenizer, one.token_ids) for one in group]
            try:
                worth = [
                    self._task.reward(problem, text, one.finish_reason == "eos")
                    for text, one in zip(texts, group, strict=True)
                ]
                fault = None
            except RewardFailed as failed:
                worth, fault = [], str(failed)
            answers.append(
                {
                    "problem_id": problem.problem_id,
                    "rewards": worth,
                    "tokens": [len(one.token_ids) for one in group],
                    "cut": [one.finish_reason == "length" for one in group],
                    "target": target,
                    "fault": fault,
                }
            )
        return answers

    def _noise(self, number: int) -> bytes:
        return keccak(b"intellect-node/answers/1" + self._seed.to_bytes(8, "big") + number.to_bytes(8, "big"))


def _engine_class(backend: str) -> Any:
    if backend == "vllm":
        from rl.vllm_engine import VllmEngine

        return VllmEngine
    from rl.plain_engine import TransformersEngine

    return TransformersEngine


def _unproven(states: Sequence[Any]) -> list[list[bytes]]:
    """No proofs: nobody is to be convinced."""
    return [[] for _ in states]


def main() -> None:
    process = AnswersProcess()
    serve_sync({"start": process.start, "answer": process.answer}, expected=(OSError, ValueError))


if __name__ == "__main__":
    main()
