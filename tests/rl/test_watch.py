"""What is warned of and what is not: made-up series of known course, and real runs of a tiny model, good and bad."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rl.watch import ADVICE, SEEN_STEPS, CollapseWarning, Sign, StepFacts, collapsing, standing

SEEDS = range(24)


def healthy(seed: int, steps: int = 60) -> list[StepFacts]:
    """A run that learns: reward up, entropy down, all as noisy as batches of 100 rollouts make them."""
    rng = random.Random(seed)
    return [
        StepFacts(
            step=step,
            reward=min(1.0, max(0.0, 0.2 + 0.6 * (1 - math.exp(-step / 15)) + rng.gauss(0, 0.05))),
            grad_norm=0.5 * math.exp(rng.gauss(0, 0.25)),
            clip_ratio=max(0.0, rng.gauss(0.02, 0.01)),
            entropy=0.4 + 0.8 * math.exp(-step / 12) + rng.gauss(0, 0.03),
            kl_behaviour=abs(rng.gauss(0.01, 0.005)),
            kl_reference=0.002 * step + abs(rng.gauss(0, 0.01)),
            limit_share=min(1.0, abs(rng.gauss(0.1, 0.05))),
        )
        for step in range(steps)
    ]


def first_told(history: list[StepFacts], sign: Sign | None = None) -> CollapseWarning | None:
    """The first warning of the run, of this sign if one is named."""
    for end in range(1, len(history) + 1):
        for warning in standing(history[:end]):
            if sign in (None, warning.sign):
                return warning
    return None


@pytest.mark.parametrize("seed", SEEDS)
def test_a_run_that_learns_is_left_in_peace(seed: int) -> None:
    assert first_told(healthy(seed, steps=100)) is None


ONSET = 40
"""The step from which the series below go wrong; they learn until then."""
Change = Callable[[StepFacts, int], StepFacts]
COURSES: dict[Sign, tuple[Change, int]] = {
    # A slow growth: 5 % a step. The reward stands still meanwhile, as it does at step 40 of the healthy series.
    Sign.GRADIENT: (lambda f, n: replace(f, grad_norm=f.grad_norm * 1.05**n), 30),
    Sign.CLIPPING: (lambda f, n: replace(f, clip_ratio=f.clip_ratio + 0.02 * n), 12),
    Sign.ENTROPY: (lambda f, n: replace(f, entropy=f.entropy + 0.03 * n), 25),
    Sign.BEHAVIOUR: (lambda f, n: replace(f, kl_behaviour=f.kl_behaviour * 1.5**n), 15),
    Sign.REFERENCE: (lambda f, n: replace(f, kl_reference=f.kl_reference * 1.2**n), 20),
    Sign.REWARD: (lambda f, n: replace(f, reward=f.reward * 0.93**n), 10),
    Sign.LENGTH: (lambda f, n: replace(f, limit_share=min(1.0, f.limit_share + 0.05 * n)), 15),
}


@pytest.mark.parametrize("sign", COURSES)
def test_each_sign_is_seen_in_time_and_dated(sign: Sign) -> None:
    change, within = COURSES[sign]
    for seed in SEEDS:
        history = healthy(seed, steps=ONSET + within + 10)
        history = history[:ONSET] + [change(facts, facts.step - ONSET) for facts in history[ONSET:]]
        warning = first_told(history)
        assert warning is not None, f"seed {seed}"
        assert warning.sign is sign, f"seed {seed}: {warning.told}"
        assert ONSET < warning.seen <= ONSET + within, f"seed {seed}: {warning.told}"
        assert ONSET - 12 <= warning.began <= warning.seen, f"seed {seed}: {warning.told}"
        assert ADVICE[sign] in warning.told


def test_a_gradient_that_jumps_is_seen_at_its_second_step() -> None:
    for seed in SEEDS:
        history = [replace(f, grad_norm=f.grad_norm * 30) if f.step >= ONSET else f for f in healthy(seed)]
        warning = first_told(history)
        assert warning is not None, f"seed {seed}"
        assert (warning.sign, warning.began, warning.seen) == (Sign.GRADIENT, ONSET, ONSET + 1), f"seed {seed}"


def test_one_bad_batch_is_no_sign() -> None:
    wild: dict[str, Any] = {
        "reward": 0.0, "grad_norm": 50.0, "clip_ratio": 0.9, "entropy": 6.0, "kl_behaviour": 5.0, "kl_reference": 5.0,
        "limit_share": 1.0,
    }  # fmt: skip
    for seed in SEEDS:
        history = healthy(seed)
        history[ONSET] = replace(history[ONSET], **wild)
        assert first_told(history) is None, f"seed {seed}"


def test_what_moves_while_the_reward_rises_is_learning() -> None:
    """The tiny model spreads its answers before it sharpens them: entropy turns up, gradients grow with the reward."""
    for seed in SEEDS:
        history = [
            replace(f, reward=f.step / 60, entropy=abs(f.step - 30) / 30 + 0.5, grad_norm=f.grad_norm * 1.03**f.step)
            for f in healthy(seed)
        ]
        assert first_told(history) is None, f"seed {seed}"


def test_what_is_not_known_is_not_judged() -> None:
    assert standing([]) == ()
    assert standing([StepFacts(step=step) for step in range(50)]) == ()
    assert standing([StepFacts(step=0, reward=0.5, grad_norm=1.0)]) == ()
    metric = {"kind": "step", "step": 4, "reward": 0.5, "grad_norm": math.inf, "entropy": None, "wait_s": 3.0}
    assert StepFacts.of(metric) == StepFacts(step=4, reward=0.5)


def test_it_follows_from_the_last_steps_alone() -> None:
    history = healthy(0, steps=SEEN_STEPS + 200)
    history += [replace(f, step=f.step + len(history), reward=0.1) for f in healthy(1)[:5]]
    assert standing(history) == standing(history[-SEEN_STEPS:]) != ()


def test_two_signs_or_the_reward_are_enough_to_stop() -> None:
    def warning(sign: Sign) -> CollapseWarning:
        return CollapseWarning(sign=sign, began=1, seen=2, was=1.0, now=2.0)

    assert not collapsing([])
    assert not collapsing([warning(Sign.ENTROPY)])
    assert not collapsing([warning(Sign.ENTROPY), warning(Sign.LENGTH)])
    assert collapsing([warning(Sign.ENTROPY), warning(Sign.GRADIENT)])
    assert collapsing([warning(Sign.REWARD)])


# Real runs of the tiny model, each with the metrics of its steps (benchmarks/learning/collapse.py made them).
RUNS = Path(__file__).resolve().parents[1] / "vectors" / "collapse-runs.jsonl"
FACTS = ("reward", "grad_norm", "clip_ratio", "entropy", "kl_behaviour", "limit_share")


def real_runs() -> Iterator[tuple[str, bool, list[StepFacts]]]:
    """Each run's name, whether its settings are sane throughout, and its steps."""
    for text in RUNS.read_text().splitlines():
        run = json.loads(text)
        setting, count = run["setting"], len(run["reward"])
        sane = setting["spoilt_from"] is None and setting["optimizer_steps"] <= 2
        facts = [StepFacts(step=step, **{name: run[name][step] for name in FACTS}) for step in range(count)]
        yield f"{setting}, seed {run['seed']}", sane, facts


def halved(history: list[StepFacts]) -> int | None:
    """The first step at which the mean reward of two is below half of the best of three before; None if none is."""
    best, rewards = 0.0, [facts.reward or 0.0 for facts in history]
    for step in range(4, len(rewards)):
        best = max(best, sum(rewards[step - 4 : step - 1]) / 3)
        if sum(rewards[step - 1 : step + 1]) < best:
            return step
    return None


def test_real_runs_that_collapse_are_warned_of_before_their_reward_has_halved_and_sane_ones_never() -> None:
    runs = list(real_runs())
    ill = {name: (history, step) for name, _, history in runs if (step := halved(history)) is not None}
    sane = {name: history for name, sane, history in runs if sane}
    assert min(len(ill), len(sane)) >= 20
    assert not set(ill) & set(sane), "the sane settings are that"
    late = {name for name, (history, step) in ill.items() if (w := first_told(history)) is None or w.seen >= step}
    noisy = {name: w.told for name, history in sane.items() if (w := first_told(history)) is not None}
    assert late == set()
    assert noisy == {}
