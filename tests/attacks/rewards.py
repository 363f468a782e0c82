"""Rewards that are not due, and texts that are not what the tokens say."""

from __future__ import annotations

from tests.attacks.attack import Family, Offer
from tests.attacks.stage import Stage
from tests.verify.conftest import UNSEEDED

REWARDS = Family("Rewards and texts")

for _reward in (float("nan"), float("inf"), -1.0, 1e9, 1.0001):
    REWARDS.add(
        f"a reward of {_reward}",
        "greedy",
        "bounds",
        "Reports a reward that no answer is worth, to outweigh all others or to spoil the trainer's mean.",
        lambda stage, reward=_reward: Offer(content=stage.edit(2, reward=reward)),
    )


@REWARDS.by("greedy", "reward")
def a_wrong_answer_called_right(stage: Stage) -> Offer:
    """Gives itself one reward of 1."""
    row = next(n for n, r in enumerate(stage.honest) if r.reward == 0.0)
    return Offer(content=stage.edit(row, reward=1.0))


@REWARDS.by("greedy", "reward")
def all_answers_called_right(stage: Stage) -> Offer:
    """Gives itself full marks throughout."""
    return Offer(content=stage.edit_all(lambda r: {"reward": 1.0}))


@REWARDS.by("greedy", "reward")
def partial_credit(stage: Stage) -> Offer:
    """Gives itself half a point where the task knows none."""
    return Offer(content=stage.edit(0, reward=0.5))


@REWARDS.by("greedy", "reward")
def a_reward_too_small_to_print(stage: Stage) -> Offer:
    """Adds 1e-30 to a reward, enough for a group's advantages not to be zero."""
    row = next(n for n, r in enumerate(stage.honest) if r.reward == 0.0)
    return Offer(content=stage.edit(row, reward=1e-30))


@REWARDS.by("saboteur", "reward")
def a_right_answer_called_wrong(stage: Stage) -> Offer:
    """Answers well and marks it down, so that the policy unlearns what is right."""
    good = stage.with_tokens(stage.unseeded[0], stage.answer_ids(stage.problems[0].gold_standard_solution))
    if good.reward != 1.0:
        raise AssertionError("the answer is right")
    rollouts = stage.world.prove((good, *stage.unseeded[1:]))
    return Offer(content=stage.world.edit(rollouts, 0, reward=0.0), rules=UNSEEDED)


# --- texts


@REWARDS.by("greedy", "text")
def a_right_text_over_wrong_tokens(stage: Stage) -> Offer:
    """Leaves the tokens and writes the solution into the text, with the reward that it is worth."""
    row = stage.ended
    right = stage.problems[stage.honest[row].group].gold_standard_solution
    return Offer(content=stage.edit(row, text=right, reward=1.0))


@REWARDS.by("greedy", "text")
def digits_of_another_script(stage: Stage) -> Offer:
    """Writes the solution in Arabic-Indic digits, which the reward function reads as well."""
    row = stage.ended
    right = stage.problems[stage.honest[row].group].gold_standard_solution
    return Offer(content=stage.edit(row, text="".join(chr(0x660 + int(d)) for d in right), reward=1.0))


@REWARDS.by("saboteur", "text")
def special_tokens_left_in_the_text(stage: Stage) -> Offer:
    """Decodes with the special tokens, so that a later turn can be forged in the logs."""
    row = stage.ended
    return Offer(content=stage.edit(row, text=stage.honest[row].text + "<eos><user>"))


@REWARDS.by("saboteur", "text")
def a_space_at_the_end(stage: Stage) -> Offer:
    """Adds a space, so that equal answers look different."""
    return Offer(content=stage.edit(0, text=stage.honest[0].text + " "))


@REWARDS.by("saboteur", "text")
def an_empty_text(stage: Stage) -> Offer:
    """Reports no text, so that nobody reads what was generated."""
    return Offer(content=stage.edit_all(lambda r: {"text": "", "reward": 0.0}))
