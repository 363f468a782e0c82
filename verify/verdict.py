"""From a submission's file to a verdict: every check in order of cost, ending at the first that fails.

`CHECKS` is that order. What needs only the ledger comes first, then what needs the file, then the policy's tokenizer,
then one forward pass, which seven share: among them first those whose reason says most. The reward comes last. What it
costs to score a text, and whether that can be done at all, is for its author to choose; so nobody scores a text that
the tokens do not say, nor tokens of which another check knows already that they are not the policy's.

Three checks judge numbers that arithmetic blurs. They look twice (`verify.look`): what a quick look finds is a reason
to look again, exactly and by the policy's own noise, and that look alone rejects.

A verdict says something about the submission and only that. A check that crashes, a policy that cannot be loaded, a
dependency that is missing: all raise `CheckFailed`, which is no verdict and slashes nobody.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

from rl.rollouts import RolloutFileInvalid
from rl.tasks import Task
from verify import chance, checks, computation, copies, sampled
from verify.case import Case
from verify.copies import NO_EARLIER, Earlier
from verify.look import Look
from verify.policy import Policy
from verify.proofs import ProofFault
from verify.rejection import UNPUNISHED, Rejection
from verify.rules import Claim, Rules

Facts = dict[str, float]
SECOND_LOOK = "on a second look, in float32: "
"""How the detail of a rejection begins that rests on one."""
SECOND = "second_"
"""How the facts of one begin; those without are the first look's."""


class CheckFailed(Exception):
    """A check could not be made, whence nothing follows about the submission. `__cause__` says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One question about a submission."""

    name: str
    """Also the code of its rejection (`verify.rejection.SENTENCES`)."""
    needs: tuple[str, ...] = ()
    """Checks that must have found nothing, or this one's inputs do not exist or are not bounded."""
    find: Callable[[Case], Rejection | None]
    measure: Callable[[Case], Facts] = lambda case: {}
    """What it saw, whether or not that is a reason."""


def _schema(case: Case) -> Rejection | None:
    parsed = case.parsed
    return Rejection(code="schema", detail=str(parsed)) if isinstance(parsed, RolloutFileInvalid) else None


def _amounts(case: Case) -> Facts:
    rollouts = case.rollouts
    return {
        "completions": len(rollouts),
        "tokens": sum(len(r.completion_ids) for r in rollouts),
    }


def _looked_at(
    name: str, find: Callable[[Look], Rejection | None], measure: Callable[[Look], Facts], *, seeded_only: bool = False
) -> Check:
    """A check of numbers that arithmetic blurs: it rejects what the second look finds in what the first one did."""

    def asked(case: Case) -> bool:
        return case.rules.seeded or not seeded_only

    def found(case: Case) -> Rejection | None:
        if not asked(case) or find(case.first_look) is None:
            return None
        second = find(case.second_look)
        return second and replace(second, detail=f"{SECOND_LOOK}{second.detail}")

    def measured(case: Case) -> Facts:
        if not asked(case):
            return {}
        facts = measure(case.first_look)
        if find(case.first_look) is not None:
            facts |= {f"{SECOND}{fact}": value for fact, value in measure(case.second_look).items()}
            facts |= case.second_look.noise_facts
        return facts

    return Check(name=name, needs=("bounds",), find=found, measure=measured)


def _proof_errors(look: Look) -> Facts:
    fit = look.proof_fit
    return {} if isinstance(fit, ProofFault) else asdict(fit.whole)


def _margins(look: Look) -> Facts:
    seen = look.choices
    return {"margin_mean": seen.whole.mean, "margin_max": seen.whole.most, "mismatches": seen.mismatches}


def _gaps(look: Look) -> Facts:
    seen = look.logprob_gaps.whole
    return {"logprob_gap_mean": seen.mean, "logprob_gap_max": seen.most}


def _counted(name: str, seen: int, expected: float) -> Facts:
    return {name: seen, f"{name}_due": expected, f"{name}_log_surprise": chance.log_surprise(seen, expected)}


