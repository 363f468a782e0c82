"""Why: everything that the ledger has on an address or a submission, and where it stands, in words.

Decides what belongs to the answer and how it is summed up. Pure: it is given the events and the state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ledger import events as on_ledger
from ledger.court import appeal_id_of
from ledger.types import Case, CaseState, Docket, Kind, Member, Node, Outcome
from node.evidence import Evidence
from node.narrate import concerns, is_about, sentence, why
from node.show import moment, tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """`summary` says where it stands; `story` is what led to it, as (block, sentence), oldest first."""

    subject: str
    summary: tuple[str, ...]
    story: tuple[tuple[int, str], ...]
    grounds: tuple[Grounds, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Grounds:
    """What one validator's verdict rests on; the evidence itself is with the relays, under its hash."""

    validator: str
    evidence_hash: bytes
    evidence: Evidence | None = None
    missing: str = ""
    """Why the evidence is not here."""


def evidence_told(grounds: Grounds) -> tuple[str, ...]:
    """One validator's grounds in lines of words."""
    found, head = grounds.evidence, f"validator {grounds.validator}, evidence {grounds.evidence_hash.hex()}"
    if found is None:
        return (f"{head}: {grounds.missing}",)
    said = f"{why(found.code)}: {found.detail}" if found.code else "no check found anything wrong"
    passed = ", ".join(name for name, code in found.checks if not code)
    numbers = ", ".join(f"{name} {'none' if value is None else f'{value:.6g}'}" for name, value in found.facts.items())
    lines = (f"{head}:", f"  {found.outcome} as of block {found.block}, {said}", f"  checks passed: {passed or 'none'}")
    if any(name.startswith("second_") for name in found.facts):
        lines = (*lines, "  looked at twice: what a quick look found was judged by an exact one, in float32 (second_…)")
    return (*lines, f"  measured: {numbers}") if numbers else lines


def grounds_of(docket_id: bytes, events: Sequence[on_ledger.Event]) -> tuple[Grounds, ...]:
    """Of every verdict that was revealed on it or on its appeal, in that order; none of them fetched."""
    ids = (docket_id, appeal_id_of(docket_id))
    revealed = [e for e in events if isinstance(e, on_ledger.VerdictRevealed) and e.docket_id in ids]
    return tuple(Grounds(validator=e.validator, evidence_hash=e.evidence_hash) for e in revealed)


def explain_address(
    address: str, events: Sequence[on_ledger.Event], *, pool_id: int, node: Node, member: Member, credit_wei: int
) -> Explanation:
    """An address's standing as a node, and all that concerns it."""
    summary = [_standing(member, events, pool_id)]
    if node.registered:
        stake = f"Stake: {tokens(node.at_work_wei)} tokens at work"
        stake += f", {tokens(node.unbonding_wei)} on their way out" if node.unbonding_wei else ""
        stake += f", open cases may burn up to {tokens(node.locked_wei)}" if node.locked_wei else ""
        summary.append(f"{stake}.")
    burnt = sum(e.amount_wei for e in events if isinstance(e, on_ledger.StakeBurnt) and e.node == address)
    if burnt:
        summary.append(f"Burnt so far: {tokens(burnt)} tokens.")
    ours = [e for e in events if isinstance(e, on_ledger.SubmissionRecorded) and e.node == address]
    if ours:
        outcomes = Counter(_outcomes(events).get(e.submission_id, Outcome.PENDING) for e in ours)
        counts = ", ".join(f"{outcomes[o]} {o.name.lower()}" for o in Outcome if outcomes[o])
        summary.append(f"Submissions: {len(ours)} ({counts}).")
    verdicts = [e for e in events if isinstance(e, on_ledger.VerdictRevealed) and e.validator == address]
    if verdicts:
        summary.append(_sided(verdicts, events))
    if credit_wei:
        summary.append(f"It can claim {tokens(credit_wei)} tokens.")
    story = tuple((e.block, sentence(e)) for e in events if concerns(e, (address,)))
    return Explanation(subject=address, summary=tuple(summary), story=story)


