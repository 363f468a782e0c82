"""Beside TRL's GRPOTrainer: tokens a second and memory of the training phase, and the reward after the same samples.

Both train one model on the same fixed rollouts with the same recipe, on one thread each, a step of each in turn; the
first round is left out (moments are allocated in it). Speed is by CPU time, which a busy machine blurs less than the
clock; its ratio is taken within a round, and the median over rounds reported. That both do the same work is seen from
the gradient norm before clipping, which must agree. Then each generates and trains by itself, from equal prompts.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean, median
from typing import Any

import psutil
from transformers import AutoTokenizer

from benchmarks.learning.items import Found, NotRun
from benchmarks.learning.pair import SideFailed, Sides, in_turn
from benchmarks.learning.trl_cases import LONG, SHORT, Setting, fixed, generated, tokens
from benchmarks.learning.trl_env import TRL, prepare
from node.model import base_model
from rl.draw import draw_problems
from rl.hardware import choose_compute_type, read_cpu_flags
from rl.prompts import render_prompt
from rl.tasks import load_task

TITLE = f"training beside TRL {TRL}"
OURS, THEIRS = "ours", "trl"
CELLS: tuple[tuple[Setting, bool, int], ...] = ((SHORT, False, 3), (SHORT, True, 3), (LONG, False, 3), (LONG, True, 3))
"""Rollouts, whether activations are recomputed (TRL's default; ours is not to), and rounds with the one left out."""
QUICK: tuple[tuple[Setting, bool, int], ...] = ((SHORT, False, 2),)
PROMPTS_PER_STEP, STEPS = 10, 12
NORMS_AGREE = 0.05
"""Relative, of two bfloat16 gradients of one loss by differently ordered sums; 0.002 seen."""
NEEDED_BYTES = 11 << 30
"""Both sides at the long rollouts."""
LAST = 4
"""Steps whose mean reward is compared."""


def run(out: Path, *, quick: bool, say: Callable[[str], None]) -> Found:
    """See `benchmarks.learning.items`; a run that was cut off goes on.

    Raises NotRun where there is no TRL, too little memory, or a side failed.
    """
    trl = prepare(out / "trl-env", say)
    sides: Sides = {
        THEIRS: (trl, "benchmarks.learning.trl_side"),
        OURS: (Path(sys.executable), "benchmarks.learning.own_side"),
    }
    demand_memory(psutil.virtual_memory().available)
    unfinished, scratch = out / "unfinished", out / "scratch"
    for folder in (unfinished, scratch):
        folder.mkdir(exist_ok=True)
    given = {
        "model": str(base_model("")),
        "compute_type": choose_compute_type("auto", read_cpu_flags(), has_gpu=False),
        "scratch": str(scratch),
    }
    vocabulary = json.loads((Path(given["model"]) / "config.json").read_text())["vocab_size"]
    cells, rewards = [], {}
    try:
        for setting, recompute, rounds in QUICK if quick else CELLS:
            case = fixed(setting, vocabulary=vocabulary, recompute=recompute, rounds=rounds, **given)
            name = setting.name + (", recomputed" if recompute else "")
            took = _once(unfinished / f"{name}.json", lambda case=case: list(in_turn(case, out, sides)))
            cells.append(cell(setting, recompute, tokens(case), took))
            speed, memory = cells[-1]["speed_ratio"], cells[-1]["memory_ratio"]
            say(f"{name}: {speed:.2f} times TRL's tokens/s, {memory:.2f} of its memory")
        for name in () if quick else sides:
            rewards[name] = _once(
                unfinished / f"rewards, {name}.json", lambda name=name: _rewards(name, given, out, sides)
            )
            say(f"{name}: mean reward by step " + " ".join(f"{reward:.2f}" for reward in rewards[name]))
    except SideFailed as fault:
        raise NotRun(f"{fault}. Logs lie in {out}; what was measured is kept: start again to go on") from fault
    shutil.rmtree(unfinished)
    return Found(
        figures=figures(cells, rewards) | {"trl_compute_type": given["compute_type"]}, table=table(cells, rewards)
    )


def demand_memory(available_bytes: int) -> None:
    """Raises NotRun where two trainers do not fit; the kernel would end one of them, or something else."""
    if available_bytes < NEEDED_BYTES:
        raise NotRun(
            f"two trainers need {NEEDED_BYTES / 2**30:.0f} GiB of memory and {available_bytes / 2**30:.1f} are free: "
            "end what else runs here, or take a larger machine"
        )


def _once(path: Path, make: Callable[[], Any]) -> Any:
    """What an earlier run left at `path`, or else is made now and left there."""
    if not path.exists():
        made = json.dumps(make())
        path.write_text(made)
    return json.loads(path.read_text())


def cell(
    setting: Setting, recompute: bool, per_step: int, rounds: Sequence[dict[str, dict[str, Any]]]
) -> dict[str, Any]:
    """One row of the comparison, from what each side's steps took.

    Raises SideFailed if the first gradients differ: then the two did not do the same work, and no ratio means anything.
    """
    first = {name: rounds[0][name]["grad_norm"] for name in (OURS, THEIRS)}
    if abs(first[OURS] - first[THEIRS]) > NORMS_AGREE * first[THEIRS]:
        raise SideFailed(f"{setting.name}: gradient norms {first} on the same rollouts and weights")
    measured = rounds[1:]
    speeds = {
        clock: {name: [per_step / each[name][clock] for each in measured] for name in (OURS, THEIRS)}
        for clock in ("cpu_s", "wall_s")
    }
    peaks = {name: max(each[name]["peak_mib"] for each in measured) for name in (OURS, THEIRS)}
    ratios = {
        clock: [own / other for own, other in zip(both[OURS], both[THEIRS], strict=True)]
        for clock, both in speeds.items()
    }
    return {
        "setting": setting.name,
        "recompute": recompute,
        "tokens": per_step,
        "norms": first,
        "tokens_per_cpu_s": {name: median(values) for name, values in speeds["cpu_s"].items()},
        "speed_ratio": median(ratios["cpu_s"]),
        "speed_ratios": ratios["cpu_s"],
        "wall_ratio": median(ratios["wall_s"]),
        "peak_mib": peaks,
        "memory_ratio": peaks[OURS] / peaks[THEIRS],
    }


def _rewards(name: str, given: dict[str, str], out: Path, sides: Sides) -> list[float]:
    """Mean reward of every step of one side, generating and training by itself."""
    task, tokenizer = load_task("arithmetic"), AutoTokenizer.from_pretrained(given["model"])
    problems = []
    for step in range(STEPS):
        for index in draw_problems(step.to_bytes(32, "big"), PROMPTS_PER_STEP, task.size):
            problem = task.problem(index)
            ids = render_prompt(tokenizer, problem, None)
            text = tokenizer.decode(ids, skip_special_tokens=False)
            problems.append({"text": text, "prompt_ids": list(ids), "answer": problem.gold_standard_solution})
    case = generated(problems, prompts_per_step=PROMPTS_PER_STEP, steps=STEPS, **given)
    return [step[name]["reward"] for step in in_turn(case, out, {name: sides[name]})]


def figures(cells: Sequence[dict[str, Any]], rewards: dict[str, list[float]]) -> dict[str, Any]:
    """The keys of the study. The two ratios are the least favourable of all cells without recomputation."""
    plain = [each for each in cells if not each["recompute"]]
    return {
        "trl_speed_ratio": min(each["speed_ratio"] for each in plain),
        "trl_memory_ratio": max(each["memory_ratio"] for each in plain),
        "trl_cells": list(cells),
        "trl_rewards": rewards,
    }


def table(cells: Sequence[dict[str, Any]], rewards: dict[str, list[float]]) -> str:
    """Markdown."""
    lines = [
        "| rollouts of a step | recomputed | TRL: tokens a CPU-second | ours | ratio | TRL: peak MiB | ours | ratio |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for each in cells:
        speed, peak = each["tokens_per_cpu_s"], each["peak_mib"]
        lines.append(
            f"| {each['setting']}, {each['tokens']} tokens | {'yes' if each['recompute'] else 'no'} "
            f"| {speed[THEIRS]:.0f} | {speed[OURS]:.0f} | **{each['speed_ratio']:.2f}** "
            f"| {peak[THEIRS]:.0f} | {peak[OURS]:.0f} | **{each['memory_ratio']:.2f}** |"
        )
    if rewards:
        lines += ["", f"| mean reward | first step | steps {STEPS - LAST + 1}–{STEPS} |", "|---|---|---|"]
        lines += [f"| {name} | {r[0]:.2f} | {mean(r[-LAST:]):.2f} |" for name, r in sorted(rewards.items())]
    return "\n".join(lines)
