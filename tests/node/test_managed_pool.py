"""Whom the manager lets in by itself, on a real chain."""

from __future__ import annotations

import dataclasses
import logging

import pytest
from eth_account import Account

from dht.records import NodeRecord
from ledger import Deployment, Ledger, deploy, sign_binding
from ledger.anvil import Anvil
from ledger.court import Answer
from ledger.types import Outcome, Role, Verdict
from node.membership import ManagedPool
from tests.ledger.conftest import ETHER, TERMS, World, make_world


@pytest.fixture(scope="module")
def deployment(chain: Anvil) -> Deployment:
    return deploy(chain.url, chain.account(0))


@pytest.fixture
def world(chain: Anvil, deployment: Deployment) -> World:
    return make_world(chain, deployment, Ledger(chain.url, deployment, chain.account(0)), TERMS)


def pool(world: World, pool_id: int, *validators: str) -> ManagedPool:
    return ManagedPool(
        world.owner, None, world.owner.account, None, pool_id=pool_id, validators=frozenset(validators)  # type: ignore[arg-type]
    )  # fmt: skip


def record(address: str, *roles: str) -> NodeRecord:
    return NodeRecord(address=address, peer_id="peer", roles=roles, multiaddrs=(), bulk_url="")


def sibling(world: World) -> int:
    """Another pool of the same domain."""
    made = world.owner.create_pool(world.owner.pool(world.pool_id).domain_id, world.owner.account.address, TERMS)
    world.owner.start_pool(made)
    return made


async def test_stake_role_and_for_validators_the_list(world: World) -> None:
    node = world.newcomer().account.address
    wanting = pool(world, world.pool_id)
    assert await wanting.wants(record(node, "worker"))
    assert await wanting.wants(record(node, "relay"))
    assert not await wanting.wants(record(node, "trainer"))
    assert not await wanting.wants(record(node))
    assert not await wanting.wants(record(node, "validator")), "validators are named by the trainer's owner"
    assert await pool(world, world.pool_id, node).wants(record(node, "validator"))
    assert not await wanting.wants(record(Account.create().address, "worker")), "nothing at stake"


async def test_attack_a_blacklisted_account_comes_in_by_another_pool_of_the_domain(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    other, wanting = sibling(world), pool(world, world.pool_id)
    worker = world.newcomer()
    node = worker.account.address
    assert await wanting.wants(record(node, "worker"))
    world.owner.blacklist(other, node, "cheat")
    for _ in range(2):
        assert not await wanting.wants(record(node, "worker"))
    (said,) = [line for line in caplog.messages if node in line]
    assert f"barred in pool {other} of domain" in said, "once, and why"
    world.owner.unblacklist(other, node)
    assert await wanting.wants(record(node, "worker"))
    # A pool that was made later counts as well, and so does the domain.
    later = sibling(world)
    world.owner.blacklist(later, node, "cheat")
    assert not await wanting.wants(record(node, "worker"))
    world.owner.unblacklist(later, node)
    domain_id = world.owner.pool(other).domain_id
    world.owner.blacklist_in_domain(domain_id, node, "cheat")
    assert not await wanting.wants(record(node, "worker"))
    world.owner.unblacklist_in_domain(domain_id, node)
    assert await wanting.wants(record(node, "worker"))
    # Another domain's bars say nothing here, and a person may still let it in.
    foreign = make_world(world.chain, world.deployment, world.owner, TERMS)
    world.owner.blacklist(foreign.pool_id, node, "cheat")
    assert await wanting.wants(record(node, "worker"))
    world.owner.blacklist(other, node, "cheat")
    world.invite(worker, Role.WORKER)
    assert world.owner.member(world.pool_id, node).active


async def test_attack_a_blacklisted_staker_sends_another_of_its_nodes(world: World) -> None:
    other, wanting, staker, node = sibling(world), pool(world, world.pool_id), world.newcomer(), Account.create()
    world.owner.mint(staker.account.address, 10 * ETHER)
    binding = staker.new_binding(node.address, staker.account.address, 600)
    staker.register(binding, sign_binding(binding, world.deployment, node), 10 * ETHER)
    assert await wanting.wants(record(node.address, "worker"))
    world.owner.blacklist(other, staker.account.address, "cheat")
    assert not await wanting.wants(record(node.address, "worker"))


async def test_stake_under_a_case_does_not_count(world: World) -> None:
    judged = dataclasses.replace(TERMS, slash_wei=TERMS.min_stake_wei)
    court = make_world(world.chain, world.deployment, world.owner, judged)
    worker = court.member(Role.WORKER)
    assert await pool(world, world.pool_id).wants(record(worker.account.address, "worker"))
    validator = court.member(Role.VALIDATOR)
    docket_id = court.owner.accuse(court.pool_id, worker.account.address, "abuse", bytes(32))

    guilty = Verdict(outcome=Outcome.REJECTED, reason="abuse", evidence_hash=bytes(32))
    validator.reveal(Answer(docket_id=docket_id, verdict=guilty))
    assert not await pool(world, world.pool_id).wants(record(worker.account.address, "worker"))
