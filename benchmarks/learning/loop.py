"""The whole of learning in one process, without a network: draws, engine, reward, batch, update, policy folder, swap.

Every part is the program's own; what stands for workers, ledger and validators is this loop. How far rollouts lag
behind is not left to chance: those for step s come from policy max(0, s - lag). All noise follows from the seed, so
one seed gives one curve.

It decides nothing about recipes or tasks, and measures no time.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

import numpy as np
from eth_utils import keccak
from transformers import AutoTokenizer

from rl.batch import StepBatch
from rl.draw import MAX_SUBMISSIONS, draw_problems, draw_seed
from rl.engine import Completion, Engine
from rl.lengths import LengthReward, draw_targets, total_reward, with_target
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

    rewards: tuple[float, ...]
    """Mean of each problem, of the task alone."""
    length_gap: float

    @property
    def reward(self) -> float:
        return fmean(self.rewards)


@dataclass(slots=True, kw_only=True)
class Run:
    """The curve of one run, and the policy's score before and after."""

    before: Score
    after: Score
    steps: list[Step] = field(default_factory=list)
    ended_early: bool = False
    """No full batch of groups with signal came of all submissions that a worker may make for a step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answered:
    """A submission's problems with what was generated."""

    problem: Problem
    prompt_ids: tuple[int, ...]
    target: int
    completions: list[Completion]


class Classroom:
    """An engine on a policy, and the task that it is asked."""

    def __init__(self, base: Path, task: Task, setting: Setting) -> None:
        self._task, self._setting = task, setting
        self._tokenizer = AutoTokenizer.from_pretrained(base)
        self._run_id = keccak(b"intellect-node/bench-learning" + setting.seed.to_bytes(8, "big"))
        self.engine: Engine = TransformersEngine(
            base, compute_type="float32", max_model_len=MAX_MODEL_LEN, prove=_unproved, seed=setting.seed
        )

    def submission(self, step: int, version: int, counter: int) -> tuple[bytes, list[Rollout], list[int]]:
        """The id of a worker's submission, its rollouts, and the target length of each (0: none)."""
        seed = draw_seed(self._run_id, step, WORKER, counter)
        rollouts, targets = [], []
        places = draw_problems(seed, self._setting.groups, self._task.size)
        for group, one in enumerate(self._answers(seed, places, self._setting.samples)):
            for sample, completion in enumerate(one.completions):
                text = decode_completion(self._tokenizer, completion.token_ids)
                rollouts.append(
                    Rollout(
                        step=step,
                        policy_version=version,
                        counter=counter,
                        group=group,
                        sample=sample,
                        problem_id=one.problem.problem_id,
                        prompt_ids=one.prompt_ids,
                        completion_ids=completion.token_ids,
                        text=text,
                        logprobs=completion.logprobs,
                        finish_reason=completion.finish_reason,
                        reward=self._reward(one, completion, text),
                        proofs=(),
                    )
                )
                targets.append(one.target)
        return seed, rollouts, targets

    def score(self, samples: int) -> Score:
        """The policy on every problem of the task, `samples` completions each."""
        seed = draw_seed(self._run_id, EVALUATION_STEP, WORKER, 0)
        rewards, gaps = [], []
        for one in self._answers(seed, range(self._task.size), samples):
            texts = [decode_completion(self._tokenizer, completion.token_ids) for completion in one.completions]
            rewards.append(
                fmean(
                    self._task.reward(one.problem, text, completion.finish_reason == "eos")
                    for text, completion in zip(texts, one.completions, strict=True)
                )
            )
            gaps += [abs(one.target - len(c.token_ids)) if one.target else 0 for c in one.completions]
        return Score(rewards=tuple(rewards), length_gap=fmean(gaps))

    def _answers(self, seed: bytes, places: Sequence[int], samples: int) -> list[_Answered]:
        length = self._setting.length
        problems = [self._task.problem(place) for place in places]
        targets = (0,) * len(problems)
        if length is not None:
            targets = draw_targets(seed, len(problems), length.targets)
            problems = [with_target(problem, target) for problem, target in zip(problems, targets, strict=True)]
        prompts = [render_prompt(self._tokenizer, problem, None) for problem in problems]
        answers = self.engine.generate(
            prompts,
            samples=samples,
            max_tokens=self._setting.max_new_tokens,
            sampling=Sampling(temperature=self._setting.recipe.temperature),
            seed=seed,
        )
        return [
            _Answered(problem=problem, prompt_ids=prompt, target=target, completions=completions)
            for problem, prompt, target, completions in zip(problems, prompts, targets, answers, strict=True)
        ]

    def _reward(self, one: _Answered, completion: Completion, text: str) -> float:
        worth = self._task.reward(one.problem, text, completion.finish_reason == "eos")
        if self._setting.length is None:
            return worth
        return total_reward(worth, one.target, len(completion.token_ids), self._setting.length.alpha)


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
    task_rewards: list[float] = []
    gaps: list[int] = []
    for counter in range(MAX_SUBMISSIONS):
        seed, rollouts, targets = classroom.submission(number, version, counter)
        batch.add(seed, rollouts)
        for rollout, target in zip(rollouts, targets, strict=True):
            gap = abs(target - len(rollout.completion_ids)) if target else 0
            gaps.append(gap)
            task_rewards.append(rollout.reward + (setting.length.alpha * gap if setting.length else 0.0))
        if batch.full:
            break
    else:
        return None
    return Step(
        version=version,
        reward=fmean(task_rewards),
        length=fmean(batch.lengths),
        length_gap=fmean(gaps),
        completions=len(batch.lengths),
        with_signal=1 - batch.no_signal / batch.seen_groups,
        metrics=trainer.step(batch.batch()),
    )


def _unproved(completions: Sequence[np.ndarray]) -> list[list[bytes]]:
    """Nobody checks these rollouts."""
    return [[] for _ in completions]
