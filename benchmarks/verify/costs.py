"""What proofs, seeds and checks cost beside generating: one process, one thread, interleaved rounds. Prints JSON.

Each round makes every measurement once, in an order that turns, so that a busy machine slows all of them alike;
ratios are taken within a round, of CPU time per token, and the medians over rounds reported, with the rates by the
clock beside them. It decides nothing. Argument: rounds.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import psutil
import torch
from vllm import SamplingParams, TokensPrompt

from benchmarks.verify.settings import LONG
from node.model import base_model
from rl.engine import Completion, read_weights
from rl.prompts import render_prompt
from rl.rollouts import Rollout
from rl.seeded import Sampling, completion_key
from rl.vllm_engine import VllmEngine
from verify.head import read
from verify.prefill import TransformersPolicy
from verify.proofs import build_many, compare_many

GROUPS = 16
BATCHES = (1, 4, 16, 64)
SEED = bytes(range(32))


class Switched:
    """The proof builder, or one that builds nothing. Counts its own CPU seconds, which no busy neighbour blurs."""

    def __init__(self) -> None:
        self.on, self.seconds = True, 0.0

    def __call__(self, states: Sequence[np.ndarray]) -> list[list[bytes]]:
        if not self.on:
            return [[b""] for _ in states]
        before = time.thread_time()
        proofs = build_many(states)
        self.seconds += time.thread_time() - before
        return proofs


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """Seconds by the clock and of CPU, of all threads, and for how many completion tokens."""

    wall: float
    cpu: float
    tokens: int
    proving: float
    """CPU seconds of those that went into proofs."""


class Bench:
    """An engine and a validator's policy in one process."""

    def __init__(self) -> None:
        base = base_model("")
        self.prove = Switched()
        self.memory: dict[str, float] = {}
        before = _resident()
        self._engine = VllmEngine(base, compute_type="bfloat16", max_model_len=256, prove=self.prove, seed=1)
        self.memory["vllm engine"] = _resident() - before
        before = _resident()
        self._policy = TransformersPolicy(base, compute_dtype="bfloat16")
        self._tokenizer = self._policy.tokenizer
        problems = [LONG.task.problem(index) for index in range(GROUPS)]
        self._prompts = [render_prompt(self._tokenizer, problem, None) for problem in problems]
        self._head = read_weights(Path(base))["model.embed_tokens.weight"]
        self._made = self._generate(GROUPS)
        self._rollouts = self._as_rollouts(self._made)
        self.prefill()
        self.memory["validator's policy and prefill"] = _resident() - before

    def measurements(self) -> dict[str, Callable[[], int]]:
        """What is measured; each returns its completion tokens."""
        return {
            "seeded, proofs": lambda: self._tokens(proofs=True),
            "seeded, no proofs": lambda: self._tokens(proofs=False),
            "vLLM's sampler and log-probs": lambda: self._unseeded(logprobs=0),
            "vLLM's sampler alone": lambda: self._unseeded(logprobs=None),
            **{f"generate, batch {rows}": lambda rows=rows: self._batch(rows) for rows in BATCHES},
            "verify": self.prefill,
            "vLLM's forward pass": self._vllm_prefill,
            "head and margins": self._read,
        }

    def prefill(self) -> int:
        """All that a validator does with tokens: forward pass, head, margins, proofs compared."""
        keys = [completion_key(SEED, r.group, r.sample) for r in self._rollouts]
        prefilled = self._policy.prefill(self._rollouts, sampling=Sampling(), keys=keys)
        compare_many([p.states for p in prefilled], [r.proofs for r in self._rollouts])
        return sum(len(r.completion_ids) for r in self._rollouts)

    def _tokens(self, *, proofs: bool) -> int:
        self.prove.on = proofs
        made = self._generate(GROUPS)
        self.prove.on = True
        return _count(made)

    def _batch(self, rows: int) -> int:
        """64 completions for 64 rows; fewer for less, or the narrow ones would take all the time."""
        return _count(self._generate(max(1, rows // LONG.samples), samples=min(rows, LONG.samples)))

    def _generate(self, groups: int, samples: int = LONG.samples) -> list[list[Completion]]:
        self._llm.reset_prefix_cache()
        return self._engine.generate(
            self._prompts[:groups], samples=samples, max_tokens=LONG.max_new_tokens, sampling=Sampling(), seed=SEED
        )

    def _unseeded(self, *, logprobs: int | None) -> int:
        """By vLLM's own sampler, as an engine without seeds would; the engine offers no such way itself."""
        prompts = [TokensPrompt(prompt_token_ids=list(p)) for p in self._prompts for _ in range(LONG.samples)]
        parameters = SamplingParams(
            temperature=1.0, max_tokens=LONG.max_new_tokens, logprobs=logprobs, detokenize=False
        )
        self._llm.reset_prefix_cache()
        outputs = self._llm.generate(prompts, parameters, use_tqdm=False)
        return sum(len(output.outputs[0].token_ids) for output in outputs)

    def _vllm_prefill(self) -> int:
        """The forward pass alone over the same completions, by vLLM, which shares each prompt by its prefix cache."""
        self._llm.reset_prefix_cache()
        prompts = [TokensPrompt(prompt_token_ids=[*r.prompt_ids, *r.completion_ids[:-1]]) for r in self._rollouts]
        self._llm.generate(prompts, SamplingParams(temperature=0.0, max_tokens=1, detokenize=False), use_tqdm=False)
        return sum(len(r.completion_ids) for r in self._rollouts)

    @torch.inference_mode()
    def _read(self) -> int:
        """What comes after a forward pass, whosever it is."""
        ids = torch.tensor([token for r in self._rollouts for token in r.completion_ids])
        keys = [completion_key(SEED, r.group, r.sample) for r in self._rollouts for _ in r.completion_ids]
        positions = [place for r in self._rollouts for place in range(len(r.completion_ids))]
        states = torch.randn(len(ids), self._head.shape[1]).to(torch.bfloat16)
        for start in range(0, len(ids), 512):
            part = slice(start, start + 512)
            read(
                states[part] @ self._head.T,
                ids[part],
                eos_token_id=self._tokenizer.eos_token_id,
                sampling=Sampling(),
                keys=keys[part],
                positions=positions[part],
            )
        return len(ids)

    @property
    def _llm(self) -> Any:
        return self._engine._llm

    def _as_rollouts(self, made: list[list[Completion]]) -> list[Rollout]:
        return [
            Rollout(
                step=0,
                policy_version=0,
                counter=0,
                group=group,
                sample=sample,
                problem_id=str(group),
                prompt_ids=self._prompts[group],
                completion_ids=one.token_ids,
                text="",
                logprobs=one.logprobs,
                finish_reason=one.finish_reason,
                reward=0.0,
                proofs=one.proofs,
            )
            for group, some in enumerate(made)
            for sample, one in enumerate(some)
        ]


def main(rounds: int) -> None:
    bench = Bench()
    measured: list[dict[str, Spent]] = []
    for number in range(rounds):
        named = list(bench.measurements().items())
        turned = named[number % len(named) :] + named[: number % len(named)]
        measured.append({name: _spent(make, bench.prove) for name, make in turned})
        print(f"costs: round {number + 1} of {rounds}", file=sys.stderr, flush=True)
    print(json.dumps(_summary(measured) | {"memory_mib": bench.memory}))


def _summary(measured: list[dict[str, Spent]]) -> dict[str, object]:
    def cpu(name: str, over: str) -> float:
        """Median over rounds of CPU time a token, relative to `over`'s."""
        return median((r[name].cpu / r[name].tokens) / (r[over].cpu / r[over].tokens) for r in measured)

    def wall(name: str, over: str) -> float:
        return median((r[name].wall / r[name].tokens) / (r[over].wall / r[over].tokens) for r in measured)

    forward = [r["vLLM's forward pass"].cpu + r["head and margins"].cpu for r in measured]
    tokens = measured[0]["verify"].tokens
    return {
        "rounds": len(measured),
        "proof_cost": median(_proving(r["seeded, proofs"]) for r in measured),
        "proof_cost_paired": cpu("seeded, proofs", "seeded, no proofs") - 1.0,
        "proof_cost_by_clock": wall("seeded, proofs", "seeded, no proofs") - 1.0,
        "seeded_cost": cpu("seeded, no proofs", "vLLM's sampler and log-probs") - 1.0,
        "seeded_cost_by_clock": wall("seeded, no proofs", "vLLM's sampler and log-probs") - 1.0,
        "seeded_cost_without_logprobs": cpu("seeded, no proofs", "vLLM's sampler alone") - 1.0,
        "verify_vs_generate": {str(rows): cpu(f"generate, batch {rows}", "verify") for rows in BATCHES},
        "verify_vs_generate_by_clock": {str(rows): wall(f"generate, batch {rows}", "verify") for rows in BATCHES},
        "verify_by_vllm_vs_generate": {
            str(rows): median(
                r[f"generate, batch {rows}"].cpu / r[f"generate, batch {rows}"].tokens * tokens / spent
                for r, spent in zip(measured, forward, strict=True)
            )
            for rows in BATCHES
        },
        "cpu_ms_a_token": {name: median(1e3 * r[name].cpu / r[name].tokens for r in measured) for name in measured[0]},
        "tokens_a_second": {name: median(r[name].tokens / r[name].wall for r in measured) for name in measured[0]},
    }


def _spent(make: Callable[[], int], prove: Switched) -> Spent:
    wall, cpu, proving = time.perf_counter(), time.process_time(), prove.seconds
    tokens = make()
    return Spent(
        wall=time.perf_counter() - wall,
        cpu=time.process_time() - cpu,
        tokens=tokens,
        proving=prove.seconds - proving,
    )


def _proving(spent: Spent) -> float:
    """CPU time of proofs beside that of all else."""
    return spent.proving / (spent.cpu - spent.proving)


def _count(made: list[list[Completion]]) -> int:
    return sum(len(one.token_ids) for some in made for one in some)


def _resident() -> float:
    """MiB of this process in memory."""
    return psutil.Process().memory_info().rss / 2**20


if __name__ == "__main__":
    main(int(sys.argv[1]))
