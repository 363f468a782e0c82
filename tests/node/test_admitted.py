"""Whom the directory admits follows from stake at work and from who may manage, on a real chain."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from ledger import Deployment, Ledger, deploy
from ledger.anvil import Anvil
from ledger.court import Answer
from ledger.types import Outcome, Role, Verdict
from node.admitted import AdmittedNodes
from tests.ledger.conftest import ETHER, TERMS, World, make_world


@pytest.fixture(scope="module")
def deployment(chain: Anvil) -> Deployment:
    return deploy(chain.url, chain.account(0))


@pytest.fixture
def world(chain: Anvil, deployment: Deployment) -> World:
    return make_world(chain, deployment, Ledger(chain.url, deployment, chain.account(0)), TERMS)


def test_who_has_staked_is_admitted_before_it_is_a_member_and_until_it_unbonds(world: World) -> None:
    nodes = AdmittedNodes(world.owner, world.pool_id)
    before = nodes.look()
    one, two = world.newcomer(), world.newcomer()
    assert nodes.look() - before == {one.account.address, two.account.address}
    one.unbond(one.account.address, 1)
    assert nodes.look() - before == {two.account.address}
    world.owner.mint(one.account.address, 1)
    one.add_stake(one.account.address, 1)
    assert nodes.look() - before == {one.account.address, two.account.address}
    assert AdmittedNodes(world.owner, world.pool_id).look() == nodes.look(), "one that starts now sees the same"


def test_what_a_verdict_burns_is_no_stake_any_more(world: World) -> None:
    worker, validator = world.member(Role.WORKER), world.member(Role.VALIDATOR)
    nodes, address = AdmittedNodes(world.owner, world.pool_id), worker.account.address
    submission_id = worker.submit(world.pool_id, 0, 0, [b"\5" * 32])
    file = validator.file(validator.recorded(submission_id))
    verdict = Verdict(outcome=Outcome.REJECTED, reason="proof-mismatch", evidence_hash=b"\5" * 32)
    validator.reveal(Answer(docket_id=submission_id, verdict=verdict, file=file))
    assert address in nodes.look(), "locked stake is not lost yet: an appeal may free it"
    world.wait(TERMS.challenge_s + 1)
    world.owner.execute(submission_id)
    assert address not in nodes.look()


def test_managers_need_no_stake_and_are_this_pools(world: World) -> None:
    nodes = AdmittedNodes(world.owner, world.pool_id)
    before, standby = nodes.look(), "0x" + "11" * 20
    assert world.owner.account.address in before
    other = world.owner.create_pool(1, world.owner.account.address, TERMS)
    world.owner.set_manager(other, standby, True)
    assert nodes.look() == before
    world.owner.set_manager(world.pool_id, standby, True)
    assert nodes.look() - before == {standby}
    world.owner.set_manager(world.pool_id, standby, False)
    assert nodes.look() == before


def test_little_stake_is_none_and_a_pool_that_asks_for_none_still_asks_for_a_registration(world: World) -> None:
    dear, free = (
        world.owner.create_pool(1, world.owner.account.address, terms)
        for terms in (replace(TERMS, min_stake_wei=11 * ETHER), replace(TERMS, min_stake_wei=0, slash_wei=0))
    )
    node = world.newcomer()
    assert node.account.address not in AdmittedNodes(world.owner, dear).look()
    listed = AdmittedNodes(world.owner, free)
    assert node.account.address in listed.look()
    node.unbond(node.account.address, 10 * ETHER)
    assert node.account.address not in listed.look()


def test_the_list_is_bounded(world: World, caplog: pytest.LogCaptureFixture) -> None:
    nodes = AdmittedNodes(world.owner, world.pool_id)
    known = len(nodes.look())
    bounded = AdmittedNodes(world.owner, world.pool_id, most=known + 1)
    node, second = world.newcomer(), world.newcomer().account.address
    first = node.account.address
    caplog.set_level(logging.WARNING)
    found = bounded.look()
    assert (len(found), first in found, second in found) == (known + 1, True, False)
    assert second in caplog.text
    # Who is on a full list stays on it, and is not said to be kept out, whatever happens to its stake.
    caplog.clear()
    world.owner.mint(first, ETHER)
    node.add_stake(first, ETHER)
    assert bounded.look() == found
    assert caplog.text == ""


def test_a_look_that_fails_midway_is_made_up_for_by_the_next(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = AdmittedNodes(world.owner, world.pool_id)
    node = world.newcomer().account.address
    with monkeypatch.context() as broken:
        broken.setattr(Ledger, "stakes_of", lambda *_: (_ for _ in ()).throw(OSError("the chain is away")))
        with pytest.raises(OSError, match="away"):
            nodes.look()
    assert node in nodes.look()
