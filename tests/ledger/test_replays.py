"""What was said elsewhere is refused here: invites, bindings, submissions and verdicts of another chain, contract,
deployment, pool, node or docket. Heartbeats, orders and records have theirs in tests/node and tests/dht.
"""

from __future__ import annotations

import dataclasses

import pytest
from eth_account import Account

from ledger import sign_binding, sign_invite
from ledger.commitments import commitment_of, commitment_salt, verdict_tuple
from ledger.court import Answer
from ledger.errors import Reverted
from ledger.types import Outcome, Role, Verdict
from tests.ledger.conftest import ETHER, TERMS, World, make_world

FILE, OTHER = b"\5" * 32, "0x" + "2" * 40
ACCEPTED = Verdict(outcome=Outcome.ACCEPTED, units=7, evidence_hash=FILE)


def refusal(call: object, *arguments: object) -> str:
    """The name of the error with which the contract refuses."""
    with pytest.raises(Reverted) as caught:
        call(*arguments)  # type: ignore[operator]
    return caught.value.error_name


ELSEWHERE = [{"chain_id": 1}, {"pools": OTHER, "registry": OTHER}, {"salt": b"t" * 32}]


@pytest.mark.parametrize("change", ELSEWHERE, ids=["chain", "contract", "deployment"])
def test_an_invite_from_elsewhere(world: World, change: dict) -> None:
    node = world.newcomer()
    invite = world.owner.new_invite(world.pool_id, node.account.address, Role.WORKER, 600)
    signed = sign_invite(invite, dataclasses.replace(world.deployment, **change), world.owner.account)
    assert refusal(node.join, invite, signed) == "InviteNotByManager"


def test_an_invite_of_another_pool_node_or_manager(world: World) -> None:
    sibling = make_world(world.chain, world.deployment, world.owner, TERMS)
    node, thief = world.newcomer(), world.newcomer()
    address, sign = node.account.address, lambda invite, by: sign_invite(invite, world.deployment, by)
    theirs = world.owner.new_invite(sibling.pool_id, address, Role.WORKER, 600)
    here = world.owner.new_invite(world.pool_id, address, Role.WORKER, 600)
    assert refusal(node.join, here, sign(theirs, world.owner.account)) == "InviteNotByManager"
    moved = dataclasses.replace(theirs, pool_id=world.pool_id)
    assert refusal(node.join, moved, sign(theirs, world.owner.account)) == "InviteWrongDomain"
    assert refusal(thief.join, here, sign(here, world.owner.account)) == "NotInvitedNode"
    stolen = dataclasses.replace(here, node=thief.account.address)
    assert refusal(thief.join, stolen, sign(here, world.owner.account)) == "InviteNotByManager"
    assert refusal(node.join, here, sign(here, thief.account)) == "InviteNotByManager"
    node.join(here, sign(here, world.owner.account))
    node.leave(world.pool_id)
    assert refusal(node.join, here, sign(here, world.owner.account)) == "InviteUsed"


@pytest.mark.parametrize("change", ELSEWHERE, ids=["chain", "contract", "deployment"])
def test_a_binding_from_elsewhere(world: World, change: dict) -> None:
    staker, node = world.newcomer(), Account.create()
    binding = staker.new_binding(node.address, staker.account.address, 600)
    signed = sign_binding(binding, dataclasses.replace(world.deployment, **change), node)
    assert refusal(staker.register, binding, signed, ETHER) == "BindingNotByNode"


def test_a_binding_for_another_staker_or_node(world: World) -> None:
    staker, thief, node = world.newcomer(), world.newcomer(), Account.create()
    binding = staker.new_binding(node.address, staker.account.address, 600)
    signed = sign_binding(binding, world.deployment, node)
    assert refusal(thief.register, binding, signed, ETHER) == "NotStaker"
    stolen = dataclasses.replace(binding, staker=thief.account.address)
    assert refusal(thief.register, stolen, signed, ETHER) == "BindingNotByNode"
    other = dataclasses.replace(binding, node=Account.create().address)
    assert refusal(staker.register, other, signed, ETHER) == "BindingNotByNode"


def test_a_submission_of_another_pool_node_step_or_counter(world: World) -> None:
    worker, copier = world.member(Role.WORKER), world.member(Role.WORKER)
    sibling = make_world(world.chain, world.deployment, world.owner, TERMS)
    file = worker.file(worker.recorded(worker.submit(world.pool_id, 3, 0, [FILE])))
    assert refusal(worker.submit, sibling.pool_id, 3, 0, [FILE]) == "NotActiveMember"
    for change in ({"pool_id": sibling.pool_id}, {"node": copier.account.address}, {"step": 4}, {"counter": 1},
                   {"file_hash": b"\6" * 32}):  # fmt: skip
        assert refusal(copier.open, dataclasses.replace(file, **change)) == "NotSubmitted", change
    # Who copies the hash has work of its own with it, and hinders nobody.
    copied = copier.submit(world.pool_id, 3, 0, [FILE])
    assert copied != worker.submission_id(world.pool_id, 3, 0, worker.account.address)
    copier.open(file)


def test_a_verdict_of_another_docket_validator_or_deployment(chain, deployment, owner) -> None:
    world = make_world(chain, deployment, owner, dataclasses.replace(TERMS, quorum=2, panel=2))
    worker, one, two = (world.member(role) for role in (Role.WORKER, Role.VALIDATOR, Role.VALIDATOR))
    ids = [worker.submit(world.pool_id, 0, counter, [FILE]) for counter in (0, 1)]
    for docket_id in ids:
        one.open(one.file(one.recorded(docket_id)))
    first, second = (Answer(docket_id=docket_id, verdict=ACCEPTED) for docket_id in ids)
    # Copied from another validator, from another docket, or made for another deployment: none can be revealed here.
    salts = [commitment_salt(docket_id, deployment, one.account) for docket_id in ids]
    elsewhere = commitment_salt(ids[0], dataclasses.replace(deployment, salt=b"t" * 32), one.account)
    two._write("Court", "commit", ids[0], commitment_of(ids[0], one.account.address, ACCEPTED, salts[0]))
    one._write("Court", "commit", ids[1], commitment_of(ids[0], one.account.address, ACCEPTED, salts[0]))
    one._write("Court", "commit", ids[0], commitment_of(ids[0], one.account.address, ACCEPTED, elsewhere))
    two.commit(second)
    assert refusal(two.reveal, first) == "WrongReveal"
    assert refusal(two._write, "Court", "reveal", ids[0], verdict_tuple(ACCEPTED), salts[0]) == "WrongReveal"
    assert refusal(one.reveal, second) == "WrongReveal"
    assert refusal(one._write, "Court", "reveal", ids[1], verdict_tuple(ACCEPTED), salts[0]) == "WrongReveal"
    assert refusal(one.reveal, first) == "WrongReveal"
    two.reveal(second)
    assert refusal(two.reveal, second) == "AlreadyRevealed"
    assert all(one.docket(docket_id).outcome is Outcome.PENDING for docket_id in ids)
