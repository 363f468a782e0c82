"""Events in order, once committed never again, never skipped; cursors survive restarts."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from eth_utils import keccak

from ledger.abi import interface
from ledger.anvil import anvil, anvil_binary
from ledger.client import Ledger
from ledger.court import Answer
from ledger.cursor import REWIND_BLOCKS, EventCursor
from ledger.deployment import deploy
from ledger.errors import ChainBehind, ChainUnavailable, WrongChain
from ledger.events import (
    Blacklisted,
    CaseClosed,
    CaseOpened,
    CheckpointAnnounced,
    DocketOpened,
    Event,
    LeaseTaken,
    MemberEjected,
    MemberJoined,
    NodeRegistered,
    OutcomeReached,
    PoolCreated,
    PoolEvent,
    StakeAdded,
    StakeBurnt,
    StakeLocked,
    SubmissionRecorded,
    VerdictRevealed,
)
from ledger.logs import EVENTS, parse_log
from ledger.rpc import Rpc
from ledger.types import Bar, CaseState, Kind, Outcome, Role, Verdict
from tests.ledger.conftest import TERMS

FILE = b"\5" * 32
CONTRACTS = Path(__file__).resolve().parents[2] / "contracts"


@pytest.fixture
def cursor(world, tmp_path):
    cursor = world.owner.cursor(tmp_path / "cursor.sqlite", "test")
    cursor.commit(world.owner.block_number)
    return cursor


def test_a_run_is_read_back_as_it_happened(world, cursor):
    worker, validator = world.member(Role.WORKER), world.member(Role.VALIDATOR)
    pool_id, address = world.owner.create_pool(1, world.owner.account.address, TERMS), worker.account.address
    world.owner.announce_checkpoint(world.pool_id, 0, FILE)
    submission_id = worker.submit(world.pool_id, 5, 0, [FILE, FILE])
    file = validator.file(validator.recorded(submission_id))
    verdict = Verdict(outcome=Outcome.REJECTED, reason="proof-mismatch", evidence_hash=FILE)
    validator.reveal(Answer(docket_id=submission_id, verdict=verdict, file=file))
    world.wait(TERMS.challenge_s + 1)
    world.owner.execute(submission_id)
    events = world.owner.events(cursor)
    assert events == sorted(events, key=lambda event: (event.block, event.log_index))
    seen = {type(event): event for event in events}
    assert seen[NodeRegistered].staker == validator.account.address
    assert seen[MemberJoined].role is Role.VALIDATOR
    assert (seen[PoolCreated].pool_id, seen[PoolCreated].terms) == (pool_id, TERMS)
    assert seen[LeaseTaken].manager == world.owner.account.address
    assert (seen[CheckpointAnnounced].manifest_hash, seen[CheckpointAnnounced].epoch) == (FILE, 1)
    assert (seen[SubmissionRecorded].step, seen[SubmissionRecorded].counter) == (5, 1)
    assert (seen[DocketOpened].kind, seen[DocketOpened].node) == (Kind.SUBMISSION, address)
    revealed, outcome = seen[VerdictRevealed], seen[OutcomeReached]
    assert (revealed.validator, revealed.outcome, revealed.reason) == (
        validator.account.address,
        Outcome.REJECTED,
        "proof-mismatch",
    )
    assert (outcome.docket_id, outcome.node, outcome.kind) == (submission_id, address, Kind.SUBMISSION)
    assert (outcome.outcome, outcome.reason, outcome.evidence_hash) == (Outcome.REJECTED, "proof-mismatch", FILE)
    assert seen[StakeLocked].locked_wei == seen[CaseOpened].amount_wei == TERMS.slash_wei
    assert (seen[MemberEjected].by, seen[MemberEjected].reason) == (world.deployment.court, "proof-mismatch")
    assert (seen[Blacklisted].account, seen[Blacklisted].bar) == (address, Bar.BY_VERDICT)
    assert (seen[StakeBurnt].amount_wei, seen[StakeBurnt].stake_wei) == (4 * 10**18, 6 * 10**18)
    assert (seen[CaseClosed].state, seen[CaseClosed].burnt_wei) == (CaseState.BURNT, 4 * 10**18)
    assert all(event.pool_id for event in events if isinstance(event, PoolEvent))


def test_every_event_of_the_contracts_has_a_class_with_its_fields():
    declared = {
        entry.name: len(entry.names)
        for name in ("NodeRegistry", "ComputePools", "Treasury", "RunLedger", "Court")
        for entry in interface(name).events.values()
    }
    for ignored in ("EIP712DomainChanged", "CallersWired"):
        declared.pop(ignored)
    own = len(Event.__dataclass_fields__)
    assert declared == {name: len(kind.__dataclass_fields__) - own for name, kind in EVENTS.items()}


def test_uncommitted_events_come_again_and_committed_ones_never(world, cursor, tmp_path):
    world.owner.announce_checkpoint(world.pool_id, 0, FILE)
    first = world.owner.events(cursor)
    cursor.close()
    reopened = world.owner.cursor(tmp_path / "cursor.sqlite", "test")
    assert world.owner.events(reopened) == first
    reopened.commit(first[-1].block)
    assert world.owner.events(reopened) == []
    world.owner.announce_checkpoint(world.pool_id, 1, FILE)
    assert [event.version for event in world.owner.events(reopened)] == [1]


def test_an_empty_stretch_is_committed_and_a_cursor_never_goes_back(world, cursor):
    world.owner.transfer_eth(world.owner.account.address, 1)
    assert world.owner.events(cursor) == []
    assert cursor.next_block == world.owner.block_number + 1
    cursor.commit(0)
    assert cursor.next_block == world.owner.block_number + 1


def test_cursors_are_apart_by_name_and_by_deployment(world, tmp_path):
    path = tmp_path / "cursor.sqlite"
    one, two = world.owner.cursor(path, "one"), world.owner.cursor(path, "two")
    other = EventCursor(path, "one", scope="another salt")
    one.commit(900)
    assert (two.next_block, other.next_block) == (world.deployment.block, 0)


def test_an_endpoint_that_lags_behind_is_waited_for(world, cursor):
    handled = world.owner.block_number + 1
    cursor.commit(handled)
    with pytest.raises(ChainBehind, match=f"where block {handled} was handled already"):
        world.owner.events(cursor)
    assert issubclass(ChainBehind, ChainUnavailable), "so whoever asks asks again"
    world.wait(1)
    assert world.owner.events(cursor) == []
    world.owner.announce_checkpoint(world.pool_id, 0, FILE)
    assert [type(event) for event in world.owner.events(cursor)] == [CheckpointAnnounced]


def test_one_of_several_endpoints_that_does_not_know_the_last_block_hides_no_event(world, cursor, monkeypatch):
    world.owner.announce_checkpoint(world.pool_id, 0, FILE)
    before, ask = cursor.position, Rpc.call_together

    def one_that_lags(rpc, *calls):
        return [None, []] if calls[0][0] == "eth_getBlockByNumber" else ask(rpc, *calls)

    with monkeypatch.context() as lagging:
        lagging.setattr(Rpc, "call_together", one_that_lags)
        with pytest.raises(ChainBehind):
            world.owner.events(cursor)
    assert cursor.position == before
    assert [type(event) for event in world.owner.events(cursor)] == [CheckpointAnnounced]
    cursor.commit(world.owner.block_number)
    world.wait(1)
    with monkeypatch.context() as lagging:  # or the last one that was handled
        lagging.setattr(Ledger, "_hash_of", lambda *_: None)
        with pytest.raises(ChainBehind):
            world.owner.events(cursor)


def test_a_reorganised_chain_is_read_again_from_before_the_fork(world, cursor, caplog):
    rpc, node = Rpc(world.chain.url), world.newcomer()
    address = node.account.address
    cursor.commit(world.owner.block_number)
    start = cursor.next_block
    for _ in range(REWIND_BLOCKS):
        world.wait(1)
    fork = rpc.call("evm_snapshot")
    node.unbond(address, 1)
    (orphan,) = node.events(cursor)
    cursor.commit(orphan.block)
    rpc.call("evm_revert", fork)
    node = Ledger(world.chain.url, world.deployment, node.account)  # which does not send again what was taken back
    node.unbond(address, 2)
    assert node.block_number == orphan.block
    assert node.events(cursor) == [], "nothing is new"
    node.unbond(address, 3)
    events = node.events(cursor)
    assert [event.amount_wei for event in events] == [2, 3]
    assert "reorganised" in caplog.text
    assert cursor.next_block == orphan.block + 1 - REWIND_BLOCKS > start
    cursor.commit(events[-1].block)
    world.wait(1)
    assert node.events(cursor) == [], "and once only"


def test_a_cursor_goes_back_no_further_than_its_start_and_forgets_the_block(tmp_path):
    cursor = EventCursor(tmp_path / "cursor.sqlite", "test", start_block=5)
    cursor.read(7, b"7" * 32)
    cursor.commit(7)
    assert EventCursor(tmp_path / "cursor.sqlite", "test").position == (8, b"7" * 32)
    assert cursor.rewind() == 5
    assert cursor.position == (5, None)
    cursor.read(9, b"9" * 32)
    cursor.commit(8)
    assert cursor.position == (9, None), "the hash is of the very block that was handled"


def test_events_can_be_asked_for_by_kind(world, cursor):
    world.owner.announce_checkpoint(world.pool_id, 0, FILE)
    node = world.newcomer().account.address
    events = world.owner.events(cursor, NodeRegistered, StakeAdded)
    assert [(type(event), event.node) for event in events] == [(NodeRegistered, node), (StakeAdded, node)]


def test_foreign_logs_are_ignored():
    log = {"topics": [f"0x{keccak(text='Noise()').hex()}"], "data": "0x", "blockNumber": "0x1", "logIndex": "0x0"}
    assert parse_log(log) is None
    assert parse_log({**log, "topics": []}) is None


def test_a_restarted_chain_is_recognised(chain, tmp_path):
    with anvil(anvil_binary(CONTRACTS)) as second:
        deployment = deploy(second.url, second.account(0))
        again = deploy(second.url, second.account(0))
        assert deployment.salt != again.salt
        mixed = dataclasses.replace(deployment, salt=again.salt)
        with pytest.raises(WrongChain, match="salt"):
            Ledger(second.url, mixed).check()
        handled = Ledger(second.url, again).cursor(None, "test")
        handled.commit(Ledger(second.url, again).block_number + 10)
        with pytest.raises(WrongChain, match="salt"):  # not one that only lags behind
            Ledger(second.url, mixed).events(handled)
        assert second.url != chain.url
