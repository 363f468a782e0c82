"""The worker's compute process: from drawn problems to a rollout file.

Owns one engine, of vLLM or of transformers. It has no keys and no network; what it is told to solve comes from the
worker's role.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from node.child_main import serve_sync


def choose_backend(requested: str, *, vllm_is_installed: bool) -> str:
    """'vllm' or 'transformers'. Raises ValueError where vLLM is asked for and not installed."""
    if requested == "vllm" and not vllm_is_installed:
        raise ValueError("worker.backend is 'vllm', which is not installed: run scripts/setup, or set it to 'auto'")
    if requested == "auto":
        return "vllm" if vllm_is_installed else "transformers"
    return requested


class EngineProcess:
    """Handlers of the engine process; the first calls must be `prepare`, then `start`."""

    def __init__(self, wrap: Callable[[Any, Path], Any]) -> None:
        """`wrap` gets the engine and its first folder; the demo's cheat puts itself between by it."""
        self._wrap = wrap

    def prepare(self, *, backend: str) -> dict[str, Any]:
        """Import what the engine needs. It takes long, so no policy is named before it is done: it would grow old."""
        began = time.monotonic()
        import transformers  # noqa: F401

        import verify.proofs  # noqa: F401

        self._backend = choose_backend(backend, vllm_is_installed=importlib.util.find_spec("vllm") is not None)
        if self._backend == "vllm":
            from rl.vllm_engine import VllmEngine as engine
        else:
            from rl.plain_engine import TransformersEngine as engine
        self._engine_class: Any = engine
        return {"seconds": time.monotonic() - began}

    def start(
        self,
        *,
        folder: str,
        task: str,
        system_prompt: str | None,
        length_targets: Sequence[int],
        length_alpha: float,
        max_model_len: int,
        max_new_tokens: int,
        sampling: dict[str, Any],
        compute_type: str,
        seed: int,
    ) -> dict[str, Any]:
        """Start the engine on the checkpoint in `folder`. Returns start-up seconds, backend and compute type chosen.

        Args:
            length_targets, length_alpha: of `rl.lengths.LengthReward`; no targets mean that there is none.
            sampling: fields of `rl.seeded.Sampling`.
            seed: of the engine, for calls of `solve` without one.
        """
        began = time.monotonic()
        import torch
        from transformers import AutoTokenizer

        from rl.hardware import choose_compute_type, read_cpu_flags
        from rl.lengths import LengthReward
        from rl.seeded import Sampling
        from rl.tasks import load_task
        from verify.proofs import build_many

        chosen = choose_compute_type(compute_type, read_cpu_flags(), torch.cuda.is_available())
        self._task, self._system_prompt = load_task(task), system_prompt
        self._lengths = LengthReward.of(length_targets, length_alpha)
        self._max_new_tokens, self._sampling = max_new_tokens, Sampling(**sampling)
        self._max_model_len = max_model_len
        self._tokenizer = AutoTokenizer.from_pretrained(folder)
        engine = self._engine_class(
            Path(folder), compute_type=chosen, max_model_len=max_model_len, prove=build_many, seed=seed
        )
        self._engine = self._wrap(engine, Path(folder))
        return {"seconds": time.monotonic() - began, "backend": self._backend, "compute_type": chosen}

    def load(self, *, folder: str) -> dict[str, Any]:
        """Swap in the verified checkpoint in `folder`."""
        began = time.monotonic()
        self._engine.load(Path(folder))
        return {"seconds": time.monotonic() - began, "moved_probe": self._engine.swap_moved_probe}

    def solve(
        self,
        *,
        path: str,
        step: int,
        policy_version: int,
        counter: int,
        draw_seed: bytes,
        groups: int,
        samples: int,
        seeded: bool,
    ) -> dict[str, Any]:
        """Generate, prove and score `samples` completions of each drawn problem; write them to `path` as one file.

        Args:
            draw_seed: of `rl.draw`; dictates the problems.
            seeded: whether it forces every token, too.

        Raises RewardFailed and PromptTooLong.
        """
        from rl.dictated import dictated_problems, reward_of
        from rl.prompts import PromptTooLong, decode_completion, render_prompt
        from rl.rollouts import Rollout, write_rollouts

        began = time.monotonic()
        chosen = dictated_problems(draw_seed, groups, self._task, self._lengths)
        prompts = [render_prompt(self._tokenizer, problem, self._system_prompt) for problem in chosen]
        longest = max(map(len, prompts)) + self._max_new_tokens
        if longest > self._max_model_len:
            # The engine would cut such completions early, and a validator could not tell that from cheating.
            raise PromptTooLong(f"model.max_model_len {self._max_model_len} must be at least {longest} for this task")
        answers = self._engine.generate(
            prompts,
            samples=samples,
            max_tokens=self._max_new_tokens,
            sampling=self._sampling,
            seed=draw_seed if seeded else None,
        )
        rollouts = []
        for group, (problem, prompt_ids, completions) in enumerate(zip(chosen, prompts, answers, strict=True)):
            for sample, completion in enumerate(completions):
                text = decode_completion(self._tokenizer, completion.token_ids)
                rollouts.append(
                    Rollout(
                        step=step,
                        policy_version=policy_version,
                        counter=counter,
                        group=group,
                        sample=sample,
                        problem_id=problem.problem_id,
                        prompt_ids=prompt_ids,
                        completion_ids=completion.token_ids,
                        text=text,
                        logprobs=completion.logprobs,
                        finish_reason=completion.finish_reason,
                        reward=reward_of(
                            self._task,
                            problem,
                            text,
                            finished=completion.finish_reason == "eos",
                            tokens=len(completion.token_ids),
                            lengths=self._lengths,
                        ),
                        proofs=completion.proofs,
                    )
                )
        write_rollouts(Path(path), tuple(rollouts))
        return {
            "rollouts": len(rollouts),
            "tokens": sum(len(r.completion_ids) for r in rollouts),
            "reward": sum(r.reward for r in rollouts) / len(rollouts),
            "seconds": time.monotonic() - began,
        }


def main(wrap: Callable[[Any, Path], Any] = lambda engine, folder: engine) -> None:
    process = EngineProcess(wrap)
    serve_sync({"prepare": process.prepare, "start": process.start, "load": process.load, "solve": process.solve})


if __name__ == "__main__":
    main()
