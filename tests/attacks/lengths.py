"""Work for a length reward that asks for another length than the dictated one, or counts the miss otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from rl.draw import draw_seed
from rl.lengths import draw_targets, target_of, total_reward, with_target, without_target
from tests.attacks.attack import Family, Offer
from tests.attacks.stage import Rollouts, Stage
from tests.verify.conftest import CLAIM, RULES
from verify.checks import dictated_problems
from verify.rules import Claim, Rules

LENGTHS = Family("Target lengths")
RULED = replace(RULES, length_targets=(5, 20, 35), length_alpha=0.003)
"""A pool with a length reward; completions have up to 40 tokens."""


def honest(stage: Stage) -> Rollouts:
    """An honest worker's submission to that pool."""
    return stage.world.generate(rules=RULED)


def dictated(stage: Stage) -> tuple[int, ...]:
    """The target of each group."""
    return tuple(target_of(problem) for problem in dictated_problems(CLAIM, RULED, stage.world.task))


def drawn(counter: int, groups: int = RULED.groups) -> tuple[int, ...]:
    """The targets of the worker's submission of that number."""
    claim = replace(CLAIM, counter=counter)
    seed = draw_seed(claim.run_id, claim.step, claim.worker, claim.counter)
    return draw_targets(seed, groups, RULED.length_targets)


def asking(
    stage: Stage, asked: Sequence[int | None], counted: Sequence[int], *, rules: Rules = RULED, claim: Claim = CLAIM
) -> Rollouts:
    """The dictated problems, solved honestly by prompts that ask for other lengths (None: for none).

    Args:
        asked: of each group, in its prompt.
        counted: of each group, by which its rewards are counted.
    """
    task = stage.world.task
    plain = [without_target(problem) for problem in dictated_problems(claim, rules, task)]
    posed = {p.problem_id: p if t is None else with_target(p, t) for p, t in zip(plain, asked, strict=True)}
    other = replace(task, make_problem=lambda index: posed[task.problem(index).problem_id])
    work = replace(stage.world, task=other).generate(rules=replace(rules, length_targets=()), claim=claim)
    return tuple(
        replace(r, reward=total_reward(r.reward, counted[r.group], len(r.completion_ids), rules.length_alpha))
        for r in work
    )


def rewarded(stage: Stage, alpha: float, targets: Sequence[int], *, short: int = 0) -> Offer:
    """Honest work, its rewards counted by other terms: `alpha`, targets of the groups, and tokens less `short`."""
    content = []
    for rollout in honest(stage):
        worth = stage.world.task.reward(stage.problems[rollout.group], rollout.text, rollout.finish_reason == "eos")
        tokens = len(rollout.completion_ids) - short
        content.append(replace(rollout, reward=total_reward(worth, targets[rollout.group], tokens, alpha)))
    return Offer(content=content, rules=RULED)


@LENGTHS.by("lazy", "target-length")
def the_target_left_out_of_the_prompt(stage: Stage) -> Offer:
    """Leaves out the sentence that asks for a length, which the policy answers at greater length than without."""
    return Offer(rules=RULED, content=asking(stage, [None] * RULED.groups, dictated(stage)))


@LENGTHS.by("lazy", "target-length")
def the_shortest_target_for_all(stage: Stage) -> Offer:
    """Asks for the least length of the pool's set in every prompt, and is rewarded for it, to generate less."""
    shortest = [min(RULED.length_targets)] * RULED.groups
    return Offer(rules=RULED, content=asking(stage, shortest, shortest))


@LENGTHS.by("greedy", "target-length")
def the_targets_of_another_submission(stage: Stage) -> Offer:
    """Solves the dictated problems with the targets that its next submission would have drawn."""
    counter = next(number for number in range(1, 64) if drawn(number) != drawn(0))
    return Offer(rules=RULED, content=asking(stage, drawn(counter), drawn(counter)))


@LENGTHS.by("greedy", "target-length")
def another_target_for_one_group(stage: Stage) -> Offer:
    """Swaps the target of one group for the one that its completions happen to meet."""
    asked = list(dictated(stage))
    asked[1] = next(target for target in RULED.length_targets if target != asked[1])
    return Offer(rules=RULED, content=asking(stage, asked, asked))


@LENGTHS.by("greedy", "target-length")
def the_targets_of_another_draw_where_no_seed_forces(stage: Stage) -> Offer:
    """Does the same in a pool without seeded sampling, where nobody can say which tokens had to be chosen."""
    counter = next(number for number in range(1, 64) if drawn(number) != drawn(0))
    rules = replace(RULED, seeded=False)
    return Offer(rules=rules, content=asking(stage, drawn(counter), drawn(counter), rules=rules))


@LENGTHS.by("greedy", "prompt")
def a_target_that_the_pool_does_not_have(stage: Stage) -> Offer:
    """Asks for 7 tokens, a length that is in no pool's set and that the policy likes."""
    return Offer(rules=RULED, content=asking(stage, [7] * RULED.groups, [7] * RULED.groups))


@LENGTHS.by("greedy", "reward")
def rewards_without_the_penalty(stage: Stage) -> Offer:
    """Reports what the task gives, as if every length were right."""
    return rewarded(stage, 0.0, dictated(stage))


@LENGTHS.by("greedy", "reward")
def half_of_the_penalty(stage: Stage) -> Offer:
    """Counts a miss at half its price."""
    return rewarded(stage, RULED.length_alpha / 2, dictated(stage))


@LENGTHS.by("greedy", "reward")
def a_penalty_by_another_target(stage: Stage) -> Offer:
    """Asks for the dictated length and counts the miss from the longest of the set, to which most come nearer."""
    return rewarded(stage, RULED.length_alpha, [max(RULED.length_targets)] * RULED.groups)


@LENGTHS.by("saboteur", "reward")
def a_length_that_leaves_out_the_end(stage: Stage) -> Offer:
    """Counts the tokens without the closing one, so that its rewards disagree with everybody's by one token."""
    return rewarded(stage, RULED.length_alpha, dictated(stage), short=1)


@LENGTHS.by("saboteur", "bounds")
def a_penalty_larger_than_any_miss(stage: Stage) -> Offer:
    """Reports a reward below what the worst length costs, to drag a group's mean down."""
    lowest, _ = RULED.reward_range
    return Offer(rules=RULED, content=stage.world.edit(honest(stage), 0, reward=lowest - 0.01))


@LENGTHS.by("greedy", "sampling")
def an_end_put_where_the_target_is(stage: Stage) -> Offer:
    """Ends each completion at its target by choosing the EOS there, whatever the seed forces."""
    targets = dictated(stage)

    def end(logits: torch.Tensor, forced: torch.Tensor, group: int, index: int) -> torch.Tensor:
        return torch.zeros_like(forced) if index + 1 == targets[group] else forced

    return Offer(rules=RULED, content=stage.meddled(end, rules=RULED))
