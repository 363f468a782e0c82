"""One-sided and two-sided clipping where some tokens have a huge ratio and a negative advantage.

The policy is a small random model, the batch a drawn one; of its tokens with a negative advantage a few are planted: at
the start of the step they were so much less likely that their ratio is now what is said. Steps are plain gradient
descent, in which a gradient's size is a step's, and the trainer's AdamW, without a bound on the gradient norm.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf, isfinite, log
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from transformers import AutoModelForCausalLM

from benchmarks.learning.items import Found
from benchmarks.learning.ranks import SEED, make_groups, make_model
from rl.advantage import group_advantages
from rl.attention import implementation_for
from rl.forward import statistics
from rl.loss import Extent, row_loss
from rl.micro_batches import MicroBatch, micro_batches
from rl.recipe import Recipe

TITLE = "one-sided and two-sided clipping with planted ratios"
TWO_SIDED = Recipe(entropy_coefficient=0.0, grad_norm_clip=1e9)
RULES = {"one-sided": replace(TWO_SIDED, clip_delta=inf), "two-sided": TWO_SIDED}
RATIOS = (1.0, 3.0, 10.0, 100.0, 1e3, 1e4, 1e6)
PLANTED, PLANTED_RATIO, STEPS = 4, 1e4, 20
RATES = {"gradient descent": 0.05, "AdamW": 1e-3}
CPU = torch.device("cpu")


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """Some steps; each value is before its step."""

    losses: list[float]
    norms: list[float]
    moved: float
    """Distance of the weights from the start, by their norm there; infinite if a weight is no longer finite."""
    harm: float
    """Nats that the tokens which were not planted have lost on average; infinite likewise."""


class Planted:
    """A fresh policy and its batch."""

    def __init__(self, folder: Path, ratio: float) -> None:
        self.model = AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float32, attn_implementation=implementation_for(CPU)
        )
        groups = make_groups(SEED)
        (self.row,) = micro_batches(groups, [group_advantages(np.asarray(g.rewards)) for g in groups], 4096)
        with torch.no_grad():
            self.fresh = self.statistics()[0]
        self.planted = np.flatnonzero(self.row.advantages < 0)[:: len(self.row.advantages) // (3 * PLANTED)][:PLANTED]
        self.old = self.fresh.clone()
        self.old[self.planted] -= log(ratio)

    def statistics(self) -> tuple[torch.Tensor, torch.Tensor]:
        return statistics(self.model, self.row.packed, device=CPU, autocast=False, temperature=1.0)

    def loss(self, recipe: Recipe) -> torch.Tensor:
        row: MicroBatch = self.row
        logprobs, entropy = self.statistics()
        loss, _ = row_loss(
            recipe, Extent(tokens=len(self.old), completions=int(row.sequences.max()) + 1),
            logprobs=logprobs, entropy=entropy, old_logprobs=self.old, behaviour_logprobs=self.old,
            reference_logprobs=None, advantages=torch.from_numpy(row.advantages).float(),
            lengths=torch.from_numpy(row.lengths).float(),
        )  # fmt: skip
        return loss

    def weights(self) -> torch.Tensor:
        return torch.cat([p.detach().double().flatten() for p in self.model.parameters()])

    def gradient_norm(self) -> float:
        return torch.cat([p.grad.double().flatten() for p in self.model.parameters()]).norm().item()


def gradient_norm(folder: Path, ratio: float, recipe: Recipe) -> float:
    """Of the batch's loss by the weights, with the planted tokens at this ratio."""
    batch = Planted(folder, ratio)
    batch.loss(recipe).backward()
    return batch.gradient_norm()