def explain_docket(
    docket_id: bytes,
    events: Sequence[on_ledger.Event],
    *,
    docket: Docket | None,
    case: Case | None,
    grounds: tuple[Grounds, ...] = (),
) -> Explanation:
    """A submission's, accusation's or appeal's story and outcome. Empty where the ledger knows nothing of it."""
    ids = (docket_id, appeal_id_of(docket_id))
    found = [e for e in events if is_about(e, ids)]
    summary = [_outcome(docket_id, found, docket)]
    if case is not None:
        summary.append(_case(case))
    summary += _dissent(docket_id, found, docket)
    return Explanation(
        subject=docket_id.hex(),
        summary=tuple(summary),
        story=tuple((e.block, sentence(e)) for e in found),
        grounds=grounds,
    )


def _standing(member: Member, events: Sequence[on_ledger.Event], pool_id: int) -> str:
    if member.active:
        return f"An active {member.role.name.lower()} of pool {pool_id}."
    last = next(
        (
            e
            for e in reversed(events)
            if isinstance(e, (on_ledger.MemberEjected, on_ledger.MemberLeft))
            and e.pool_id == pool_id
            and e.node == member.address
        ),
        None,
    )
    if member.bar.value:
        told = f"Kept out of pool {pool_id}"
    elif last is None:
        return f"Not a member of pool {pool_id}."
    else:
        told = f"No longer a member of pool {pool_id}"
    if isinstance(last, on_ledger.MemberEjected):
        return f"{told}: {why(last.reason)}."
    return f"{told}: it left." if last else f"{told}."


def _outcomes(events: Sequence[on_ledger.Event]) -> dict[bytes, Outcome]:
    found = {}
    for event in events:
        if isinstance(event, on_ledger.OutcomeReached):
            found[event.docket_id] = event.outcome
        elif isinstance(event, on_ledger.CaseClosed) and event.state is CaseState.OVERTURNED:
            found[event.docket_id] = Outcome.ACCEPTED
    return found


def _sided(verdicts: Sequence[on_ledger.VerdictRevealed], events: Sequence[on_ledger.Event]) -> str:
    outcomes = _outcomes(events)
    decided = [v for v in verdicts if v.docket_id in outcomes]
    against = sum(v.outcome is not outcomes[v.docket_id] for v in decided)
    return f"Verdicts: {len(verdicts)}, of which {against} were against the outcome and changed nothing."


def _outcome(docket_id: bytes, found: Sequence[on_ledger.Event], docket: Docket | None) -> str:
    if not found:
        return "The ledger knows nothing of it."
    if docket is None:
        return "Recorded; no validator has taken it up yet."
    if docket.outcome is Outcome.PENDING:
        return f"Before the validators: {docket.commits} have committed, {docket.quorum} must agree."
    reached = next((e for e in found if isinstance(e, on_ledger.OutcomeReached) and e.docket_id == docket_id), None)
    told = f"Outcome: {docket.outcome.name.lower()}"
    if reached is not None and reached.outcome is docket.outcome and docket.outcome is not Outcome.ACCEPTED:
        told += f", {why(reached.reason)}; evidence {reached.evidence_hash.hex()}"
    return f"{told}."


def _case(case: Case) -> str:
    amount, until = tokens(case.amount_wei), moment(case.until_unix_s)
    return {
        CaseState.OPEN: f"{amount} tokens are locked; it can appeal until {until}.",
        CaseState.APPEALED: f"Appealed: a wider panel may overturn it until {until}.",
        CaseState.BURNT: f"Final: up to {amount} tokens were burnt, as far as there were any.",
        CaseState.OVERTURNED: "Overturned by a wider panel: nothing was burnt.",
    }[case.state]


def _dissent(docket_id: bytes, found: Sequence[on_ledger.Event], docket: Docket | None) -> list[str]:
    """Who said something else than what became final."""
    if docket is None or docket.outcome is Outcome.PENDING or docket.kind is Kind.NONE:
        return []
    verdicts = [e for e in found if isinstance(e, on_ledger.VerdictRevealed) and e.docket_id == docket_id]
    final = next(
        (e.outcome for e in found if isinstance(e, on_ledger.OutcomeReached) and e.docket_id == docket_id), None
    )
    return [
        f"Validator {v.validator} said {v.outcome.name.lower()}, which changed nothing."
        for v in verdicts
        if final is not None and v.outcome is not final
    ]
