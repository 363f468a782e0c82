"""Cheats that get through, and why that costs little: what the page admits."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from rl.draw import draw_seed
from rl.seeded import completion_key, margins
from tests.attacks.attack import Make, Offer
from tests.attacks.files import encode, table
from tests.attacks.stage import Stage, rounded
from tests.attacks.timing import seed_that_shows
from tests.attacks.weights import noisy
from tests.verify.conftest import CLAIM, RULES, UNSEEDED


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """One cheat that no check finds."""

    name: str
    story: str
    why: str
    """Why it is found by nobody, and what bounds it."""
    make: Make


LIMITS: list[Limit] = []


def _admitted(why: str) -> Callable[[Make], Make]:
    def register(make: Make) -> Make:
        name = make.__name__.replace("_", " ")
        LIMITS.append(Limit(name=name, story=" ".join(make.__doc__.split()), why=why, make=make))
        return make

    return register


@_admitted(
    "Where two tokens are nearly tied, arithmetic decides between them, so one near tie must be forgiven; many are not "
    "(`sampling` bounds their number and their mean)."
)
def the_second_choice_at_a_near_tie(stage: Stage) -> Offer:
    """Takes the runner-up once where the seed's choice beat it by the least, and goes on by the seed."""
    least, tokens = torch.inf, (0, 0, 0)

    def look(logits: torch.Tensor, due: torch.Tensor, group: int, index: int) -> torch.Tensor:
        nonlocal least, tokens
        lost, token = runner_up(logits[0], int(due[0]), group, index)
        if 5 < index < 15 and lost < least:
            least, tokens = lost, (group, index, token)
        return due

    def take(_logits: torch.Tensor, due: torch.Tensor, group: int, index: int) -> torch.Tensor:
        if (group, index) == tokens[:2]:
            due[0] = tokens[2]
        return due

    stage.meddled(look)
    return Offer(content=stage.meddled(take))


def runner_up(logits: torch.Tensor, due: int, group: int, index: int) -> tuple[float, int]:
    """Of a group's first completion: by how much the best token but the forced one and the EOS loses, and its id."""
    key = completion_key(draw_seed(CLAIM.run_id, CLAIM.step, CLAIM.worker, CLAIM.counter), group, 0)
    others = torch.tensor([token for token in range(1, len(logits)) if token != due])
    rows = len(others)
    lost = margins(logits.expand(rows, -1), others, [key] * rows, [index] * rows, RULES.sampling)
    return float(lost.min()), int(others[lost.argmin()])


@_admitted(
    "Noise far below a bf16 rounding error moves nothing. On a real model the same holds for one small optimiser step; "
    "what each check can tell apart is measured in `verify.thresholds`."
)
def weights_with_a_noise_of_a_hundred_thousandth(stage: Stage) -> Offer:
    """Runs weights that differ by 1e-5 of themselves."""
    return Offer(content=stage.world.generate(policy=stage.with_weights(noisy(1e-5))))


@_admitted(
    "Two layers of width 64 hardly feel it: the mean mantissa error is 1.5 where 2.1 is the bound. On SmolLM2-135M it "
    "is 2.8, and `proof-mismatch` finds it."
)
def weights_in_int8_on_so_small_a_model(stage: Stage) -> Offer:
    """Rounds the weights of this tiny policy to 8 bits."""
    return Offer(content=stage.world.generate(policy=stage.with_weights(lambda weight: rounded(weight, 8))))


@_admitted("Asynchrony allows old policies; a worker may choose among `rl.asynchrony` + 1 draws, once a submission.")
def the_oldest_policy_that_is_allowed(stage: Stage) -> Offer:
    """Generates by each policy that may still be used, and hands in the oldest's work, which came out best."""
    return Offer(content=stage.world.generate(version=3))


@_admitted("A pool may check a share of the groups only: `verify.audit` says which share catches whom, and how surely.")
def a_group_faked_where_the_audit_looks_elsewhere(stage: Stage) -> Offer:
    """Fakes one group of three in a pool that looks at one, and is lucky."""
    rows = [c if c.group == 2 else r for r, c in zip(stage.honest, stage.in_int4, strict=True)]
    file = encode(table(rows))
    seed = seed_that_shows(0, hashlib.sha256(file).digest(), share=1 / 3)
    claim = replace(CLAIM, audit_seed=seed)
    return Offer(content=file, rules=replace(RULES, audit_share=1 / 3), claim=claim)


@_admitted(
    "Without seeds one improbable ending may be luck, and 15 % of honest ones are; with seeds it is found at once."
)
def one_early_stop_without_seeds(stage: Stage) -> Offer:
    """Ends a single completion early in a pool without seeds."""
    row = next(n for n, r in enumerate(stage.unseeded) if r.finish_reason == "length")
    short = stage.with_tokens(stage.unseeded[row], (*stage.unseeded[row].completion_ids[:5], 0))
    rows = [*stage.unseeded[:row], short, *stage.unseeded[row + 1 :]]
    return Offer(content=stage.world.prove(rows), rules=UNSEEDED)


@_admitted("Without seeds nobody can tell which of several honest draws was the first: that is what seeds are for.")
def the_best_of_three_without_seeds(stage: Stage) -> Offer:
    """Generates everything three times and keeps of each completion the best."""
    tries = [stage.world.generate(rules=UNSEEDED, seed=seed) for seed in (11, 12, 13)]
    best = [max(three, key=lambda r: r.reward) for three in zip(*tries, strict=True)]
    return Offer(content=best, rules=UNSEEDED)
