"""What a policy can do on a task, beside its base: the same problems and the same noise for both.

Decides the order of work and what is told. The estimates are `rl.scores`'s, the answers' worth is the task's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from node.asking import Asking, ask
from node.errors import UserError
from node.progress import Progress
from rl.answers import Answers, Summary, difference, graded, summary
from rl.scores import Estimate
from rl.tasks import Task

METHOD = "95 % intervals: percentile bootstrap over problems, 10,000 resamples"


def evaluate(task: Task, asking: Asking, folder: Path, base: Path | None) -> dict[str, Any]:
    """Ask the policy, and its base if there is one. Returns the whole report in JSON's types. Raises UserError."""
    before, _ = (None, None) if base is None else _answers("base", base, asking)
    after, started = _answers("model", folder, asking)
    settings = asking.config
    return {
        "task": settings.task.name,
        "task_sha256": task.sha256(),
        "problems": len(asking.indices),
        "samples": asking.samples,
        "seed": asking.seed,
        "temperature": settings.rl.temperature,
        "max_new_tokens": settings.task.max_new_tokens,
        **started,
        "intervals": METHOD,
    } | compared(after, before, asking, folder, base)


def compared(
    after: Sequence[Answers], before: Sequence[Answers] | None, asking: Asking, folder: Path, base: Path | None
) -> dict[str, Any]:
    """The figures of both policies and of what lies between them; `base` and `difference` are None without one."""
    document: dict[str, Any] = {"model": _figures(after, folder, asking), "base": None, "difference": None}
    if before is None or base is None:
        return document
    both = {one.problem_id for one in graded(before)} & {one.problem_id for one in graded(after)}
    if not both:
        raise UserError("no problem was graded for both policies", fix="the log of the task's reward function says why")
    common = [[one for one in answers if one.problem_id in both] for answers in (after, before)]
    estimates = difference(*common, samples=asking.samples, seed=asking.seed)
    return document | {
        "base": _figures(before, base, asking),
        "difference": {"avg": asdict(estimates.pop(0)), "pass": {str(k): asdict(e) for k, e in estimates.items()}},
    }


def told(report: Mapping[str, Any]) -> list[str]:
    """The report for people: one column a policy, and the difference."""
    sides = [name for name in ("base", "model", "difference") if report[name] is not None]
    k = report["samples"]
    rows = [["", *sides]]
    rows.append([f"avg@{k}", *(_told(report[side]["avg"], side) for side in sides)])
    for number in report["model"]["pass"]:
        rows.append([f"pass@{number}", *(_told(report[side]["pass"][number], side) for side in sides)])
    policies = [name for name in sides if name != "difference"]
    rows.append(["mean length", *(f"{report[name]['mean_tokens']:.1f} tokens" for name in policies)])
    rows.append(["cut off", *(f"{report[name]['cut_share']:.1%}" for name in policies)])
    if report["model"]["mean_target_miss"] is not None:
        rows.append(["off target", *(f"{report[name]['mean_target_miss']:.1f} tokens" for name in policies)])
    if any(report[name]["ungraded"] for name in policies):
        rows.append(["not graded", *(f"{report[name]['ungraded']} problems" for name in policies)])
    widths = [max(len(row[column]) for row in rows if len(row) > column) for column in range(len(sides) + 1)]
    lines = [
        f"{report['problems']} problems of {report['task']}, {k} answers each at temperature "
        f"{report['temperature']:g}, seed {report['seed']}; {report['backend']}, {report['compute_type']}"
    ]
    lines += ["  ".join(cell.ljust(widths[column]) for column, cell in enumerate(row)).rstrip() for row in rows]
    note = "difference: paired, on the same problems and noise; " if report["base"] else ""
    return [*lines, note + report["intervals"]]


def _answers(name: str, folder: Path, asking: Asking) -> tuple[list[Answers], dict[str, Any]]:
    answers: list[Answers] = []
    started = ask(folder, asking, answers.extend, Progress(name, len(asking.indices)))
    if not graded(answers):
        raise UserError(
            f"of no problem all {asking.samples} answers could be graded",
            fix="the task's reward function fails on this machine; try it alone",
        )
    return answers, started


def _figures(answers: Sequence[Answers], folder: Path, asking: Asking) -> dict[str, Any]:
    usable = graded(answers)
    found: Summary = summary(usable, samples=asking.samples, seed=asking.seed)
    return {
        "folder": str(folder),
        "avg": asdict(found.average),
        "pass": {str(k): asdict(estimate) for k, estimate in found.passes.items()},
        "mean_tokens": found.tokens,
        "cut_share": found.cut,
        "mean_target_miss": found.miss,
        "ungraded": len(answers) - len(usable),
    }


def _told(fields: Mapping[str, float], side: str) -> str:
    sign = "+" if side == "difference" else ""
    estimate = Estimate(**fields)
    return f"{estimate.mean:{sign}.1%} [{estimate.low:{sign}.1%}, {estimate.high:{sign}.1%}]"
