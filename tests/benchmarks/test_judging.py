"""A study of recorded numbers says what a verdict on the file says: the same checks, from the same figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch

from benchmarks.verify.honest import Bound, bounds, moments
from benchmarks.verify.judging import (
    CHECKS,
    STATISTICS,
    UNSEEDED,
    copied,
    drawn,
    findings,
    noise,
    statistics,
    submissions,
)
from benchmarks.verify.records import Completion, read_record, write_record
from rl.draw import draw_seed
from rl.rollouts import Rollout, write_rollouts
from rl.seeded import completion_key
from rl.tasks import load_task
from tests.verify.conftest import CLAIM, RULES, World, write_checkpoint
from tests.verify.conftest import UNSEEDED as UNSEEDED_RULES
from verify.policy import Prefilled
from verify.prefill import TransformersPolicy
from verify.proofs import build_many, compare_many
from verify.thresholds import Thresholds


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("checkpoint")
    write_checkpoint(folder)
    return World(
        folder=folder, policy=TransformersPolicy(folder), task=load_task("arithmetic"),
        scratch=tmp_path_factory.mktemp("scratch"),
    )  # fmt: skip


@pytest.fixture(scope="module")
def honest(world: World) -> tuple[Rollout, ...]:
    return world.generate()


def recorded(world: World, rollouts: Sequence[Rollout], *, seeded: bool = True) -> list[Completion]:
    """Prefilled in both arithmetics, written and read again."""
    seed = draw_seed(CLAIM.run_id, CLAIM.step, CLAIM.worker, CLAIM.counter)
    keys = [completion_key(seed, r.group, r.sample) for r in rollouts] if seeded else None
    first, exact, coarse = (
        world.policy.prefill(rollouts, sampling=RULES.sampling, keys=keys, compute_type=kind)
        for kind in (None, "float32", "bfloat16")
    )
    own = build_many([p.states for p in coarse])
    path = world.scratch / "case.parquet"
    write_rollouts(path, tuple(rollouts))

    def read(name: str, prefilled: list[Prefilled], **noise: object) -> list[Completion]:
        errors = compare_many([p.states for p in prefilled], [r.proofs for r in rollouts])
        write_record(world.scratch / name, errors, prefilled, **noise)  # type: ignore[arg-type]
        return read_record(path, world.scratch / name)

    noise = compare_many([p.states for p in exact], own)
    pairs = zip(read("first.npz", first), read("exact.npz", exact, noise=noise, coarse=coarse), strict=True)
    return [replace(a, exact=b) for a, b in pairs]


@pytest.mark.parametrize("seeded", [True, False])
@pytest.mark.parametrize("kind", ["honest", "other weights", "edited", "own noise", "made-up log-probs"])
def test_findings_are_those_of_the_verdict(world: World, honest: tuple[Rollout, ...], kind: str, seeded: bool) -> None:
    rules = RULES if seeded else UNSEEDED_RULES
    rollouts = honest
    if kind == "other weights":
        rollouts = world.generate(policy=world.variant(lambda w: w + 0.02 * torch.randn_like(w)))
    elif kind == "edited":
        ids = honest[3].completion_ids
        rollouts = world.prove(world.edit(honest, 3, completion_ids=(*ids[:-2], 7 + ids[-2] % 5, ids[-1])))
    elif kind == "own noise":
        rollouts = world.generate(rules=UNSEEDED_RULES)
    elif kind == "made-up log-probs":
        rollouts = world.edit(honest, 0, logprobs=tuple(p - 3.0 for p in honest[0].logprobs))
    wanted = {
        name
        for name, detail in world.examine(rollouts, rules=rules).items()
        if detail is not None and name in (CHECKS if seeded else UNSEEDED)
    }
    measured = recorded(world, rollouts, seeded=seeded)
    assert findings(measured, rules.thresholds, second=rules.second_look, seeded=seeded) == wanted
    assert (kind == "honest") <= (not wanted)


def test_a_second_look_clears_what_the_first_one_finds_as_in_a_verdict(
    world: World, honest: tuple[Rollout, ...]
) -> None:
    tight = replace(Thresholds(), mantissa_mean=-9.0, logprob_most=-1.0)
    measured = recorded(world, honest)
    assert findings(measured, tight) == {"proof-mismatch", "logprobs"}
    assert findings(measured, tight, second=RULES.second_look) == frozenset()
    assert world.finding(honest, rules=replace(RULES, thresholds=tight)) == "accepted"
    verdict = world.judge(honest, rules=replace(RULES, thresholds=tight))
    seen = noise([one.exact for one in measured if one.exact])
    assert verdict.facts["noise_mantissas"] == pytest.approx(seen.mantissas)
    assert verdict.facts["noise_logprobs"] == pytest.approx(seen.logprobs)
    with pytest.raises(ValueError, match="not measured in float32"):
        findings([replace(one, exact=None) for one in measured], tight, second=RULES.second_look)


def test_a_record_gives_back_every_number(world: World, honest: tuple[Rollout, ...]) -> None:
    for seeded in (True, False):
        read = recorded(world, honest, seeded=seeded)
        assert tuple(one.rollout for one in read) == honest
        assert all(len(one.errors) == len(one.rollout.proofs) for one in read)
        assert all((one.prefilled.margins is None) != seeded for one in read)
        assert all((one.prefilled.spread is None) == seeded for one in read)
        for one in read:
            assert len(one.prefilled.logprobs) == len(one.rollout.completion_ids)


def test_a_copy_shows_beside_its_source_only(world: World, honest: tuple[Rollout, ...]) -> None:
    own = recorded(world, honest)
    others = recorded(world, world.generate(rules=UNSEEDED_RULES, seed=3))
    assert copied(own, own)
    assert not copied(others, own)


def test_submissions_are_cut_and_drawn_without_repeats(world: World, honest: tuple[Rollout, ...]) -> None:
    completions = recorded(world, honest)
    assert [len(one) for one in submissions(completions)] == [16]
    for one in drawn(completions, 5, np.random.default_rng(0)):
        assert len({(c.rollout.group, c.rollout.sample) for c in one}) == 16


def test_every_statistic_grows_with_what_it_measures(world: World, honest: tuple[Rollout, ...]) -> None:
    completions = recorded(world, honest)
    plain = statistics(completions, Thresholds())
    worse = [
        replace(
            one,
            errors=tuple(replace(e, exponent_mismatches=60, mantissa_mean=30.0) for e in one.errors),
            prefilled=replace(
                one.prefilled,
                margins=np.full_like(one.prefilled.logprobs, 3.0),
                logprobs=one.prefilled.logprobs - 5.0,
            ),
        )
        for one in completions
    ]
    against = statistics(worse, Thresholds())
    assert all(against[name] > plain[name] for name in STATISTICS)


def test_the_chance_of_an_honest_rejection_grows_as_bounds_shrink(world: World, honest: tuple[Rollout, ...]) -> None:
    """Honest numbers of some spread: those of this float32 world are all but equal."""
    random = np.random.default_rng(2)
    completions = [
        replace(
            one,
            errors=tuple(
                replace(e, exponent_mismatches=int(random.poisson(2)), mantissa_mean=float(random.normal(1.4, 0.2)))
                for e in one.errors
            ),
            prefilled=replace(
                one.prefilled,
                margins=(random.exponential(0.1, len(one.prefilled.logprobs)) * random.integers(0, 2)).astype("f4"),
                logprobs=one.prefilled.logprobs + random.normal(0, 0.03, len(one.prefilled.logprobs)).astype("f4"),
            ),
        )
        for _ in range(8)
        for one in recorded(world, honest)
    ]
    samples = drawn(completions, 60, random)
    wide = Thresholds(mismatch_share=0.6, margin_mean=0.2)
    narrow = replace(wide, mantissa_mean=1.4, margin_most=1.2)
    chances = {}
    for name, limits in (("wide", wide), ("narrow", narrow)):
        found = bounds(completions, samples, limits, exact=False)
        assert len({bound.name for bound in found}) == len(found) == 14
        assert all(0.0 <= bound.chance <= 1.0 for bound in found)
        chances[name] = sum(bound.chance for bound in found)
    assert chances["wide"] < chances["narrow"]
    assert {bound.check for bound in found} == set(CHECKS)
    strict = replace(wide, mantissa_mean=0.1, mantissa_sigma=0.0, mantissa_jump=0.0)
    noisy = [
        replace(
            one,
            noise=tuple(replace(e, mantissa_mean=100.0) for e in one.errors),
            coarse_logprobs=one.prefilled.logprobs,
        )
        for one in completions
    ]
    again = drawn(noisy, 60, random)
    assert mantissas(bounds(noisy, again, strict, exact=False)) == 1.0
    assert mantissas(bounds(noisy, again, strict, exact=True)) < 1e-3, "so noisy a policy explains it"
    assert moments(completions)["token not forced"][0] == pytest.approx(0.5, abs=0.15)


def mantissas(found: Sequence[Bound]) -> float:
    return next(bound.chance for bound in found if bound.name == "submission: mantissa errors, mean")
