"""A tiny, real world for the checks: a random Llama on disk, its tokenizer, and an honest worker's submission."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from rl.prompts import decode_completion, render_prompt
from rl.rollouts import Rollout, write_rollouts
from rl.tasks import Task, load_task
from verify.checks import dictated_problems
from verify.prefill import TransformersPolicy
from verify.proofs import build_many
from verify.rules import Claim, Rules
from verify.verdict import Verdict, judge

RULES = Rules(groups=3, samples=6, max_new_tokens=40)
CLAIM = Claim(
    run_id=b"r" * 32, worker="0x" + "a1" * 20, step=5, counter=0, file_hash=b"", open_step=5, newest_version=5
)


def write_checkpoint(folder: Path) -> None:
    """A random two-layer Llama over printable ASCII with a chat template, as a Hugging Face folder in bf16."""
    letters = [chr(code) for code in range(32, 127)]
    vocabulary = {token: number for number, token in enumerate(["<eos>", "<user>", "<bot>", *letters])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    tokenizer.decoder = decoders.Fuse()
    tokenizer.add_special_tokens(["<eos>", "<user>", "<bot>"])
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<eos>", unk_token="?")
    fast.add_special_tokens({"additional_special_tokens": ["<user>", "<bot>"]})
    fast.chat_template = "{% for m in messages %}<user>{{ m['content'] }}{% endfor %}<bot>"
    fast.save_pretrained(folder)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(vocabulary), hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, head_dim=32, initializer_range=0.15, tie_word_embeddings=True, eos_token_id=0,
        bos_token_id=None, max_position_embeddings=512,
    )  # fmt: skip
    LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)


def short(verdict: Verdict) -> str:
    return verdict.outcome if verdict.rejection is None else f"{verdict.outcome}: {verdict.rejection.code}"


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """One policy, one pool, one task; `generate` is a worker and `judge` a validator."""

    folder: Path
    policy: TransformersPolicy
    task: Task
    scratch: Path

    def generate(
        self, *, claim: Claim = CLAIM, policy: TransformersPolicy | None = None, version: int = 5, seed: int = 1,
        pick: Callable[[torch.Tensor, int], torch.Tensor] | None = None, prompt_prefix: tuple[int, ...] = (),
    ) -> tuple[Rollout, ...]:  # fmt: skip
        """A submission as the policy's own worker makes it.

        Args:
            pick: chooses tokens [rows] from logits [rows, vocabulary] and their index; default samples at T = 1.
        """
        policy = policy or self.policy
        generator = torch.Generator().manual_seed(seed)

        def sampled(logits: torch.Tensor, _: int) -> torch.Tensor:
            return torch.multinomial(logits.softmax(-1), 1, generator=generator)[:, 0]

        rollouts = []
        for group, problem in enumerate(dictated_problems(claim, RULES, self.task)):
            prompt = (*prompt_prefix, *render_prompt(policy.tokenizer, problem, None))
            for sample, completion in enumerate(self._complete(policy, prompt, pick or sampled)):
                text = decode_completion(policy.tokenizer, completion)
                finish = "eos" if completion[-1] == 0 else "length"
                rollouts.append(
                    Rollout(
                        step=claim.step,
                        policy_version=version,
                        counter=claim.counter,
                        group=group,
                        sample=sample,
                        problem_id=problem.problem_id,
                        prompt_ids=prompt,
                        completion_ids=completion,
                        text=text,
                        logprobs=(),
                        finish_reason=finish,
                        reward=self.task.reward(problem, text, finish == "eos"),
                        proofs=(),
                    )
                )
        return self.prove(rollouts, policy)

    def prove(self, rollouts: Sequence[Rollout], policy: TransformersPolicy | None = None) -> tuple[Rollout, ...]:
        """The rollouts with the proofs and log-probabilities that `policy` gives to their tokens."""
        prefilled = (policy or self.policy).prefill(rollouts, temperature=1.0)
        proofs = build_many([p.states for p in prefilled])
        return tuple(
            replace(r, logprobs=tuple(p.logprobs.tolist()), proofs=tuple(q))
            for r, p, q in zip(rollouts, prefilled, proofs, strict=True)
        )

    def judge(self, rollouts: Sequence[Rollout], claim: Claim = CLAIM) -> Verdict:
        """The verdict on a file of these rollouts, recorded under its right hash."""
        path = self.scratch / "submission.parquet"
        write_rollouts(path, tuple(rollouts))
        return self.judge_file(path, replace(claim, file_hash=hashlib.sha256(path.read_bytes()).digest()))

    def finding(self, rollouts: Sequence[Rollout], claim: Claim = CLAIM) -> str:
        """The verdict in short: "accepted", "rejected: size", "late: stale"."""
        return short(self.judge(rollouts, claim))

    def finding_of_file(self, path: Path | None, claim: Claim) -> str:
        return short(self.judge_file(path, claim))

    @staticmethod
    def edit(rollouts: tuple[Rollout, ...], row: int, **changes: object) -> tuple[Rollout, ...]:
        """The same rollouts with fields of one row changed."""
        return (*rollouts[:row], replace(rollouts[row], **changes), *rollouts[row + 1 :])

    def judge_file(self, path: Path | None, claim: Claim) -> Verdict:
        return judge(path, claim=claim, rules=RULES, task=self.task, load_policy=lambda version: self.policy)

    def variant(self, change: Callable[[torch.Tensor], torch.Tensor]) -> TransformersPolicy:
        """The same policy with every weight matrix changed: what a cheat really runs."""
        other = TransformersPolicy(self.folder)
        weights = other._model.state_dict()
        other._model.load_state_dict({k: change(v) if v.ndim == 2 else v for k, v in weights.items()})
        return other

    @staticmethod
    @torch.inference_mode()
    def _complete(
        policy: TransformersPolicy, prompt: tuple[int, ...], pick: Callable[[torch.Tensor, int], torch.Tensor]
    ) -> list[tuple[int, ...]]:
        ids = torch.tensor([prompt] * RULES.samples)
        for index in range(RULES.max_new_tokens):
            logits = policy._model(ids).logits[:, -1].float()
            ids = torch.cat([ids, pick(logits, index)[:, None]], dim=1)
        rows = [tuple(row[len(prompt) :]) for row in ids.tolist()]
        return [row[: row.index(0) + 1] if 0 in row else row for row in rows]


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoint")
    write_checkpoint(folder)
    return folder


@pytest.fixture(scope="session")
def world(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> World:
    torch.set_num_threads(1)
    return World(
        folder=checkpoint, policy=TransformersPolicy(checkpoint), task=load_task("arithmetic"),
        scratch=tmp_path_factory.mktemp("scratch"),
    )  # fmt: skip


@pytest.fixture(scope="session")
def honest(world: World) -> tuple[Rollout, ...]:
    return world.generate()


@pytest.fixture(scope="session")
def claim() -> Claim:
    return CLAIM
