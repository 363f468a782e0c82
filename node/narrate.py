"""Ledger events in words: one sentence an event, and whom each concerns.

Decides the wording. Pure. Codes that validators write are shown as they are, next to the sentence if it is one of ours.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields

from ledger import events as on_ledger
from ledger.types import UNBEGUN_LEASE_UNIX_S, Bar, CaseState, Kind, Outcome
from node.show import moment, tokens
from verify.rejection import SENTENCES

_VERDICTS = {
    Outcome.ACCEPTED: "accepted",
    Outcome.REJECTED: "rejected as dishonest",
    Outcome.LATE: "found late: no credit, no punishment",
}
_ANSWERS = {
    Outcome.ACCEPTED: "not guilty",
    Outcome.REJECTED: "guilty",
    Outcome.LATE: "not judged",
}


def why(reason: str) -> str:
    """A reason code with its sentence."""
    sentence = SENTENCES.get(reason)
    return f"{reason} ({sentence.rstrip('.')})" if sentence else reason or "no reason given"


def sentence(event: on_ledger.Event) -> str:
    """What happened, in words."""
    match event:
        case on_ledger.NodeRegistered():
            own = event.node == event.staker
            return f"{event.node} registered" + (" by itself" if own else f"; its staker is {event.staker}")
        case on_ledger.StakeAdded():
            return f"{tokens(event.amount_wei)} tokens were staked for {event.node}; {tokens(event.stake_wei)} at work"
        case on_ledger.UnbondingStarted():
            due = moment(event.matures_unix_s)
            return f"{tokens(event.amount_wei)} tokens of {event.node} are on their way out, due {due}"
        case on_ledger.StakeWithdrawn():
            return f"{tokens(event.amount_wei)} tokens of {event.node} were paid out to {event.staker}"
        case on_ledger.StakeLocked():
            return f"{tokens(event.amount_wei)} tokens of {event.node} are locked by a case"
        case on_ledger.StakeUnlocked():
            return f"{tokens(event.amount_wei)} tokens of {event.node} are free again"
        case on_ledger.StakeBurnt():
            return (
                f"{tokens(event.amount_wei)} tokens of {event.node} were burnt; {tokens(event.stake_wei)} left at work"
            )
        case on_ledger.MemberJoined():
            return f"{event.node} joined pool {event.pool_id} as {event.role.name.lower()}"
        case on_ledger.MemberLeft():
            return f"{event.node} left pool {event.pool_id}"
        case on_ledger.MemberEjected():
            return f"{event.node} was put out of pool {event.pool_id}: {why(event.reason)}"
        case on_ledger.Blacklisted():
            by = "a verdict" if event.bar is Bar.BY_VERDICT else "the manager"
            return f"{event.account} is kept out of pool {event.pool_id} by {by}: {why(event.reason)}"
        case on_ledger.Unblacklisted():
            return f"{event.account} may join pool {event.pool_id} again"
        case on_ledger.DomainBlacklisted():
            return f"{event.account} is kept out of domain {event.domain_id}: {why(event.reason)}"
        case on_ledger.DomainUnblacklisted():
            return f"{event.account} may join pools of domain {event.domain_id} again"
        case on_ledger.SubmissionRecorded():
            return f"{event.node} submitted file {event.counter} of step {event.step}: {event.submission_id.hex()}"
        case on_ledger.DocketOpened():
            return _opened(event)
        case on_ledger.VerdictCommitted():
            return f"validator {event.validator} committed to a verdict"
        case on_ledger.VerdictRevealed():
            told = f"validator {event.validator} said: {_VERDICTS[event.outcome]}"
            if event.outcome is Outcome.ACCEPTED:
                return f"{told}, {event.units:,} units"
            return f"{told}, {why(event.reason)}"
        case on_ledger.OutcomeReached():
            return _reached(event)
        case on_ledger.CaseOpened():
            until = moment(event.until_unix_s)
            return (
                f"a case against {event.node} may burn {tokens(event.amount_wei)} tokens; it can appeal until {until}"
            )
        case on_ledger.CaseClosed():
            if event.state is CaseState.OVERTURNED:
                return f"the case against {event.node} was overturned by a wider panel; nothing was burnt"
            return f"the case against {event.node} is closed: {tokens(event.burnt_wei)} tokens were burnt"
        case on_ledger.WorkCredited():
            return f"{event.node} was credited {event.units:,} units, {tokens(event.amount_wei)} tokens"
        case on_ledger.CreditClaimed():
            return f"{tokens(event.amount_wei)} tokens earned by {event.node} went to {event.staker}"
        case on_ledger.CheckpointAnnounced():
            return f"policy {event.version} of pool {event.pool_id} was announced: manifest {event.manifest_hash.hex()}"
        case on_ledger.LeaseTaken():
            if not int(event.manager, 16):
                return f"pool {event.pool_id} has no manager; its lease is free"
            if event.expires_unix_s == UNBEGUN_LEASE_UNIX_S:
                return f"{event.manager} is to manage pool {event.pool_id}, once it starts (epoch {event.epoch})"
            until = moment(event.expires_unix_s)
            return f"{event.manager} manages pool {event.pool_id} until {until} (epoch {event.epoch})"
        case on_ledger.PoolStateChanged():
            return f"pool {event.pool_id} is {event.state.name.lower()} now"
        case on_ledger.PoolCreated():
            stake, slash = tokens(event.terms.min_stake_wei), tokens(event.terms.slash_wei)
            told = f"pool {event.pool_id} was created by {event.owner}: stake {stake}, a rejection burns {slash} tokens"
            return f"{told}, {event.terms.quorum} of {event.terms.panel} validators decide"
        case on_ledger.PoolFunded():
            return f"{event.by} gave {tokens(event.amount_wei)} tokens to pool {event.pool_id} for work"
        case on_ledger.FundsReclaimed():
            return f"{event.owner} took back the {tokens(event.amount_wei)} tokens that pool {event.pool_id} had left"
        case on_ledger.ManagerSet():
            return f"{event.manager} may {'' if event.allowed else 'no longer '}manage pool {event.pool_id}"
        case on_ledger.JoinsPaused():
            takes = "takes no new members" if event.paused else "takes new members again"
            return f"pool {event.pool_id} {takes}"
        case on_ledger.DomainCreated():
            return f"domain {event.domain_id} ({event.name}) was created by {event.owner}"
        case on_ledger.PoolOwnerOffered() | on_ledger.DomainOwnerOffered():
            return f"{_place(event)} is offered to {event.to}"
        case on_ledger.PoolOwnerChanged() | on_ledger.DomainOwnerChanged():
            return f"{_place(event)} is owned by {event.owner} now"
        case on_ledger.InviteCancelled():
            return f"an invite of {event.node} into pool {event.pool_id} was cancelled"
        case _:
            raise TypeError(f"no words for {type(event).__name__}")


def concerns(event: on_ledger.Event, accounts: Iterable[str]) -> bool:
    """Whether the event names one of these accounts."""
    return not {getattr(event, field.name) for field in fields(event)}.isdisjoint(accounts)


def is_about(event: on_ledger.Event, docket_ids: Iterable[bytes]) -> bool:
    """Whether the event belongs to one of these submissions, accusations or appeals."""
    wanted = set(docket_ids)
    return getattr(event, "docket_id", None) in wanted or getattr(event, "submission_id", None) in wanted


def _opened(event: on_ledger.DocketOpened) -> str:
    if event.kind is Kind.APPEAL:
        return f"an appeal for {event.node} went to a wider panel"
    if event.kind is Kind.ACCUSATION:
        return f"{event.node} was accused: {why(event.reason)}; evidence {event.evidence_hash.hex()}"
    return f"a submission of {event.node} went before the validators"


def _reached(event: on_ledger.OutcomeReached) -> str:
    if event.kind is Kind.SUBMISSION:
        told = f"the submission of {event.node} was {_VERDICTS[event.outcome]}"
    else:
        told = f"{event.node} was found {_ANSWERS[event.outcome]} ({event.kind.name.lower()})"
    return told if event.outcome is Outcome.ACCEPTED else f"{told}: {why(event.reason)}"


def _place(event: on_ledger.Event) -> str:
    pool_id = getattr(event, "pool_id", None)
    return f"domain {event.domain_id}" if pool_id is None else f"pool {pool_id}"
