"""Stake, members and runs on a real chain, and what the contracts refuse, seen from Python."""

from __future__ import annotations

import dataclasses
import sqlite3

import pytest
from eth_account import Account

from ledger import Ledger, sign_binding, sign_invite
from ledger.errors import (
    ChainUnavailable,
    DatabaseTooNew,
    InsufficientFunds,
    InvitesUsedUp,
    LedgerError,
    Reverted,
    WrongChain,
)
from ledger.invites import free_nonce
from ledger.rpc import Rpc
from ledger.types import UNBEGUN_LEASE_UNIX_S, Bar, Member, PoolState, Role
from tests.ledger.conftest import TERMS

ETHER = 10**18
FILE = bytes(range(32))
DEAD = "0x000000000000000000000000000000000000dEaD"


def test_local_ids_equal_the_contracts(world):
    address, deployment = world.owner.account.address, world.deployment
    ask = world.owner._read
    assert ask("ComputePools", "runId", world.pool_id) == world.owner.run_id(world.pool_id)
    expected = ask("RunLedger", "submissionIdOf", world.pool_id, 7, 2, address)
    assert world.owner.submission_id(world.pool_id, 7, 2, address) == expected
    assert ask("ComputePools", "salt") == ask("NodeRegistry", "salt") == deployment.salt


def test_a_pool_is_read_back_with_its_terms(world):
    pool = world.owner.pool(world.pool_id)
    assert pool.terms == world.owner.terms(world.pool_id) == TERMS
    assert (pool.owner, pool.manager, pool.epoch) == (*2 * [world.owner.account.address], 1)
    assert (pool.state, pool.joins_paused, pool.ended_unix_s) == (PoolState.ACTIVE, False, 0)
    assert pool.lease_expires_unix_s == UNBEGUN_LEASE_UNIX_S
    world.owner.take_lease(world.pool_id)
    pool = world.owner.pool(world.pool_id)
    assert 0 < pool.lease_expires_unix_s - world.owner.chain_time_s() <= TERMS.lease_s
    with pytest.raises(Reverted, match="UnknownPool"):
        world.owner.pool(10**6)


def test_a_blocks_hash_is_read_and_a_block_that_is_not_there_is_another_chain(world):
    number = world.owner.block_number
    child = world.owner._rpc.call("eth_getBlockByNumber", hex(number), False)
    assert world.owner.block_hash(number - 1).hex() == child["parentHash"].removeprefix("0x")
    with pytest.raises(WrongChain, match="length"):
        world.owner.block_hash(number + 10**6)


def test_a_staker_registers_a_node_that_agreed_once(world):
    staker, node = world.newcomer(), Account.create()
    world.owner.mint(staker.account.address, 5 * ETHER)
    binding = staker.new_binding(node.address, staker.account.address, 600)
    signature = sign_binding(binding, world.deployment, node)
    with pytest.raises(Reverted, match="BindingNotByNode"):
        staker.register(binding, sign_binding(binding, world.deployment, staker.account), ETHER)
    with pytest.raises(Reverted, match="NotStaker"):
        world.owner.register(binding, signature, ETHER)
    staker.register(binding, signature, 3 * ETHER)
    staker.add_stake(node.address, 2 * ETHER)
    found = staker.node(node.address)
    assert found.registered
    assert (found.staker, found.stake_wei, found.locked_wei) == (staker.account.address, 5 * ETHER, 0)
    assert staker.new_binding(node.address, staker.account.address, 600).nonce == 1
    with pytest.raises(Reverted, match="AlreadyRegistered"):
        staker.register(binding, signature, ETHER)
    assert not staker.node(DEAD).registered


@pytest.mark.parametrize(
    ("change", "error_name"), [({"expires_unix_s": 1}, "BindingExpired"), ({"nonce": 7}, "InvalidAccountNonce")]
)
def test_bad_bindings_are_refused_by_name(world, change, error_name):
    staker, node = world.newcomer(), Account.create()
    binding = dataclasses.replace(staker.new_binding(node.address, staker.account.address, 600), **change)
    with pytest.raises(Reverted) as caught:
        staker.register(binding, sign_binding(binding, world.deployment, node), 1)
    assert caught.value.error_name == error_name


def test_stake_comes_back_after_the_unbonding_time(world):
    node = world.member(Role.WORKER)
    address = node.account.address
    node.leave(world.pool_id)
    node.unbond(address, 10 * ETHER)
    assert (node.stake_of(address), node.node(address).unbonding_wei) == (0, 10 * ETHER)
    with pytest.raises(Reverted, match="Unbonding"):
        node.withdraw(address)
    world.wait(node.unbonding_s())
    node.withdraw(address)
    assert node.token_balance(address) == 10 * ETHER