def course(folder: Path, recipe: Recipe, optimizer: str) -> Course:
    """STEPS steps on the batch planted with PLANTED_RATIO."""
    batch = Planted(folder, PLANTED_RATIO)
    start, others = batch.weights(), np.setdiff1d(np.arange(len(batch.old)), batch.planted)
    kind = torch.optim.SGD if optimizer == "gradient descent" else torch.optim.AdamW
    steps = kind(batch.model.parameters(), lr=RATES[optimizer], weight_decay=0.0)
    losses, norms = [], []
    for _ in range(STEPS):
        steps.zero_grad()
        loss = batch.loss(recipe)
        loss.backward()
        losses.append(loss.item())
        norms.append(batch.gradient_norm())
        steps.step()
    with torch.no_grad():
        lost = (batch.fresh - batch.statistics()[0])[others].mean().item()
    moved = ((batch.weights() - start).norm() / start.norm()).item()
    return Course(losses=losses, norms=norms, moved=_or_inf(moved), harm=_or_inf(lost))


def _or_inf(value: float) -> float:
    return value if isfinite(value) else inf


def run(out: Path, *, quick: bool, say: Callable[[str], None]) -> Found:
    """Seconds; `quick` changes nothing."""
    torch.set_num_threads(1)
    folder = make_model(out / "policy")
    norms = {name: [gradient_norm(folder, ratio, rule) for ratio in RATIOS] for name, rule in RULES.items()}
    courses = {(name, how): course(folder, rule, how) for name, rule in RULES.items() for how in RATES}
    say(f"gradient norm at a ratio of {RATIOS[-1]:.0e}: " + ", ".join(f"{k} {v[-1]:.3g}" for k, v in norms.items()))
    draw(norms, courses).savefig(out / "clipping.svg")
    lines = [
        "| ratio of the planted tokens | " + " | ".join(f"gradient norm, {name}" for name in RULES) + " |",
        "|---|---|---|",
    ]
    lines += [
        f"| {ratio:g} | " + " | ".join(f"{norms[name][i]:.3g}" for name in RULES) + " |"
        for i, ratio in enumerate(RATIOS)
    ]
    lines += [
        "",
        f"| {STEPS} steps, ratio {PLANTED_RATIO:g} | loss, first and last | weights moved by | others lost, nats |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| {name}, {how} | {one.losses[0]:.3g}, {one.losses[-1]:.3g} | {one.moved:.2g} | {one.harm:.3g} |"
        for (name, how), one in courses.items()
    ]
    return Found(
        figures={
            "clipping": {
                name: {
                    "grad_norm": {f"{ratio:g}": norm for ratio, norm in zip(RATIOS, norms[name], strict=True)},
                    **{
                        how: {
                            "first_loss": courses[name, how].losses[0],
                            "largest_grad_norm": max(map(_or_inf, courses[name, how].norms)),
                            "weights_moved": courses[name, how].moved,
                            "others_lost_nats": courses[name, how].harm,
                        }
                        for how in RATES
                    },
                }
                for name in RULES
            }
        },
        table="\n".join(lines),
        plots=("clipping.svg",),
    )


def draw(norms: dict[str, list[float]], courses: dict[tuple[str, str], Course]) -> Figure:
    """Gradient norm by ratio, and both courses step by step."""
    figure = Figure(figsize=(11, 3.4), facecolor="white", layout="constrained")
    by_ratio, *by_step = figure.subplots(1, 1 + len(RATES))
    colours = dict(zip(RULES, ("#dc2626", "#2563eb"), strict=True))
    for name, values in norms.items():
        by_ratio.loglog(RATIOS, values, "o-", color=colours[name], label=name)
    by_ratio.set(title=f"{PLANTED} planted tokens", xlabel="their ratio", ylabel="gradient norm")
    for axes, how in zip(by_step, RATES, strict=True):
        for name in RULES:
            values = courses[name, how].norms
            axes.semilogy(range(1, len(values) + 1), values, "o-", color=colours[name], label=name)
        axes.set(title=f"{how}, ratio {PLANTED_RATIO:g}", xlabel="step", ylabel="gradient norm")
    by_ratio.legend()
    return figure
