// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.30;

import {IComputePools} from "../src/interfaces/IComputePools.sol";
import {ICourt} from "../src/interfaces/ICourt.sol";
import {IDomains} from "../src/interfaces/IDomains.sol";
import {IPools} from "../src/interfaces/IPools.sol";
import {Fixture} from "./Fixture.sol";
import {vm} from "./Vm.sol";

contract MembersTest is Fixture {
    IComputePools.Role private constant WORKER = IComputePools.Role.WORKER;
    IComputePools.Role private constant VALIDATOR = IComputePools.Role.VALIDATOR;

    function _refuseInvited(address node) private {
        IComputePools.Invite memory invite = _invite(node, WORKER);
        bytes memory signature = _sign(invite);
        _refused(IComputePools.AccountBlacklisted.selector, abi.encode(node));
        vm.prank(node);
        pools.join(invite, signature);
    }

    function _bar(address account) private {
        vm.prank(manager);
        pools.blacklist(poolId, account, "rude");
    }

    function test_leavingIsAlwaysPossible() public {
        _joinAll();
        vm.expectEmit(address(pools));
        emit IComputePools.MemberLeft(poolId, worker);
        vm.prank(worker);
        pools.leave(poolId);
        vm.assertFalse(pools.isActive(poolId, worker));
        vm.assertEq(pools.memberCount(poolId, WORKER), 0);
        vm.prank(worker);
        pools.leave(poolId); // no error, and nothing happens
        _join(worker, WORKER);
        _bar(worker);
        vm.prank(worker);
        pools.leave(poolId);
        vm.prank(owner);
        pools.endPool(poolId);
        vm.prank(judges[0]);
        pools.leave(poolId);
        vm.assertFalse(pools.isActive(poolId, judges[0]));
        vm.assertEq(pools.memberCount(poolId, VALIDATOR), 2);
    }

    function test_anEjectedNodeComesBackByANewInviteOnly() public {
        _join(worker, WORKER);
        vm.expectEmit(address(pools));
        emit IComputePools.MemberEjected(poolId, worker, manager, "missed-heartbeats");
        vm.prank(manager);
        pools.eject(poolId, worker, "missed-heartbeats");
        vm.assertFalse(pools.isActive(poolId, worker));
        vm.assertTrue(pools.barOf(poolId, worker) == IComputePools.Bar.NONE);
        vm.prank(manager);
        pools.eject(poolId, worker, "again"); // of one that is out: voids its invites
        vm.assertEq(pools.getMember(poolId, worker).epoch, 2);
        _join(worker, WORKER);
        vm.assertTrue(pools.isActive(poolId, worker));
    }

    function test_theLimitIsExact() public {
        IPools.Terms memory terms = _terms();
        terms.memberLimit = 2;
        vm.startPrank(owner);
        poolId = pools.createPool(domainId, manager, terms);
        pools.startPool(poolId);
        vm.stopPrank();
        _join(worker, WORKER);
        _newJudge();
        IComputePools.Invite memory invite = _invite(other, WORKER);
        bytes memory signature = _sign(invite);
        _refused(IComputePools.PoolFull.selector, abi.encode(poolId, 2));
        vm.prank(other);
        pools.join(invite, signature);
        vm.prank(worker);
        pools.leave(poolId);
        vm.prank(other);
        pools.join(invite, signature);
        vm.assertEq(pools.listMembers(poolId, 0, 10).length, 2);
        vm.assertEq(pools.listMembers(poolId, 1, 1).length, 1);
        vm.assertEq(pools.listMembers(poolId, 2, 1).length, 0);
    }

    function test_attack_aSpareInviteAfterBlacklistingAndMercy() public {
        IComputePools.Invite memory spare = _invite(worker, WORKER);
        bytes memory signature = _sign(spare);
        _bar(worker);
        _refused(IComputePools.InviteVoid.selector, abi.encode(spare.nonce, 1));
        vm.prank(worker);
        pools.join(spare, signature);
        vm.prank(manager);
        pools.unblacklist(poolId, worker);
        _refused(IComputePools.InviteVoid.selector, abi.encode(spare.nonce, 1));
        vm.prank(worker);
        pools.join(spare, signature);
    }

    function test_attack_blacklistedNodeOrStakerReturns() public {
        _join(worker, WORKER);
        vm.expectEmit(address(pools));
        emit IComputePools.Blacklisted(poolId, worker, IComputePools.Bar.BY_MANAGER, "rude");
        _bar(worker);
        vm.assertFalse(pools.isActive(poolId, worker));
        _refuseInvited(worker);
        _bar(_stakerOfKey(OTHER_KEY));
        _refuseInvited(other);
        vm.startPrank(manager);
        vm.expectEmit(address(pools));
        emit IComputePools.Unblacklisted(poolId, worker);
        pools.unblacklist(poolId, worker);
        pools.unblacklist(poolId, _stakerOfKey(OTHER_KEY));
        vm.stopPrank();
        _join(worker, WORKER);
        _join(other, WORKER);
    }

    function test_attack_anotherPoolOfABlacklistingDomain() public {
        _join(worker, WORKER);
        vm.startPrank(owner);
        vm.expectEmit(address(pools));
        emit IDomains.DomainBlacklisted(domainId, worker, "rude");
        pools.blacklistInDomain(domainId, worker, "rude");
        vm.stopPrank();
        vm.assertFalse(pools.isActive(poolId, worker));
        vm.startPrank(owner);
        poolId = pools.createPool(domainId, manager, _terms());
        pools.startPool(poolId);
        pools.blacklistInDomain(domainId, _stakerOfKey(OTHER_KEY), "rude");
        vm.stopPrank();
        _refuseInvited(worker);
        _refuseInvited(other);
        vm.startPrank(owner);
        vm.expectEmit(address(pools));
        emit IDomains.DomainUnblacklisted(domainId, worker);
        pools.unblacklistInDomain(domainId, worker);
        vm.stopPrank();
        _join(worker, WORKER);
    }

    function test_aBlacklistedStakersNodesAreOutAtOnceAndPurgedByAnyone() public {
        _join(worker, WORKER);
        _newNodeOf(0x3003, _stakerOfKey(WORKER_KEY), MIN_STAKE);
        _join(vm.addr(0x3003), WORKER);
        _refused(IComputePools.NotBlacklisted.selector, abi.encode(worker));
        pools.purge(poolId, worker);
        _bar(_stakerOfKey(WORKER_KEY));
        vm.assertFalse(pools.isActive(poolId, worker));
        vm.assertFalse(pools.isActive(poolId, vm.addr(0x3003)));
        _refused(IComputePools.NotActiveMember.selector, abi.encode(poolId, worker));
        vm.prank(worker);
        runs.submit(poolId, 0, 0, new bytes32[](1));
        vm.prank(stranger);
        pools.purge(poolId, worker);
        pools.purge(poolId, worker); // again does no harm
        pools.purge(poolId, vm.addr(0x3003));
        vm.assertEq(pools.memberCount(poolId, WORKER), 0);
        vm.assertEq(pools.listMembers(poolId, 0, 10).length, 0);
    }

    function test_purgeAfterTheNodeLeftDoesNotFail() public {
        _join(worker, WORKER);
        vm.prank(worker);
        pools.leave(poolId);
        vm.prank(owner);
        pools.blacklistInDomain(domainId, worker, "rude");
        pools.purge(poolId, worker);
        vm.assertEq(pools.memberCount(poolId, WORKER), 0);
    }

    function test_anotherRoleStartsANewTime() public {
        _join(worker, VALIDATOR);
        uint256 since = _now();
        _skip(100);
        vm.prank(worker);
        pools.leave(poolId);
        _join(worker, VALIDATOR);
        vm.assertEq(pools.getMember(poolId, worker).since, since);
        vm.prank(worker);
        pools.leave(poolId);
        _join(worker, WORKER);
        vm.assertEq(pools.getMember(poolId, worker).since, since + 100);
        vm.assertEq(pools.memberCount(poolId, VALIDATOR), 0);
        vm.assertEq(pools.memberCount(poolId, WORKER), 1);
        _skip(100);
        vm.prank(worker);
        pools.leave(poolId);
        _join(worker, VALIDATOR);
        vm.assertEq(pools.getMember(poolId, worker).since, since + 200);
    }

    function test_verdictsDoNotSoftenTheManagersOwnBar() public {
        _joinAll();
        bytes32 id = _opened();
        _bar(worker);
        _judge(id, ICourt.Outcome.REJECTED);
        vm.assertTrue(pools.barOf(poolId, worker) == IComputePools.Bar.BY_MANAGER);
        bytes32 appealId = _appealed(id);
        _judge(appealId, ICourt.Outcome.ACCEPTED);
        vm.assertTrue(pools.barOf(poolId, worker) == IComputePools.Bar.BY_MANAGER);
    }

    function test_anAcquittalLiftsTheVerdictsBar() public {
        _joinAll();
        bytes32 id = _convicted();
        vm.assertTrue(pools.barOf(poolId, worker) == IComputePools.Bar.BY_VERDICT);
        vm.assertFalse(pools.isActive(poolId, worker));
        bytes32 appealId = _appealed(id);
        _judge(appealId, ICourt.Outcome.ACCEPTED);
        vm.assertTrue(pools.barOf(poolId, worker) == IComputePools.Bar.NONE);
        _join(worker, WORKER);
    }

    function test_theManagersMercyOutlivesTheAcquittal() public {
        _joinAll();
        bytes32 id = _convicted();
        vm.prank(manager);
        pools.unblacklist(poolId, worker);
        bytes32 appealId = _appealed(id);
        _judge(appealId, ICourt.Outcome.ACCEPTED);
        vm.assertTrue(pools.barOf(poolId, worker) == IComputePools.Bar.NONE);
    }

    function test_membersNeedTheirRoleAndTheirStake() public {
        _join(worker, WORKER);
        _refused(IComputePools.WrongRole.selector, abi.encode(WORKER, VALIDATOR));
        pools.requireMember(poolId, worker, VALIDATOR);
        _refused(IComputePools.NotActiveMember.selector, abi.encode(poolId, other));
        pools.requireMember(poolId, other, WORKER);
    }
}
