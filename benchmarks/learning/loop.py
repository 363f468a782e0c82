"""The whole of learning in one process, without a network: draws, engine, reward, batch, update, policy folder, swap.

Every part is the program's own; what stands for workers, ledger and validators is this loop. How far rollouts lag
behind is not left to chance: those for step s come from policy max(0, s - lag). All noise follows from the seed, so
one seed gives one curve.

It decides nothing about recipes or tasks, and measures no time.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

import numpy as np
from eth_utils import keccak
from transformers import AutoTokenizer

from rl.batch import StepBatch
from rl.dictated import dictated_problems, reward_of
from rl.draw import MAX_SUBMISSIONS, draw_seed
from rl.engine import Completion, Engine
from rl.lengths import LengthReward, target_of
from rl.plain_engine import TransformersEngine
from rl.problems import Problem
from rl.prompts import decode_completion, render_prompt
from rl.recipe import Recipe
from rl.rollouts import Rollout
from rl.seeded import Sampling
from rl.tasks import Task
from rl.trainer import PolicyTrainer, StepMetrics

WORKER = "0x" + "11" * 20
MAX_MODEL_LEN = 256
EVALUATION_STEP = 2**32
"""The step whose draws evaluations take: none that is trained on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What one run differs in from another."""

    steps: int
    recipe: Recipe
    seed: int
    lag: int = 0
    """Asynchrony level: policy versions by which rollouts are older than their step."""
    groups: int = 8
    """Problems of a submission, and groups of a batch; at most the task's size."""
    samples: int = 8
    max_new_tokens: int = 4
    online_filter: bool = True
    """Whether groups without signal are left out and more are asked for, until the batch is full."""
    length: LengthReward | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What one step showed."""

    version: int
    """Policy that made the rollouts."""
    reward: float
    """Mean over all rollouts, trained on or not; of the task alone where length counts too."""
    length: float
    """Mean tokens of a completion."""
    length_gap: float
    """Mean distance in tokens to the target length; 0 without targets."""
    completions: int
    """Generated for the step."""
    with_signal: float
    """Share of the seen groups whose rewards are not all equal."""
    metrics: StepMetrics


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """A policy on a whole task."""

    rewards: Mapping[str, float]
    """Problem id → mean, of the task alone."""
    length_gap: float

    @property
    def reward(self) -> float:
        return fmean(self.rewards.values())


@dataclass(slots=True, kw_only=True)
class Run:
    """The curve of one run, and the policy's score before and after."""

    before: Score
    after: Score
    steps: list[Step] = field(default_factory=list)
    ended_early: bool = False
    """No full batch of groups with signal came of all submissions that a worker may make for a step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """One completion, and what it is worth without regard to its length."""

    problem: Problem
    prompt_ids: tuple[int, ...]
    completion: Completion
    text: str
    worth: float
    gap: int
    """Tokens between its length and its target; 0 without one."""


class Classroom:
    """An engine on a policy, and the task that it is asked."""

    def __init__(self, base: Path, task: Task, setting: Setting) -> None:
        self._task, self._setting = task, setting
        self._tokenizer = AutoTokenizer.from_pretrained(base)
        self._run_id = keccak(b"intellect-node/bench-learning" + setting.seed.to_bytes(8, "big"))
        self.engine: Engine = TransformersEngine(
            base, compute_type="float32", max_model_len=MAX_MODEL_LEN, prove=_unproved, seed=setting.seed
        )

    def submission(self, step: int, version: int, counter: int) -> tuple[bytes, list[Rollout], list[_Answer]]:
        """The id of a worker's submission, and its rollouts beside the answers that they hold."""
        seed = draw_seed(self._run_id, step, WORKER, counter)
        groups = self._answers(seed, self._setting.groups, self._setting.samples)
        rollouts = [
            Rollout(
                step=step,
                policy_version=version,
                counter=counter,
                group=group,
                sample=sample,
                problem_id=one.problem.problem_id,
                prompt_ids=one.prompt_ids,
                completion_ids=one.completion.token_ids,
                text=one.text,
                logprobs=one.completion.logprobs,
                finish_reason=one.completion.finish_reason,
                reward=self._reward(one.problem, one.completion, one.text, self._setting.length),
                proofs=(),
            )
            for group, members in enumerate(groups)
            for sample, one in enumerate(members)
        ]
        return seed, rollouts, [one for members in groups for one in members]

    def score(self, samples: int) -> Score:
        """The policy on every problem of the task, `samples` completions each."""
        seed = draw_seed(self._run_id, EVALUATION_STEP, WORKER, 0)
        groups = self._answers(seed, self._task.size, samples)
        rewards = {members[0].problem.problem_id: fmean(one.worth for one in members) for members in groups}
        return Score(rewards=rewards, length_gap=fmean(one.gap for members in groups for one in members))

    def _answers(self, seed: bytes, groups: int, samples: int) -> list[list[_Answer]]:
        problems = dictated_problems(seed, groups, self._task, self._setting.length)
        prompts = [render_prompt(self._tokenizer, problem, None) for problem in problems]
        completions = self.engine.generate(
            prompts,
            samples=samples,
            max_tokens=self._setting.max_new_tokens,
            sampling=Sampling(temperature=self._setting.recipe.temperature),
            seed=seed,
        )
        return [
            [self._answer(problem, prompt, completion) for completion in members]
            for problem, prompt, members in zip(problems, prompts, completions, strict=True)
        ]

    def _answer(self, problem: Problem, prompt_ids: tuple[int, ...], completion: Completion) -> _Answer:
        text = decode_completion(self._tokenizer, completion.token_ids)
        worth = self._reward(problem, completion, text, None)
        gap = 0 if self._setting.length is None else abs(target_of(problem) - len(completion.token_ids))
        return _Answer(problem=problem, prompt_ids=prompt_ids, completion=completion, text=text, worth=worth, gap=gap)

    def _reward(self, problem: Problem, completion: Completion, text: str, lengths: LengthReward | None) -> float:
        finished, tokens = completion.finish_reason == "eos", len(completion.token_ids)
        return reward_of(self._task, problem, text, finished=finished, tokens=tokens, lengths=lengths)