def test_an_invite_is_used_up_by_joining(world):
    node = world.newcomer()
    invite = world.owner.new_invite(world.pool_id, node.account.address, Role.RELAY, 600)
    signature = sign_invite(invite, world.deployment, world.owner.account)
    node.join(invite, signature)
    member = world.owner.member(world.pool_id, node.account.address)
    assert (member.role, member.active, member.used, member.bar) == (Role.RELAY, True, 1, Bar.NONE)
    assert world.owner.members(world.pool_id) == (member,)
    assert world.owner.member_count(world.pool_id, Role.RELAY) == 1
    node.leave(world.pool_id)
    with pytest.raises(Reverted) as caught:
        node.join(invite, signature)
    assert (caught.value.error_name, caught.value.arguments) == ("InviteUsed", (0,))
    world.owner.cancel_invite(world.pool_id, node.account.address, 1)
    assert world.owner.new_invite(world.pool_id, node.account.address, Role.RELAY, 600).nonce == 2


def test_the_lowest_free_nonce_of_the_epoch_is_taken():
    member = Member(
        address=DEAD, role=Role.NONE, active=False, since_unix_s=0, epoch=3, used=0b1011, bar=Bar.NONE
    )  # fmt: skip
    assert free_nonce(member) == 3 * 256 + 2
    assert free_nonce(dataclasses.replace(member, used=0)) == 3 * 256
    assert free_nonce(dataclasses.replace(member, used=2**255 - 1)) == 3 * 256 + 255
    with pytest.raises(InvitesUsedUp, match=DEAD):
        free_nonce(dataclasses.replace(member, used=2**256 - 1))


def test_an_invite_for_another_deployment_is_refused(world):
    node = world.newcomer()
    invite = world.owner.new_invite(world.pool_id, node.account.address, Role.WORKER, 600)
    other = dataclasses.replace(world.deployment, salt=bytes(32))
    with pytest.raises(Reverted, match="InviteNotByManager"):
        node.join(invite, sign_invite(invite, other, world.owner.account))


@pytest.mark.parametrize(
    ("change", "error_name"),
    [
        ({"expires_unix_s": 1}, "InviteExpired"),
        ({"role": Role.NONE}, "InviteWrongRole"),
        ({"nonce": 256}, "InviteVoid"),
        ({"domain_id": 0}, "InviteWrongDomain"),
        ({"pool_id": 10**6}, "UnknownPool"),
        ({"node": DEAD}, "NotInvitedNode"),
    ],
)
def test_bad_invites_are_refused_by_name(world, change, error_name):
    node = world.newcomer()
    invite = world.owner.new_invite(world.pool_id, node.account.address, Role.WORKER, 600)
    invite = dataclasses.replace(invite, **change)
    with pytest.raises(Reverted) as caught:
        node.join(invite, sign_invite(invite, world.deployment, world.owner.account))
    assert caught.value.error_name == error_name


def test_eject_takes_no_stake_and_voids_open_invites(world):
    worker = world.member(Role.WORKER)
    address = worker.account.address
    old = world.owner.new_invite(world.pool_id, address, Role.WORKER, 600)
    world.owner.eject(world.pool_id, address, "silent")
    member = world.owner.member(world.pool_id, address)
    assert (member.active, member.epoch, member.bar) == (False, 1, Bar.NONE)
    assert world.owner.stake_of(address) == 10 * ETHER
    with pytest.raises(Reverted, match="InviteVoid"):
        worker.join(old, sign_invite(old, world.deployment, world.owner.account))
    world.invite(worker, Role.WORKER)
    assert world.owner.member(world.pool_id, address).active


def test_blacklists_of_pool_and_domain(world):
    worker, domain_id = world.member(Role.WORKER), world.owner.pool(world.pool_id).domain_id
    address = worker.account.address
    world.owner.blacklist(world.pool_id, address, "rude")
    assert world.owner.member(world.pool_id, address).bar is Bar.BY_MANAGER
    with pytest.raises(Reverted, match="AccountBlacklisted"):
        world.invite(worker, Role.WORKER)
    world.owner.unblacklist(world.pool_id, address)
    world.invite(worker, Role.WORKER)
    world.owner.blacklist_in_domain(domain_id, address, "rude")
    assert world.owner.is_blacklisted_in_domain(domain_id, address)
    assert not world.owner.member(world.pool_id, address).active, "although nobody has purged it yet"
    worker.purge(world.pool_id, address)
    world.owner.unblacklist_in_domain(domain_id, address)
    assert not world.owner.member(world.pool_id, address).active


