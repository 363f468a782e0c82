"""Where attacks happen: a tiny policy in float32, what an honest worker made with it, and the tools of a dishonest one.

It decides nothing about attacks. Arithmetic is float32 on both sides, so that the findings are those of the cheat and
the same on every machine; what bfloat16 hides is the business of `verify.thresholds`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import torch
from transformers import PreTrainedModel

from rl.draw import draw_seed
from rl.hardware import ComputeType
from rl.prompts import decode_completion
from rl.rollouts import Rollout
from rl.seeded import Sampling, choose, completion_key
from rl.tasks import Problem, load_task
from tests.verify.conftest import CLAIM, RULES, UNSEEDED, World, write_checkpoint
from verify.checks import dictated_problems
from verify.policy import Prefilled
from verify.prefill import TransformersPolicy
from verify.rules import Claim, Rules

Rollouts = tuple[Rollout, ...]
Meddle = Callable[[torch.Tensor, torch.Tensor, int, int], torch.Tensor]
"""Tokens [samples] from logits [samples, vocabulary], the forced tokens [samples], group, and index of the token."""


class Remembering:
    """A policy that does its last prefill of each arithmetic once only: a submission is judged once for each check."""

    def __init__(self, policy: TransformersPolicy) -> None:
        self._policy = policy
        self._answers: dict[ComputeType, tuple[object, Sequence[Prefilled]]] = {}
        self.tokenizer, self.hidden_size, self.vocab_size = policy.tokenizer, policy.hidden_size, policy.vocab_size
        self.compute_type = policy.compute_type

    def prefill(
        self,
        rollouts: Sequence[Rollout],
        *,
        sampling: Sampling,
        keys: Sequence[bytes] | None,
        compute_type: ComputeType | None = None,
    ) -> Sequence[Prefilled]:
        kind, asked = compute_type or self.compute_type, (tuple(rollouts), sampling, keys and tuple(keys))
        if kind not in self._answers or self._answers[kind][0] != asked:
            answer = self._policy.prefill(rollouts, sampling=sampling, keys=keys, compute_type=kind)
            self._answers[kind] = asked, answer
        return self._answers[kind][1]


def rounded(values: torch.Tensor, bits: int) -> torch.Tensor:
    """Symmetric integers of so many bits, with one scale a row."""
    scale = values.abs().amax(-1, keepdim=True).clamp(min=1e-9) / (2 ** (bits - 1) - 1)
    return (values / scale).round() * scale


def forced(logits: torch.Tensor, group: int, index: int, *, claim: Claim = CLAIM, rules: Rules = RULES) -> torch.Tensor:
    """Tokens [samples] that the seed forces from logits [samples, vocabulary] of one group, at one index."""
    draw = draw_seed(claim.run_id, claim.step, claim.worker, claim.counter)
    keys = [completion_key(draw, group, sample) for sample in range(len(logits))]
    return torch.tensor(choose(logits, keys, [index] * len(keys), rules.sampling)[0])


@dataclass(frozen=True)
class Stage:
    """One policy of version 5 at step 5, and two pools: with seeds and without."""

    world: World

    @cached_property
    def policy(self) -> Remembering:
        """The validator's."""
        return Remembering(self.world.policy)

    @cached_property
    def honest(self) -> Rollouts:
        """18 completions in 3 groups, each token forced by the seed."""
        return self.world.generate()

    @cached_property
    def unseeded(self) -> Rollouts:
        """The same work in a pool without seeds."""
        return self.world.generate(rules=UNSEEDED)

    @cached_property
    def others(self) -> Rollouts:
        """What another worker, who drew the same problems, answered to them."""
        return self.world.generate(rules=UNSEEDED, seed=21)

    @cached_property
    def in_int4(self) -> Rollouts:
        """The seeded work, done with weights of 4 bits."""
        return self.world.generate(policy=self.with_weights(lambda weight: rounded(weight, 4)))

    @cached_property
    def problems(self) -> tuple[Problem, ...]:
        """Those that the ledger's entry dictates."""
        return dictated_problems(CLAIM, RULES, self.world.task)

    @property
    def longest(self) -> int:
        """A row of `honest` that fills its maximum of 40 tokens."""
        return next(n for n, r in enumerate(self.honest) if r.finish_reason == "length")

    @property
    def ended(self) -> int:
        """A row of `honest` that came to its EOS."""
        return next(n for n, r in enumerate(self.honest) if r.finish_reason == "eos")

    def edit(self, row: int, **changes: object) -> Rollouts:
        """Honest work with fields of one row changed."""
        return self.world.edit(self.honest, row, **changes)

    def edit_all(self, change: Callable[[Rollout], dict[str, object]]) -> Rollouts:
        """Honest work with fields of all rows changed."""
        return tuple(replace(r, **change(r)) for r in self.honest)

    def meddled(self, meddle: Meddle, *, claim: Claim = CLAIM, rules: Rules = RULES) -> Rollouts:
        """What a worker makes that knows the forced tokens and takes others; all else is done honestly."""
        group = -1

        def pick(logits: torch.Tensor, index: int) -> torch.Tensor:
            nonlocal group
            group += index == 0
            return meddle(logits, forced(logits, group, index, claim=claim, rules=rules), group, index)

        return self.world.generate(claim=claim, rules=rules, pick=pick)

    def with_tokens(self, rollout: Rollout, ids: Sequence[int]) -> Rollout:
        """The rollout with other tokens, and text, ending and reward that fit them; not yet proven."""
        text = decode_completion(self.world.policy.tokenizer, tuple(ids))
        finish = "eos" if ids[-1] == 0 else "length"
        reward = self.world.task.reward(self.problems[rollout.group], text, finish == "eos")
        return replace(rollout, completion_ids=tuple(ids), text=text, finish_reason=finish, reward=reward)

    def answer_ids(self, text: str) -> tuple[int, ...]:
        """Tokens of printable ASCII, then the EOS."""
        return (*(3 + ord(letter) - 32 for letter in text), 0)

    def fresh_policy(self) -> TransformersPolicy:
        """The policy once more, to be tampered with."""
        return TransformersPolicy(self.world.folder, compute_dtype="float32")

    def with_weights(self, change: Callable[[torch.Tensor], torch.Tensor]) -> TransformersPolicy:
        """The policy with every weight matrix changed; the head stays tied to the embeddings."""
        policy = self.fresh_policy()
        weights = policy._model.state_dict()
        with torch.no_grad():
            for name, weight in weights.items():
                if weight.ndim == 2 and name != "lm_head.weight":
                    weight.copy_(change(weight.clone()))
        return policy

    def with_model(self, tamper: Callable[[PreTrainedModel], None]) -> TransformersPolicy:
        """The policy with its model tampered with."""
        policy = self.fresh_policy()
        with torch.no_grad():
            tamper(policy._model)
        return policy


def open_stage(folder: Path) -> Stage:
    """A stage in an empty folder. Uses one thread from then on."""
    torch.set_num_threads(1)
    checkpoint = folder / "checkpoint"
    write_checkpoint(checkpoint)
    policy = TransformersPolicy(checkpoint, compute_dtype="float32")
    return Stage(World(folder=checkpoint, policy=policy, task=load_task("arithmetic"), scratch=folder))