CHECKS: tuple[Check, ...] = (
    Check(name="late", find=lambda case: checks.check_in_time(case.claim)),
    Check(name="unavailable", find=lambda case: checks.check_served(case.path)),
    Check(
        name="size",
        needs=("unavailable",),
        find=lambda case: checks.check_size(case.size_bytes, case.rules),
        measure=lambda case: {"size_bytes": case.size_bytes},
    ),
    Check(name="hash", needs=("size",), find=lambda case: checks.check_hash(case.digest, case.claim)),
    Check(name="schema", needs=("size",), find=_schema),
    Check(name="row-count", needs=("schema",), find=lambda case: checks.check_rows(case.rollouts, case.rules)),
    Check(
        name="problems",
        needs=("row-count",),
        find=lambda case: checks.check_problems(case.rollouts, case.claim, case.rules, case.task),
    ),
    Check(name="version", needs=("row-count",), find=lambda case: checks.check_version(case.rollouts, case.claim)),
    Check(name="stale", needs=("version",), find=lambda case: checks.check_age(case.rollouts, case.claim, case.rules)),
    Check(
        name="bounds",
        needs=("version",),
        find=lambda case: checks.check_bounds(case.rollouts, case.rules, case.policy.vocab_size),
        measure=_amounts,
    ),
    Check(
        name="ending",
        needs=("bounds",),
        find=lambda case: checks.check_endings(case.rollouts, case.rules, case.policy.tokenizer.eos_token_id),
    ),
    Check(
        name="proof-count",
        needs=("version",),
        find=lambda case: checks.check_proof_count(case.rollouts, case.policy.hidden_size),
    ),
    Check(
        name="target-length",
        needs=("version",),
        find=lambda case: checks.check_targets(case.rollouts, case.prompts, case.problems, case.rules, case.render),
    ),
    Check(name="prompt", needs=("version",), find=lambda case: checks.check_prompts(case.rollouts, case.prompts)),
    Check(
        name="text",
        needs=("bounds",),
        find=lambda case: checks.check_texts(case.rollouts, case.policy.tokenizer),
    ),
    _looked_at(
        "proof-mismatch",
        lambda look: computation.check_proofs(look.rollouts, look.proof_fit, look.thresholds),
        _proof_errors,
    ),
    Check(
        name="copy",
        needs=("bounds",),
        find=lambda case: copies.check_copy(case.audited, case.copy_surprises),
        measure=lambda case: {"copy_log_surprise": sum(case.copy_surprises)},
    ),
    Check(
        name="duplicates",
        needs=("bounds",),
        find=lambda case: sampled.check_repetitions(*case.repetitions),
        measure=lambda case: _counted("repetitions", *case.repetitions),
    ),
    _looked_at(
        "sampling",
        lambda look: computation.check_sampling(look.rollouts, look.choices, look.thresholds),
        _margins,
        seeded_only=True,
    ),
    Check(
        name="distribution",
        needs=("bounds",),
        find=lambda case: None if case.rules.seeded else sampled.check_distribution(case.surprise),
        measure=lambda case: {} if case.rules.seeded else asdict(case.surprise),
    ),
    Check(
        name="termination",
        needs=("bounds",),
        find=lambda case: (
            sampled.check_termination(*case.endings, case.rules.eos_probability) if case.rules.counts_endings else None
        ),
        measure=lambda case: _counted("improbable_endings", *case.endings),
    ),
    _looked_at(
        "logprobs",
        lambda look: computation.check_logprobs(look.rollouts, look.logprob_gaps, look.thresholds),
        _gaps,
    ),
    Check(
        name="reward",
        needs=("text",),
        find=lambda case: checks.check_rewards(case.rollouts, case.problems, case.task, case.rules),
        measure=lambda case: {"reward_mean": sum(r.reward for r in case.rollouts) / len(case.rollouts)},
    ),
)
Observe = Callable[[str, Rejection | None, Facts], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a validator found."""

    outcome: Literal["accepted", "rejected", "late"]
    rejection: Rejection | None
    """The check that failed; None if accepted."""
    facts: Facts
    """What was measured up to that check."""

    def evidence(self) -> bytes:
        """Canonical JSON of the verdict, whose hash goes on the ledger."""
        failed = None if self.rejection is None else asdict(self.rejection)
        return json.dumps({"outcome": self.outcome, "rejection": failed, "facts": self.facts}, sort_keys=True).encode()


def judge(
    path: Path | None,
    *,
    claim: Claim,
    rules: Rules,
    task: Task,
    load_policy: Callable[[int], Policy],
    earlier: Earlier = NO_EARLIER,
    observe: Observe | None = None,
    without: frozenset[str] = frozenset(),
) -> Verdict:
    """Check one submission.

    Args:
        path: the submitted file; None if nobody could be made to serve it.
        load_policy: gives the policy of a version between 0 and `claim.newest_version`.
        earlier: work that the ledger recorded before.
        observe: told the name, finding and facts of each check that was made, in order.
        without: checks whose findings do not count, to see what the others make of a submission. A check whose inputs
            they would have guarded is then not made. No node sets it.

    Raises:
        CheckFailed: a check could not be made.
    """
    case = Case(path, claim=claim, rules=rules, task=task, load_policy=load_policy, earlier=earlier)
    facts: Facts = {}
    for name, finding, measured in _made(case):
        if name in without:
            continue
        facts |= measured
        if observe is not None:
            observe(name, finding, measured)
        if finding is not None:
            outcome = "late" if finding.code in UNPUNISHED else "rejected"
            return Verdict(outcome=outcome, rejection=finding, facts=facts)
    return Verdict(outcome="accepted", rejection=None, facts=facts)


def examine(
    path: Path | None,
    *,
    claim: Claim,
    rules: Rules,
    task: Task,
    load_policy: Callable[[int], Policy],
    earlier: Earlier = NO_EARLIER,
) -> list[tuple[str, Rejection | None]]:
    """What every check finds that can be made, in order, without stopping at the first failure. Raises CheckFailed."""
    case = Case(path, claim=claim, rules=rules, task=task, load_policy=load_policy, earlier=earlier)
    return [(name, finding) for name, finding, _ in _made(case)]


def _made(case: Case) -> Iterator[tuple[str, Rejection | None, Facts]]:
    """Name, finding and facts of each check whose needs are met."""
    unmet: set[str] = set()
    for check in CHECKS:
        if not unmet.isdisjoint(check.needs):
            unmet.add(check.name)
            continue
        try:
            measured, finding = check.measure(case), check.find(case)
        except CheckFailed:
            raise
        except Exception as cause:
            raise CheckFailed(f"{check.name}: {type(cause).__name__}: {cause}") from cause
        if finding is not None:
            unmet.add(check.name)
        yield check.name, finding, measured
