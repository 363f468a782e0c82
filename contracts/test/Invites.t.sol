// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.30;

import {IComputePools} from "../src/interfaces/IComputePools.sol";
import {INodeRegistry} from "../src/interfaces/INodeRegistry.sol";
import {Fixture} from "./Fixture.sol";
import {vm} from "./Vm.sol";

contract InvitesTest is Fixture {
    IComputePools.Role private constant WORKER = IComputePools.Role.WORKER;

    function _refuseJoin(IComputePools.Invite memory invite, bytes memory signature, bytes memory why) private {
        vm.expectRevert(why);
        vm.prank(worker);
        pools.join(invite, signature);
        vm.assertFalse(pools.getMember(poolId, worker).active);
    }

    function test_invitedNodeJoins() public {
        _join(worker, WORKER);
        IComputePools.Member memory member = pools.getMember(poolId, worker);
        vm.assertTrue(member.active && !member.ejected && member.role == WORKER);
        vm.assertEq(pools.getPool(poolId).memberCount, 1);
        vm.assertEq(pools.listMembers(poolId, 0, 10)[0], worker);
        vm.assertEq(registry.getNode(worker).holds, 1);
    }

    function test_attack_replayedInvite() public {
        IComputePools.Invite memory invite = _invite(worker, WORKER);
        bytes memory signature = _sign(invite);
        vm.startPrank(worker);
        pools.join(invite, signature);
        pools.leave(poolId);
        vm.stopPrank();
        _refuseJoin(invite, signature, abi.encodeWithSelector(IComputePools.InviteUsed.selector, 0, 1));
    }

    function test_attack_spareInviteAfterEjection() public {
        _join(worker, WORKER);
        IComputePools.Invite memory spare = _invite(worker, WORKER);
        bytes memory signature = _sign(spare);
        vm.prank(manager);
        pools.eject(poolId, worker, "rude");
        vm.assertTrue(pools.getMember(poolId, worker).ejected);
        _refuseJoin(spare, signature, abi.encodeWithSelector(IComputePools.InviteUsed.selector, 1, 2));
        _join(worker, WORKER);
        vm.assertFalse(pools.getMember(poolId, worker).ejected);
    }

    function test_attack_expiredInvite() public {
        IComputePools.Invite memory invite = _invite(worker, WORKER);
        bytes memory signature = _sign(invite);
        vm.warp(invite.expires + 1);
        bytes memory why =
            abi.encodeWithSelector(IComputePools.InviteExpired.selector, invite.expires, invite.expires + 1);
        _refuseJoin(invite, signature, why);
    }

    function test_inviteHoldsInItsLastSecond() public {
        IComputePools.Invite memory invite = _invite(worker, WORKER);
        bytes memory signature = _sign(invite);
        vm.warp(invite.expires);
        vm.prank(worker);
        pools.join(invite, signature);
    }

    function test_attack_otherPoolsInvite() public {
        vm.prank(owner);
        uint256 second = pools.createPool(domainId, vm.addr(2), MIN_STAKE, SLASH);
        IComputePools.Invite memory invite = _invite(worker, WORKER);
        bytes memory signature = _sign(invite);
        invite.poolId = second;
        bytes memory why = abi.encodeWithSelector(IComputePools.InviteNotByManager.selector, vm.addr(2));
        _refuseJoin(invite, signature, why);
    }

    function test_attack_otherDomainsInvite() public {
        IComputePools.Invite memory invite = _invite(worker, WORKER);
        invite.domainId = 7;
        bytes memory why = abi.encodeWithSelector(IComputePools.InviteWrongDomain.selector, 7, domainId);
        _refuseJoin(invite, _sign(invite), why);
    }

    function test_attack_anotherDeploymentsSalt() public {
        IComputePools.Invite memory invite = _invite(worker, WORKER);
        invite.salt = keccak256("another deployment");
        bytes memory signature = _sign(invite);
        bytes memory why =
            abi.encodeWithSelector(IComputePools.InviteWrongDeployment.selector, invite.salt, SALT);
        _refuseJoin(invite, signature, why);
        invite.salt = SALT; // the signature is then over other data
        _refuseJoin(invite, signature, abi.encodeWithSelector(IComputePools.InviteNotByManager.selector, manager));
    }

    function test_attack_stolenInvite() public {
        IComputePools.Invite memory invite = _invite(other, WORKER);
        bytes memory why = abi.encodeWithSelector(IComputePools.NotInvitedNode.selector, worker, other);
        _refuseJoin(invite, _sign(invite), why);
    }

    function test_attack_promotedRole() public {
        IComputePools.Invite memory invite = _invite(worker, WORKER);
        bytes memory signature = _sign(invite);
        bytes memory why = abi.encodeWithSelector(IComputePools.InviteNotByManager.selector, manager);
        invite.role = IComputePools.Role.VALIDATOR;
        _refuseJoin(invite, signature, why);
        invite.role = IComputePools.Role.NONE;
        _refuseJoin(invite, signature, abi.encodeWithSelector(IComputePools.InviteWrongRole.selector));
    }

    function test_oldManagersInviteIsVoid() public {
        IComputePools.Invite memory invite = _invite(worker, WORKER);
        bytes memory signature = _sign(invite);
        vm.prank(owner);
        pools.setManager(poolId, other);
        _refuseJoin(invite, signature, abi.encodeWithSelector(IComputePools.InviteNotByManager.selector, other));
    }

    function test_revokedInviteIsVoid() public {
        IComputePools.Invite memory invite = _invite(worker, WORKER);
        bytes memory signature = _sign(invite);
        vm.prank(manager);
        pools.revokeInvites(poolId, worker);
        _refuseJoin(invite, signature, abi.encodeWithSelector(IComputePools.InviteUsed.selector, 0, 1));
    }

    function test_unregisteredOrPoorNodeMayNotJoin() public {
        vm.prank(worker);
        registry.unstake(1);
        IComputePools.Invite memory invite = _invite(worker, WORKER);
        bytes memory why =
            abi.encodeWithSelector(INodeRegistry.StakeTooLow.selector, worker, MIN_STAKE - 1, MIN_STAKE);
        _refuseJoin(invite, _sign(invite), why);
        worker = address(0x9999);
        invite = _invite(worker, WORKER);
        _refuseJoin(invite, _sign(invite), abi.encodeWithSelector(INodeRegistry.NotRegistered.selector, worker));
    }

    function test_memberMayNotJoinTwice() public {
        _join(worker, WORKER);
        IComputePools.Invite memory invite = _invite(worker, IComputePools.Role.RELAY);
        bytes memory signature = _sign(invite);
        _refused(IComputePools.AlreadyMember.selector, abi.encode(poolId, worker));
        vm.prank(worker);
        pools.join(invite, signature);
    }

    function testFuzz_onlyTheManagersKeyInvites(uint256 key, uint8 role, uint64 expires) public {
        uint256 order = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141;
        key = 1 + key % (order - 1);
        vm.assume(key != MANAGER_KEY);
        IComputePools.Invite memory invite = _invite(worker, IComputePools.Role(1 + role % 3));
        invite.expires = block.timestamp + expires;
        bytes memory why = abi.encodeWithSelector(IComputePools.InviteNotByManager.selector, manager);
        _refuseJoin(invite, _signAs(key, invite), why);
        bytes memory signature = _sign(invite);
        vm.prank(worker);
        pools.join(invite, signature);
        vm.assertTrue(pools.getMember(poolId, worker).role == invite.role);
    }
}
