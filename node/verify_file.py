"""One submission's file, checked offline by whoever doubts a verdict: the same checks, by the same code.

Decides which claim is checked (one that somebody hands in, read strictly) and how each check and its bounds are told.
It needs no key, no chain and no network, and refuses to make up what the claim does not say.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, get_type_hints

from node.errors import UserError
from rl import flat_json
from rl.tasks import Task
from verify.policy import Policy
from verify.rejection import Rejection
from verify.rules import Claim, Rules
from verify.thresholds import Noise, Thresholds
from verify.verdict import CHECKS, SECOND, Verdict, judge

MAX_CLAIM_BYTES = 1 << 20
"""`explain --json` of a submission with a long story; evidence is smaller."""
SECOND_LOOK_TOLD = f"what the first look found was looked at again, in float32: facts of that begin with {SECOND}"
ORDER = tuple(check.name for check in CHECKS)
"""Every check by name, cheapest first."""
Ran = tuple[tuple[str, Rejection | None], ...]


def judge_each(
    path: Path | None, *, claim: Claim, rules: Rules, task: Task, load_policy: Callable[[int], Policy], **more: Any
) -> tuple[Verdict, Ran]:
    """The verdict, and every check that ran with what it found, in order. Raises CheckFailed.

    Args:
        more: what else `verify.verdict.judge` takes.
    """
    terms = {"claim": claim, "rules": rules, "task": task, "load_policy": load_policy} | more
    ran: list[tuple[str, Rejection | None]] = []

    def observe(name: str, found: Rejection | None, *_: Any) -> None:
        ran.append((name, found))

    return judge(path, **terms, observe=observe), tuple(ran)  # type: ignore[arg-type]


def read_claim(path: Path) -> Claim:
    """The claim in a JSON file: evidence, the output of `explain SUBMISSION --json`, or the claim's fields alone.

    Raises UserError.
    """
    fix = "name the evidence of a verdict, or what `intellect-node explain SUBMISSION --json` prints"
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_CLAIM_BYTES + 1)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}", fix=fix) from error
    if len(raw) > MAX_CLAIM_BYTES:
        raise UserError(f"{path} is larger than {MAX_CLAIM_BYTES} bytes", fix=fix)
    try:
        document = flat_json.loads(raw)
    except ValueError as error:
        raise UserError(f"{path} is not JSON", fix=fix) from error
    return claim_from(document.get("claim", document) if isinstance(document, dict) else document, fix=fix)


def claim_from(fields: Any, *, fix: str) -> Claim:
    """The claim with exactly these fields (bytes as 0x…). Raises UserError, with this `fix`."""
    if not isinstance(fields, Mapping):
        raise UserError("there is no claim in it", fix=fix)
    hints = get_type_hints(Claim)
    wanted = {f.name for f in dataclasses.fields(Claim) if f.default is dataclasses.MISSING}
    if not wanted <= set(fields) <= set(hints):
        missing, unknown = (
            ", ".join(sorted(wanted - set(fields))),
            ", ".join(sorted(map(str, set(fields) - set(hints)))),
        )
        raise UserError(f"the claim lacks [{missing}] and has unknown [{unknown}]", fix=fix)
    values = {}
    for name, value in fields.items():
        try:
            values[name] = bytes.fromhex(value.removeprefix("0x")) if hints[name] is bytes else value
        except (AttributeError, ValueError) as error:
            raise UserError(f"the claim's {name} is not hex: {str(value)[:80]!r}", fix=fix) from error
        if type(values[name]) is not hints[name]:
            raise UserError(f"the claim's {name} is no {hints[name].__name__}: {str(value)[:80]!r}", fix=fix)
    return Claim(**values)


def bounds(facts: Mapping[str, float], rules: Rules) -> dict[str, float]:
    """The highest value allowed of each measured fact that has a bound, as the checks apply it to a submission."""
    found: dict[str, float] = {"size_bytes": rules.max_file_bytes} | _of_look(facts, rules.thresholds, rules)
    noise = {f.name: facts[f"noise_{f.name}"] for f in dataclasses.fields(Noise) if f"noise_{f.name}" in facts}
    if noise:
        second = {name.removeprefix(SECOND): value for name, value in facts.items() if name.startswith(SECOND)}
        limits = rules.second_look.widened(Noise(**noise))
        of_second = _of_look(facts | second, limits, rules)
        found |= {f"{SECOND}{name}": bound for name, bound in of_second.items()}
    return {name: bound for name, bound in found.items() if name in facts}


def _of_look(facts: Mapping[str, float], limits: Thresholds, rules: Rules) -> dict[str, float]:
    found: dict[str, float] = {
        "exponent_max": limits.block_exponents,
        "mantissa_max": limits.block_mantissa_mean,
        "median_max": limits.block_mantissa_median,
        "margin_max": limits.margin_most,
        "logprob_gap_max": limits.logprob_most,
    }
    if "independent_blocks" in facts:
        blocks = facts["independent_blocks"]
        found["exponent_mean"] = limits.exponent_bound(blocks, alone=False)
        found["mantissa_mean"] = limits.mantissa_bound(blocks, alone=False)
    if rules.audit_share == 1.0 and "tokens" in facts:  # of an audited part the facts do not say how many
        tokens = int(facts["tokens"])
        found["margin_mean"] = limits.margin(alone=False).mean_of(tokens)
        found["logprob_gap_mean"] = limits.logprob(alone=False).mean_of(tokens)
    return found


def report(verdict: Verdict, ran: Ran, rules: Rules) -> dict[str, Any]:
    """Everything there is to tell, in JSON's types."""
    done = {name for name, _ in ran}
    checks = [{"check": name, "result": "rejected" if found else "ok"} for name, found in ran]
    checks += [{"check": name, "result": "not run"} for name in ORDER if name not in done]
    return {
        "outcome": verdict.outcome,
        "rejection": dataclasses.asdict(verdict.rejection) if verdict.rejection else None,
        "checks": checks,
        "facts": dict(verdict.facts),
        "bounds": bounds(verdict.facts, rules),
    }


def told(document: Mapping[str, Any], *, explain: bool) -> Sequence[str]:
    """The report for people: the verdict, and with `explain` every check, number and bound before it."""
    lines = []
    if explain:
        width = max(len(check["check"]) for check in document["checks"])
        lines += [
            f"{check['check']:<{width}}  {'REJECTED' if check['result'] == 'rejected' else check['result']}"
            for check in document["checks"]
        ]
        lines += [SECOND_LOOK_TOLD] if any(name.startswith(SECOND) for name in document["facts"]) else []
        lines.append("measured:")
        width = max(map(len, document["facts"]), default=0)
        for name, value in document["facts"].items():
            bound = document["bounds"].get(name)
            lines.append(f"  {name:<{width}}  {value:.6g}" + (f"  (at most {bound:.6g})" if bound is not None else ""))
    rejection = document["rejection"]
    if rejection is None:
        return [*lines, "accepted: every check found nothing wrong"]
    return [*lines, f"{document['outcome']}: {Rejection(**rejection).sentence} {rejection['detail']}"]
