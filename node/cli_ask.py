"""Commands that ask the ledger what happened: submissions, explain, events; or for justice: slash, appeal."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from node.cli_options import (
    ADDRESS,
    FILE,
    HASH,
    ChainChoice,
    WalletChoice,
    join_option,
    json_option,
    with_chain,
    with_wallet,
)
from node.cli_writes import short_code, told, writing
from node.errors import UserError
from node.show import clean, done, plain, rows

FOLLOW_S = 1.0
MAX_EVIDENCE_BYTES = 1 << 20


def all_events(ledger: Any, *, from_block: int = 0, follow: bool = False) -> Iterator[Any]:
    """Every event of the deployment so far, oldest first; with `follow` for ever, as they come."""
    cursor = ledger.cursor(None, "cli")
    if from_block:
        cursor.commit(from_block - 1)
    while True:
        events = ledger.events(cursor)  # empty stretches are committed there
        yield from events
        if events:
            cursor.commit(events[-1].block)
        elif cursor.next_block > ledger.block_number:
            if not follow:
                return
            time.sleep(FOLLOW_S)


@click.command("submissions")
@click.option("--node", type=ADDRESS, help="Only this worker's.")
@click.option("--step", type=click.IntRange(0), help="Only this step's.")
@click.option("--last", type=click.IntRange(1), default=20, show_default=True, help="At most so many, the newest.")
@with_chain
@json_option
def submissions(node: str | None, step: int | None, last: int, chain: ChainChoice, as_json: bool) -> None:
    """List the newest submissions of the run's pool: worker, step, outcome, id.

    \b
    Example:
      intellect-node submissions --config run.toml --last 5
    """
    from ledger.events import SubmissionRecorded

    ledger, pool = chain.reader()
    with told():
        chosen = [
            event
            for event in all_events(ledger)
            if isinstance(event, SubmissionRecorded)
            and event.pool_id == pool.pool_id
            and node in (None, event.node)
            and step in (None, event.step)
        ][-last:]
        found = [
            plain(event) | {"outcome": (docket.outcome.name.lower() if docket else "pending")}
            for event in chosen
            for docket in [ledger.docket(event.submission_id)]
        ]
    columns = ("step", "counter", "node", "outcome", "submission_id")
    rows(found, columns, as_json=as_json, empty="no submissions yet")


@click.command("explain")
@click.argument("subject", metavar="ADDRESS|SUBMISSION")
@with_chain
@join_option
@json_option
def explain(subject: str, chain: ChainChoice, join: tuple[str, ...], as_json: bool) -> None:
    """Say what happened to an address or a submission, and why, as the ledger has it.

    Also takes the id of an accusation or an appeal. With --join the evidence of a submission's verdicts is fetched from
    the relays, compared with its hash on the ledger, and shown. With --json a submission's claim is printed as well:
    what `intellect-node verify` needs to run the checks again.

    \b
    Examples:
      intellect-node explain 0x52… --config run.toml
      intellect-node explain 9c01…e7 --config run.toml --join /ip4/127.0.0.1/tcp/4002/p2p/Qm…
    """
    from node.explain import evidence_told, explain_address

    is_address = len(subject.removeprefix("0x")) == 40
    wanted = (ADDRESS if is_address else HASH).convert(subject, None, None)
    ledger, pool = chain.reader()
    claim = None
    with told():
        events = list(all_events(ledger))
        if is_address:
            result = explain_address(
                wanted,
                events,
                pool_id=pool.pool_id,
                node=ledger.node(wanted),
                member=ledger.member(pool.pool_id, wanted),
                credit_wei=ledger.credit_of(wanted),
            )
        else:
            result = _explained(wanted, events, ledger, chain, join)
            claim = _claim(ledger, wanted) if as_json else None
    if as_json:
        click.echo(json.dumps(plain(result) | ({"claim": claim} if claim else {}), indent=2))
        return
    click.echo(result.subject)
    for line in result.summary:
        click.echo(f"  {clean(line)}")
    if result.story:
        click.echo("What led to it:")
    for block, line in result.story:
        click.echo(f"  block {block:>6}  {clean(line)}")
    if result.grounds:
        click.echo("What the verdicts rest on:")
    for grounds in result.grounds:
        for line in evidence_told(grounds):
            click.echo(f"  {clean(line)}")


def _explained(docket_id: bytes, events: list[Any], ledger: Any, chain: ChainChoice, join: tuple[str, ...]) -> Any:
    from dataclasses import replace

    from node.explain import explain_docket, grounds_of

    grounds = grounds_of(docket_id, events)
    if grounds and join:
        import trio

        from node.evidence_fetch import fetched

        grounds = trio.run(fetched, chain.config(), join, grounds)
    else:
        how = "with the relays; add --join MULTIADDR to fetch and show it"
        grounds = tuple(replace(one, missing=how) for one in grounds)
    return explain_docket(
        docket_id, events, docket=ledger.docket(docket_id), case=ledger.case(docket_id), grounds=grounds
    )


def _claim(ledger: Any, submission_id: bytes) -> dict[str, Any] | None:
    """None where it is no submission."""
    import trio

    from node.claims import claim_of
    from node.evidence import claim_fields

    submission = ledger.submission(submission_id)
    return claim_fields(trio.run(claim_of, ledger, submission)) if submission else None


@click.command("events")
@click.option("--follow", is_flag=True, help="Go on with new ones until interrupted.")
@click.option("--from-block", type=click.IntRange(0), default=0, help="Start here instead of at the deployment.")
@with_chain
@json_option
def events(follow: bool, from_block: int, chain: ChainChoice, as_json: bool) -> None:
    """Print everything the contracts have logged, oldest first, in words; one JSON object a line with --json.

    \b
    Examples:
      intellect-node events --config run.toml
      intellect-node events --config run.toml --follow --json
    """
    from node.narrate import sentence

    ledger, _ = chain.reader()
    with told():
        for event in all_events(ledger, from_block=from_block, follow=follow):
            if as_json:
                click.echo(json.dumps({"event": type(event).__name__} | plain(event)))
            else:
                click.echo(f"block {event.block:>6}  {clean(sentence(event))}")


@click.command("slash")
@click.argument("node", type=ADDRESS)
@click.option("--reason", required=True, metavar="CODE", help="A short code in ASCII, at most 32 characters.")
@click.option("--evidence", type=FILE, required=True, help="File that shows it; its SHA-256 goes on the ledger.")
@with_chain
@with_wallet
@json_option
def slash(node: str, reason: str, evidence: Path, chain: ChainChoice, wallet: WalletChoice, as_json: bool) -> None:
    """Accuse NODE before the pool's validators, with evidence. Only if a quorum finds it guilty is stake burnt.

    The manager and the validators may accuse; nobody slashes alone. Keep the file: validators will ask for it.

    \b
    Example:
      intellect-node slash 0x52… --reason copied-work --evidence proof.json --config run.toml --wallet validator.json
    """
    import hashlib

    try:
        with evidence.open("rb") as file:
            raw = file.read(MAX_EVIDENCE_BYTES + 1)
    except OSError as error:
        raise UserError(f"cannot read {evidence}: {error.strerror}", fix="name a file with --evidence") from error
    if not 0 < len(raw) <= MAX_EVIDENCE_BYTES:
        raise UserError(f"{evidence} is empty or larger than {MAX_EVIDENCE_BYTES} bytes", fix="name a smaller file")
    with writing(chain, wallet) as (ledger, pool):
        docket_id = ledger.accuse(pool.pool_id, node, short_code(reason), hashlib.sha256(raw).digest())
    done(f"accusation {docket_id.hex()} is before the validators", as_json=as_json, docket_id=docket_id)


@click.command("appeal")
@click.argument("docket_id", metavar="SUBMISSION", type=HASH)
@with_chain
@with_wallet
@json_option
def appeal(docket_id: bytes, chain: ChainChoice, wallet: WalletChoice, as_json: bool) -> None:
    """Ask a wider panel to overturn a rejection, within the challenge window: by the node, its staker or a validator.

    \b
    Example:
      intellect-node appeal 9c01…e7 --config run.toml --wallet key.json
    """
    with writing(chain, wallet) as (ledger, _):
        appeal_id = ledger.appeal(docket_id)
    done(f"appeal {appeal_id.hex()} is before a wider panel", as_json=as_json, docket_id=appeal_id)


COMMANDS = (submissions, explain, events, slash, appeal)
