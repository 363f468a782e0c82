"""Log-probabilities that are not the policy's: what a trainer would divide by."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rl.rollouts import Rollout
from tests.attacks.attack import Family, Offer
from tests.attacks.stage import Stage
from tests.attacks.weights import of_an_older_step

LOGPROBS = Family("Log-probabilities")

_REPORTED: tuple[tuple[str, str, str, Callable[[Rollout], list[float]]], ...] = (
    (
        "the same for every token",
        "lazy",
        "Reports -1 throughout, which nobody reads anyway.",
        lambda r: [-1.0] * len(r.logprobs),
    ),
    (
        "certainty",
        "saboteur",
        "Reports that each token was certain, so that ratios to it vanish.",
        lambda r: [0.0] * len(r.logprobs),
    ),
    (
        "despair",
        "saboteur",
        "Reports that each token was all but impossible, so that ratios to it explode.",
        lambda r: [-80.0] * len(r.logprobs),
    ),
    (
        "those of another temperature",
        "lazy",
        "Reports what its engine prints: log-probabilities at temperature 0.7.",
        lambda r: [p / 0.7 for p in r.logprobs],
    ),
    ("in bits", "lazy", "Takes logarithms to the base 2.", lambda r: [p / float(np.log(2)) for p in r.logprobs]),
    (
        "in another order",
        "lazy",
        "Reports each token's log-probability with its neighbour.",
        lambda r: [*r.logprobs[1:], r.logprobs[0]],
    ),
)
for _name, _who, _story, _reported in _REPORTED:
    LOGPROBS.add(
        f"log-probabilities: {_name}",
        _who,
        "logprobs",
        _story,
        lambda stage, reported=_reported: Offer(content=stage.edit_all(lambda r: {"logprobs": tuple(reported(r))})),
    )


@LOGPROBS.by("saboteur", "logprobs")
def one_log_probability_among_many(stage: Stage) -> Offer:
    """Reports one token of 700 as all but impossible, enough to throw one update."""
    row = stage.honest[stage.longest].logprobs
    return Offer(content=stage.edit(stage.longest, logprobs=(*row[:20], -60.0, *row[21:])))


@LOGPROBS.by("lazy", "logprobs")
def log_probabilities_of_an_older_policy(stage: Stage) -> Offer:
    """Generates by the new policy and reports what the old one said of the tokens."""
    old = stage.world.prove(stage.honest, stage.with_weights(of_an_older_step))
    return Offer(
        content=[stage.world.edit((r,), 0, logprobs=o.logprobs)[0] for r, o in zip(stage.honest, old, strict=True)]
    )
