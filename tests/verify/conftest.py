"""A tiny, real world for the checks: a random Llama on disk, its tokenizer, and an honest worker's submission."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from rl.dictated import reward_of
from rl.draw import draw_seed
from rl.prompts import decode_completion, render_prompt
from rl.rollouts import Rollout, write_rollouts
from rl.seeded import Sampling, choose, completion_key
from rl.tasks import Task, load_task
from verify.checks import dictated_problems
from verify.policy import Policy
from verify.prefill import TransformersPolicy
from verify.proofs import build_many
from verify.rules import Claim, Rules
from verify.verdict import Verdict, examine, judge

RULES = Rules(groups=3, samples=6, max_new_tokens=40)
UNSEEDED = replace(RULES, seeded=False)
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
        self, *, claim: Claim = CLAIM, rules: Rules = RULES, policy: TransformersPolicy | None = None,
        version: int = 5, seed: int = 1, pick: Callable[[torch.Tensor, int], torch.Tensor] | None = None,
        prompt_prefix: tuple[int, ...] = (),
    ) -> tuple[Rollout, ...]:  # fmt: skip
        """A submission as the policy's own worker makes it: by the claim's seed, or by a generator of its own.

        Args:
            seed: of that generator, in an unseeded pool.
            pick: chooses tokens [rows] from logits [rows, vocabulary] and their index, as a cheat may.
        """
        policy = policy or self.policy
        generator = torch.Generator().manual_seed(seed)
        draw = draw_seed(claim.run_id, claim.step, claim.worker, claim.counter)

        def drawn(logits: torch.Tensor, _: int) -> torch.Tensor:
            return torch.multinomial((logits / rules.temperature).softmax(-1), 1, generator=generator)[:, 0]

        def picker(group: int) -> Callable[[torch.Tensor, int], torch.Tensor]:
            keys = [completion_key(draw, group, sample) for sample in range(rules.samples)]

            def forced(logits: torch.Tensor, index: int) -> torch.Tensor:
                return torch.tensor(choose(logits, keys, [index] * len(keys), rules.sampling)[0])

            return forced if rules.seeded else drawn

        rollouts = []
        for group, problem in enumerate(dictated_problems(claim, rules, self.task)):
            prompt = (*prompt_prefix, *render_prompt(policy.tokenizer, problem, None))
            for sample, completion in enumerate(self._complete(policy, prompt, pick or picker(group), rules)):
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
                        reward=reward_of(
                            self.task,
                            problem,
                            text,
                            finished=finish == "eos",
                            tokens=len(completion),
                            lengths=rules.lengths,
                        ),
                        proofs=(),
                    )
                )
        return self.prove(rollouts, policy, sampling=rules.sampling)

    def prove(
        self,
        rollouts: Sequence[Rollout],
        policy: TransformersPolicy | None = None,
        *,
        sampling: Sampling = RULES.sampling,
    ) -> tuple[Rollout, ...]:
        """The rollouts with the proofs and log-probabilities that `policy` gives to their tokens."""
        keys = [bytes(32)] * len(rollouts) if sampling.cuts else None
        prefilled = (policy or self.policy).prefill(rollouts, sampling=sampling, keys=keys)
        proofs = build_many([p.states for p in prefilled])
        return tuple(
            replace(r, logprobs=tuple(p.logprobs.tolist()), proofs=tuple(q))
            for r, p, q in zip(rollouts, prefilled, proofs, strict=True)
        )

    def judge(self, rollouts: Sequence[Rollout], claim: Claim = CLAIM, **options: Any) -> Verdict:
        """The verdict on a file of these rollouts, recorded under its right hash; options as of `judge_file`."""
        path, recorded = self.record(rollouts, claim)
        return self.judge_file(path, recorded, **options)

    def record(self, rollouts: Sequence[Rollout], claim: Claim = CLAIM) -> tuple[Path, Claim]:
        """A file of these rollouts and the claim with its hash. The next one overwrites it."""
        path = self.scratch / "submission.parquet"
        write_rollouts(path, tuple(rollouts))
        return path, replace(claim, file_hash=hashlib.sha256(path.read_bytes()).digest())

    def finding(self, rollouts: Sequence[Rollout], claim: Claim = CLAIM, **options: Any) -> str:
        """The verdict in short: "accepted", "rejected: size", "late: stale"."""
        return short(self.judge(rollouts, claim, **options))

    def finding_of_file(self, path: Path | None, claim: Claim, **options: Any) -> str:
        return short(self.judge_file(path, claim, **options))

    def judge_file(
        self, path: Path | None, claim: Claim, *, rules: Rules = RULES, load: Policy | None = None, **options: Any
    ) -> Verdict:
        """By the policy `load`, or the world's. Options are `verify.verdict.judge`'s: earlier, observe, without."""
        return judge(
            path, claim=claim, rules=rules, task=self.task, load_policy=lambda version: load or self.policy, **options
        )

    def examine(
        self, rollouts: Sequence[Rollout], claim: Claim = CLAIM, *, rules: Rules = RULES, **options: Any
    ) -> dict[str, str | None]:
        """What each check that can be made finds: its name, and the detail of its rejection or None."""
        path, recorded = self.record(rollouts, claim)
        found = examine(
            path, claim=recorded, rules=rules, task=self.task, load_policy=lambda version: self.policy, **options
        )
        return {name: rejection and rejection.detail for name, rejection in found}

    @staticmethod
    def edit(rollouts: tuple[Rollout, ...], row: int, **changes: object) -> tuple[Rollout, ...]:
        """The same rollouts with fields of one row changed."""
        return (*rollouts[:row], replace(rollouts[row], **changes), *rollouts[row + 1 :])

    def variant(self, change: Callable[[torch.Tensor], torch.Tensor]) -> TransformersPolicy:
        """The same policy with every weight matrix changed: what a cheat really runs."""
        other = TransformersPolicy(self.folder)
        weights = other._model.state_dict()
        other._model.load_state_dict({k: change(v) if v.ndim == 2 else v for k, v in weights.items()})
        return other

    @staticmethod
    @torch.inference_mode()
    def _complete(
        policy: TransformersPolicy,
        prompt: tuple[int, ...],
        pick: Callable[[torch.Tensor, int], torch.Tensor],
        rules: Rules,
    ) -> list[tuple[int, ...]]:
        ids, cache, chosen = torch.tensor([prompt] * rules.samples), None, []
        for index in range(rules.max_new_tokens):
            seen = policy._model(ids, past_key_values=cache, use_cache=True)
            ids, cache = pick(seen.logits[:, -1].float(), index)[:, None], seen.past_key_values
            chosen.append(ids)
        rows = [tuple(row) for row in torch.cat(chosen, dim=1).tolist()]
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
