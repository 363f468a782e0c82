"""What the study's cheats do to weights and to completions is what their names say."""

from __future__ import annotations

import pytest
import torch

from benchmarks.verify.alterations import STOP_AFTER, altered
from benchmarks.verify.older import off_grid
from benchmarks.verify.plan import AGES, JUDGED, LEARNED, RATES, find, plan
from benchmarks.verify.weights import VARIANTS
from rl.rollouts import Rollout

EOS = 2
WEIGHTS = {
    "model.embed_tokens.weight": torch.randn(100, 128, generator=torch.Generator().manual_seed(0)).bfloat16(),
    **{
        f"model.layers.{layer}.{name}.weight": torch.randn(64, 128, generator=torch.Generator().manual_seed(layer))
        for layer in range(30)
        for name in ("self_attn.q_proj", "self_attn.o_proj", "mlp.down_proj")
    },
    "model.norm.weight": torch.ones(128),
}


def rollout(sample: int, tokens: int) -> Rollout:
    return Rollout(
        step=0,
        policy_version=0,
        counter=0,
        group=0,
        sample=sample,
        problem_id="p",
        prompt_ids=(5, 6),
        completion_ids=(*range(10, 9 + tokens), EOS),
        text="",
        logprobs=(),
        finish_reason="eos",
        reward=0.0,
        proofs=(),
    )


def test_quantised_weights_have_few_values_and_leave_the_rest_alone() -> None:
    for name, levels, group in (("int8", 255, 128), ("int4", 15, 64)):
        changed = VARIANTS[name](WEIGHTS)
        assert torch.equal(changed["model.embed_tokens.weight"], WEIGHTS["model.embed_tokens.weight"])
        row = changed["model.layers.3.mlp.down_proj.weight"][0, :group]
        assert 2 < len(row.unique()) <= levels
        assert not torch.equal(row, WEIGHTS["model.layers.3.mlp.down_proj.weight"][0, :group])
        error = (changed["model.layers.3.mlp.down_proj.weight"] - WEIGHTS["model.layers.3.mlp.down_proj.weight"]).abs()
        assert error.max() <= WEIGHTS["model.layers.3.mlp.down_proj.weight"].abs().max() / (levels - 1) * 1.01


def test_noise_has_its_size_in_matrices_and_spares_norms() -> None:
    changed = VARIANTS["noise 1e-3"](WEIGHTS)
    name = "model.layers.0.mlp.down_proj.weight"
    assert (changed[name] - WEIGHTS[name]).std().item() == pytest.approx(1e-3, rel=0.05)
    assert torch.equal(changed["model.norm.weight"], WEIGHTS["model.norm.weight"])


def test_dropped_layers_add_nothing_and_others_are_whole() -> None:
    for name, left in (("half the layers", 16), ("two layers fewer", 28)):
        changed = VARIANTS[name](WEIGHTS)
        alive = [n for n in range(30) if changed[f"model.layers.{n}.mlp.down_proj.weight"].any()]
        assert len(alive) == left
        assert alive == [n for n in range(30) if changed[f"model.layers.{n}.self_attn.o_proj.weight"].any()]
        assert all(torch.equal(changed[key], WEIGHTS[key]) for key in WEIGHTS if "q_proj" in key)


def test_an_early_stop_ends_sooner_by_an_eos() -> None:
    stopped = altered([rollout(0, 60), rollout(1, 10)], "early stop", eos_token_id=EOS)
    assert [len(r.completion_ids) for r in stopped] == [STOP_AFTER + 1, 6]
    assert all(r.completion_ids[-1] == EOS and EOS not in r.completion_ids[:-1] for r in stopped)


@pytest.mark.parametrize("tokens", [2, 3, 60])
def test_an_edited_token_is_one_other_token_and_the_end_stays(tokens: int) -> None:
    rollouts = [rollout(sample, tokens) for sample in range(32)]
    edited = altered(rollouts, "edited token", eos_token_id=EOS)
    changed = [
        sum(a != b for a, b in zip(one.completion_ids, other.completion_ids, strict=True))
        for one, other in zip(rollouts, edited, strict=True)
    ]
    assert changed == [1] * 32
    assert all(r.completion_ids[-1] == EOS for r in edited)


def test_the_plan_holds_what_the_study_promises() -> None:
    cases = plan()
    counted = {case.name: case.submissions * case.groups * case.terms.samples for case in cases}
    assert sum(counted[case.name] for case in cases if case.honest and case.setting == "long") >= 500
    assert all(counted[case.name] >= (56 if case.policy else 100) for case in cases if not case.honest)
    assert len(counted) == len({case.file_name for case in cases}) == len(cases)
    older = {f"trained {rate} {age}" for rate in RATES for age in AGES}
    assert older <= {case.weights for case in cases}
    learned = {f"learned {rate} {step}" for rate, steps in LEARNED.items() for step in steps}
    assert all(case.weights in VARIANTS or case.weights in older | learned for case in cases)
    assert learned == {name for policy, before in JUDGED.items() for name in (policy, *before)}
    for policy in JUDGED:
        own = [case for case in cases if case.policy == policy]
        assert {case.setting for case in own if case.honest} == {"long", "demo"}
        assert {"policy", "noise 1e-3", "int8", "int4"} <= {case.weights for case in own}
    assert {case.source for case in cases if case.source} <= set(counted)


def test_a_quick_study_keeps_every_kind_that_needs_no_training() -> None:
    quick = {case.name for case in plan(quick=True)}
    assert quick == {case.name for case in plan() if not case.weights.startswith("trained") and not case.policy}


def test_a_replay_has_noise_of_its_own_and_an_edit_its_sources() -> None:
    places = [(0, 0, 0), (1, 3, 2)]
    source, edit, replay = (
        find(name, quick=False) for name in (find("replay", quick=False).source, "edited token", "replay")
    )
    assert edit.keys(places) == source.keys(places)
    assert set(replay.keys(places)).isdisjoint(source.keys(places))


def test_weights_off_the_grid_round_to_what_was_published() -> None:
    published = torch.cat([WEIGHTS["model.embed_tokens.weight"].flatten(), torch.tensor([0.0, 1.0, -0.5, 2.0**-20])])
    published = published.to(torch.bfloat16)
    drawn = off_grid(published, torch.Generator().manual_seed(1))
    assert torch.equal(drawn.to(torch.bfloat16), published)
    distance = (drawn - published.float()).abs() / (published.float().abs() * 2**-8).clamp(min=1e-30)
    assert (drawn != published.float()).float().mean() > 0.95
    assert 0.9 < distance.max() <= 1.0