def test_owner_and_manager_change(world):
    heir = world.newcomer()
    world.owner.offer_pool(world.pool_id, heir.account.address)
    assert world.owner.pool(world.pool_id).pending_owner == heir.account.address
    heir.accept_pool(world.pool_id)
    heir.set_manager(world.pool_id, heir.account.address, True)
    assert heir.may_manage(world.pool_id, heir.account.address)
    world.wait(TERMS.lease_s + 1)
    with pytest.raises(Reverted, match="LeaseHeld"):  # the first manager has not started yet
        heir.take_lease(world.pool_id)
    world.owner.take_lease(world.pool_id)
    with pytest.raises(Reverted, match="LeaseHeld"):
        heir.take_lease(world.pool_id)
    world.wait(TERMS.lease_s + 1)
    heir.take_lease(world.pool_id)
    pool = world.owner.pool(world.pool_id)
    assert (pool.owner, pool.manager, pool.epoch) == (heir.account.address, heir.account.address, 2)
    domain = world.owner.domain(pool.domain_id)
    assert domain.name == "maths"
    world.owner.offer_domain(pool.domain_id, heir.account.address)
    heir.accept_domain(pool.domain_id)
    heir.pause_joins(world.pool_id, True)
    assert world.owner.pool(world.pool_id).joins_paused
    heir.end_pool(world.pool_id)
    assert world.owner.pool(world.pool_id).state is PoolState.ENDED


def test_a_new_pool_takes_nobody_before_it_is_started(world):
    pool = world.owner.pool(world.pool_id)
    pool_id = world.owner.create_pool(pool.domain_id, pool.manager, TERMS)
    with pytest.raises(Reverted, match="WrongState"):
        dataclasses.replace(world, pool_id=pool_id).member(Role.WORKER)


def test_announcing_twice_is_no_error(world):
    owner, pool_id = world.owner, world.pool_id
    assert owner.latest_checkpoint(pool_id) is None
    assert owner.checkpoint(pool_id, 0) is None
    block = owner.announce_checkpoint(pool_id, 0, FILE)
    assert owner.announce_checkpoint(pool_id, 0, FILE) == block
    newest = owner.latest_checkpoint(pool_id)
    assert (newest.version, newest.manifest_hash, newest.block, newest.epoch) == (0, FILE, block, 1)
    with pytest.raises(Reverted, match=r"WrongVersion\(2, 1\)"):
        owner.announce_checkpoint(pool_id, 2, FILE)
    with pytest.raises(Reverted, match=r"WrongVersion\(0, 1\)"):
        owner.announce_checkpoint(pool_id, 0, bytes(31) + b"\1")


def test_no_chain_wrong_chain_wrong_salt(world, chain):
    with pytest.raises(ChainUnavailable, match=r"127\.0\.0\.1:1"):
        Ledger("http://127.0.0.1:1", world.deployment).check()
    with pytest.raises(WrongChain, match="chain id"):
        Ledger(chain.url, dataclasses.replace(world.deployment, chain_id=1)).check()
    with pytest.raises(WrongChain, match="salt"):
        Ledger(chain.url, dataclasses.replace(world.deployment, salt=bytes(32)), Account.create()).leave(1)
    nowhere = dataclasses.replace(world.deployment, pools=DEAD)
    with pytest.raises(WrongChain, match="code of ComputePools"):
        Ledger(chain.url, nowhere).member(1, world.owner.account.address)


def test_attack_a_key_in_the_url_is_never_shown(world):
    ledger = Ledger("http://user:s3cret@127.0.0.1:1/v3/s3cret?key=s3cret", world.deployment)
    with pytest.raises(ChainUnavailable) as caught:
        ledger.check()
    assert "http://127.0.0.1:1" in str(caught.value)
    assert "s3cret" not in str(caught.value)
    with pytest.raises(ChainUnavailable) as caught:
        Rpc("http://127.0.0.1:1/v3/s3 cret").call("eth_chainId")
    assert "s3 cret" not in str(caught.value)


def test_an_account_without_ether_is_told_so(world):
    poor = Ledger(world.chain.url, world.deployment, Account.create())
    with pytest.raises(InsufficientFunds, match=poor.account.address):
        poor.create_domain("dream")
    world.owner.transfer_eth(poor.account.address, ETHER)
    assert poor.create_domain("dream") > 0


def test_a_reader_cannot_write(world):
    with pytest.raises(LedgerError, match="without an account"):
        Ledger(world.chain.url, world.deployment).leave(1)


def test_chain_time_moves_without_blocks(world):
    now = world.owner.chain_time_s()
    assert now >= int(world.owner._rpc.call("eth_getBlockByNumber", "latest", False)["timestamp"], 16)


def test_a_database_of_a_newer_program_is_refused(world, tmp_path):
    path = tmp_path / "ledger.sqlite"
    world.owner.cursor(path, "a").close()
    database = sqlite3.connect(path)
    database.execute("PRAGMA user_version = 99")
    database.close()
    with pytest.raises(DatabaseTooNew, match=r"ledger\.sqlite has version 99"):
        world.owner.cursor(path, "a")
