"""Loss and gradient against the float64 reference, and the same update laid out in other ways; what the head costs."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

from benchmarks.learning import head_cost
from benchmarks.learning.exactness import against_double, compare, draw_rollouts
from benchmarks.learning.items import Found
from benchmarks.learning.ranks import SEED, make_groups, make_model, ranks_rel_err
from rl.packing import plan_rows
from rl.recipe import IMPORTANCES, NORMALISATIONS, Recipe
from rl.trainer import PolicyTrainer

TITLE = "loss and gradient against the float64 reference, and in other layouts"
BATCHES, MICRO_BATCHES = 100, 4
RECIPE = Recipe(
    learning_rate=0.0, warmup_steps=0, optimizer_steps=1, entropy_coefficient=0.01, kl_coefficient=0.05,
    grad_norm_clip=1e9, temperature=0.9, longest_completion=40, micro_batch_tokens=4096,
)  # fmt: skip
TEMPERATURES = (1.0, 0.7, 1.3)


def run(out: Path, *, quick: bool, say: Callable[[str], None]) -> Found:
    """Some minutes, most of them for starting training processes."""
    torch.set_num_threads(1)
    batches = 4 if quick else BATCHES
    options = list(itertools.product(NORMALISATIONS, IMPORTANCES, (True, False)))
    recipes = [
        replace(RECIPE, normalisation=normalisation, importance=importance, advantage_std=std)
        for normalisation, importance, std in options
    ]
    drawn = [
        compare(draw_rollouts(seed, each), each)
        for seed in range(batches)
        for recipe in recipes
        for each in [replace(recipe, temperature=TEMPERATURES[seed % len(TEMPERATURES)])]
    ]
    loss, rest, gradient = (
        max(getattr(one, name) for one in drawn) for name in ("loss_rel_err", "loss_rest_err", "grad_rel_err")
    )
    say(f"{len(drawn)} batches: loss {loss:.1e}, gradient {gradient:.1e}")
    policy, frozen = make_model(out / "policy"), make_model(out / "reference", SEED + 1)
    groups = make_groups(SEED)
    ends = [against_double(policy, frozen, recipe, groups) for recipe in recipes]
    end_to_end = max(max(one.loss_rel_err, one.grad_rel_err) for one in ends)
    say(f"a model's weights: {end_to_end:.1e}")
    rows, packed = layouts_apart(policy, frozen, 1)
    four, split = layouts_apart(policy, frozen, bound_of(MICRO_BATCHES))
    ranks = ranks_rel_err(out / "ranks")
    say(f"{rows} rows instead of one: {packed:.1e}; {four}: {split:.1e}; two ranks: {ranks:.1e}")
    repeats = 1 if quick else 5
    costs = {k: {w: head_cost.measure(k, w, repeats=repeats) for w in head_cost.WAYS} for k in head_cost.KINDS}
    table = "\n".join(
        (
            "| compared | relative difference, the largest |",
            "|---|---|",
            f"| loss, float32 and reference, {len(drawn)} drawn batches | {loss:.1e} of its terms |",
            f"| the same, of what is left when terms of both signs have cancelled | {rest:.1e} |",
            f"| its gradient by the logits | {gradient:.1e} |",
            f"| gradient by a model's weights, against a float64 model, {len(ends)} recipes | {end_to_end:.1e} |",
            f"| one packed row, and {rows} rows of one completion each | {packed:.1e} |",
            f"| one micro-batch, and {four} | {split:.1e} |",
            f"| one rank, and two | {ranks:.1e} |",
            "",
            f"| {head_cost.TOKENS} x {head_cost.HIDDEN} states, {head_cost.VOCABULARY} tokens | CPU s | memory, MB |",
            "|---|---|---|",
            *(
                f"| {kind}, {'whole logits' if way == 'whole' else 'by blocks'} | {one['cpu_s']:.2f} | "
                f"{one['memory_mb']:.0f} |"
                for kind, ways in costs.items()
                for way, one in ways.items()
            ),
        )
    )
    return Found(
        figures={
            "loss_rel_err": loss,
            "loss_rest_err": rest,
            "grad_rel_err": gradient,
            "model_grad_rel_err": end_to_end,
            "packed_rel_err": packed,
            "micro_batches_rel_err": split,
            "ranks_rel_err": ranks,
            "head_cost": costs,
        },
        table=table,
    )


def bound_of(rows: int) -> int:
    """The least `micro_batch_tokens` at which the batch makes so few rows."""
    laid_out = [(group.prompt_ids, group.completions) for group in make_groups(SEED)]
    return next(bound for bound in itertools.count(1) if len(plan_rows(laid_out, bound).rows) <= rows)


def layouts_apart(policy: Path, frozen: Path, micro_batch_tokens: int) -> tuple[int, float]:
    """Rows that a batch makes at this bound, and the larger relative difference of loss and gradient from one row."""

    def update(recipe: Recipe) -> tuple[int, float, torch.Tensor]:
        trainer = PolicyTrainer(policy, recipe=recipe, compute_type="float32", reference=frozen)
        told = trainer.step(make_groups(SEED))
        return told.rows, told.loss, torch.cat([p.grad.double().flatten() for p in trainer._model.parameters()])

    _, loss, gradient = update(RECIPE)
    rows, other_loss, other_gradient = update(replace(RECIPE, micro_batch_tokens=micro_batch_tokens))
    apart = ((gradient - other_gradient).norm() / gradient.norm()).item()
    return rows, max(abs(loss - other_loss) / abs(loss), apart)
