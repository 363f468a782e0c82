"""The protocol's sentence on a real chain, and what the contracts refuse, seen from Python."""

from __future__ import annotations

import dataclasses

import pytest
from eth_account import Account

from ledger import Ledger, sign_invite
from ledger.errors import ChainUnavailable, InsufficientFunds, LedgerError, Reverted, WrongChain
from ledger.types import Outcome, Role

ETHER = 10**18
FILE = bytes(range(32))


def test_a_worker_is_credited_and_a_cheat_is_slashed_and_ejected(world):
    owner, pool_id = world.owner, world.pool_id
    honest, cheat, validator = (world.member(role) for role in (Role.WORKER, Role.WORKER, Role.VALIDATOR))
    assert owner.latest_checkpoint(pool_id) is None
    assert owner.checkpoint(pool_id, 0) is None
    owner.announce_checkpoint(pool_id, 0, FILE)
    assert owner.latest_checkpoint(pool_id).manifest_hash == FILE
    good, bad = honest.submit(pool_id, 3, 1, FILE), cheat.submit(pool_id, 3, 1, FILE)
    assert good != bad
    supply = owner.token_supply()
    validator.give_verdict(good, Outcome.ACCEPTED, "ok", FILE)
    validator.give_verdict(bad, Outcome.REJECTED, "proof-mismatch", FILE)
    assert owner.submission(good).outcome is Outcome.ACCEPTED
    assert (owner.submission(bad).step, owner.submission(bad).counter) == (3, 1)
    assert owner.stake_of(honest.account.address) == 10 * ETHER
    assert owner.stake_of(cheat.account.address) == 6 * ETHER
    assert owner.token_supply() == supply - 4 * ETHER
    assert owner.member(pool_id, cheat.account.address).ejected
    assert {m.address for m in owner.members(pool_id)} == {honest.account.address, validator.account.address}
    with pytest.raises(Reverted, match="NotActiveMember"):
        cheat.submit(pool_id, 4, 0, FILE)
    cheat.unstake(6 * ETHER)
    assert owner.token_balance(cheat.account.address) == 6 * ETHER


def test_local_ids_equal_the_contracts(world):
    address, deployment = world.owner.account.address, world.deployment
    ask = world.owner._read
    assert ask("ComputePools", "runId", world.pool_id)[0] == world.owner.run_id(world.pool_id)
    expected = ask("RunLedger", "submissionIdOf", world.pool_id, 7, 2, address)[0]
    assert world.owner.submission_id(world.pool_id, 7, 2, address) == expected
    assert ask("ComputePools", "salt")[0] == deployment.salt


def test_an_invite_is_used_up_by_joining(world):
    node = world.newcomer()
    invite = world.owner.new_invite(world.pool_id, node.account.address, Role.RELAY, 600)
    signature = sign_invite(invite, world.deployment, world.owner.account)
    node.join(invite, signature)
    assert world.owner.member(world.pool_id, node.account.address).role is Role.RELAY
    node.leave(world.pool_id)
    with pytest.raises(Reverted) as caught:
        node.join(invite, signature)
    assert (caught.value.error_name, caught.value.arguments) == ("InviteUsed", (0, 1))


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
        ({"nonce": 5}, "InviteUsed"),
        ({"domain_id": 0}, "InviteWrongDomain"),
        ({"pool_id": 10**6}, "UnknownPool"),
        ({"node": "0x000000000000000000000000000000000000dEaD"}, "NotInvitedNode"),
    ],
)
def test_bad_invites_are_refused_by_name(world, change, error_name):
    node = world.newcomer()
    invite = world.owner.new_invite(world.pool_id, node.account.address, Role.WORKER, 600)
    invite = dataclasses.replace(invite, **change)
    with pytest.raises(Reverted) as caught:
        node.join(invite, sign_invite(invite, world.deployment, world.owner.account))
    assert caught.value.error_name == error_name


def test_repeating_a_finished_write_is_no_error(world):
    worker = world.member(Role.WORKER)
    first = worker.submit(world.pool_id, 0, 0, FILE)
    assert worker.submit(world.pool_id, 0, 0, FILE) == first
    with pytest.raises(Reverted, match="AlreadySubmitted"):
        worker.submit(world.pool_id, 0, 0, bytes(31) + b"\1")
    block = world.owner.announce_checkpoint(world.pool_id, 0, FILE)
    assert world.owner.announce_checkpoint(world.pool_id, 0, FILE) == block
    with pytest.raises(Reverted, match=r"WrongVersion\(2, 1\)"):
        world.owner.announce_checkpoint(world.pool_id, 2, FILE)


def test_owner_and_manager_change(world):
    heir = world.newcomer()
    world.owner.offer_pool(world.pool_id, heir.account.address)
    assert world.owner.pool(world.pool_id).pending_owner == heir.account.address
    heir.accept_pool(world.pool_id)
    heir.set_manager(world.pool_id, heir.account.address)
    pool = world.owner.pool(world.pool_id)
    assert pool.owner == pool.manager == heir.account.address
    assert world.owner.domain(pool.domain_id).name == "maths"


def test_eject_by_the_manager_takes_no_stake(world):
    worker = world.member(Role.WORKER)
    world.owner.eject(world.pool_id, worker.account.address, "silent")
    member = world.owner.member(world.pool_id, worker.account.address)
    assert member.ejected
    assert not member.active
    assert world.owner.stake_of(worker.account.address) == 10 * ETHER


def test_no_chain_wrong_chain_wrong_salt(world, chain):
    with pytest.raises(ChainUnavailable, match=r"127\.0\.0\.1:1"):
        Ledger("http://127.0.0.1:1", world.deployment).check()
    with pytest.raises(WrongChain, match="chain id"):
        Ledger(chain.url, dataclasses.replace(world.deployment, chain_id=1)).check()
    with pytest.raises(WrongChain, match="salt"):
        Ledger(chain.url, dataclasses.replace(world.deployment, salt=bytes(32)), Account.create()).leave(1)
    nowhere = dataclasses.replace(world.deployment, pools="0x000000000000000000000000000000000000dEaD")
    with pytest.raises(WrongChain, match="code of ComputePools"):
        Ledger(chain.url, nowhere).member(1, world.owner.account.address)


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