def learn(base: Path, task: Task, setting: Setting, work: Path, *, judged_by: Task | None = None) -> Run:
    """Train `base` on the task.

    Args:
        work: an empty or missing folder for policies; gone afterwards.
        judged_by: the task on which the policy is scored before and after; None: the same.
    """
    classroom = Classroom(base, task, setting)
    judge = classroom if judged_by is None else Classroom(base, judged_by, setting)
    trainer = PolicyTrainer(base, recipe=setting.recipe, compute_type="float32")
    samples = max(16, setting.samples)
    before = judge.score(samples)
    run = Run(before=before, after=before)
    policies = [base]
    work.mkdir(parents=True, exist_ok=True)
    for number in range(setting.steps):
        version = max(0, number - setting.lag)
        if version > 0:
            classroom.engine.load(policies[version])
            if version > 1:
                shutil.rmtree(policies[version - 1])
        step = _step(classroom, trainer, setting, number, version)
        if step is None:
            run.ended_early = True
            break
        run.steps.append(step)
        policies.append(work / f"policy-{number + 1}")
        trainer.save(policies[-1], step=number, submissions=())
    judge.engine.load(policies[-1])
    run.after = judge.score(samples)
    shutil.rmtree(work)
    return run


def _step(classroom: Classroom, trainer: PolicyTrainer, setting: Setting, number: int, version: int) -> Step | None:
    """Gather a batch and train on it; None if there is no full one."""
    batch = StepBatch(step=number, wanted=setting.groups, online_filter=setting.online_filter)
    answers: list[_Answer] = []
    for counter in range(MAX_SUBMISSIONS):
        seed, rollouts, more = classroom.submission(number, version, counter)
        batch.add(seed, rollouts)
        answers += more
        if batch.full:
            break
    else:
        return None
    return Step(
        version=version,
        reward=fmean(one.worth for one in answers),
        length=fmean(batch.lengths),
        length_gap=fmean(one.gap for one in answers),
        completions=len(answers),
        with_signal=1 - batch.no_signal / batch.seen_groups,
        metrics=trainer.step(batch.batch()),
    )


def _unproved(completions: Sequence[np.ndarray]) -> list[list[bytes]]:
    """Nobody checks these rollouts."""
    return [[] for _ in completions]
