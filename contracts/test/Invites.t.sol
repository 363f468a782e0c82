// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.30;

import {IComputePools} from "../src/interfaces/IComputePools.sol";
import {INodeRegistry} from "../src/interfaces/INodeRegistry.sol";
import {IPools} from "../src/interfaces/IPools.sol";
import {Fixture} from "./Fixture.sol";
import {ContractWallet} from "./wallets/ContractWallet.sol";
import {vm} from "./Vm.sol";

contract InvitesTest is Fixture {
    IComputePools.Role private constant WORKER = IComputePools.Role.WORKER;

    function _refuse(IComputePools.Invite memory invite, bytes memory signature, bytes4 why, bytes memory arguments)
        private
    {
        _refused(why, arguments);
        vm.prank(worker);
        pools.join(invite, signature);
        vm.assertFalse(pools.isActive(poolId, worker));
    }

    function test_anInvitedNodeJoins() public {
        vm.expectEmit(address(pools));
        emit IComputePools.MemberJoined(poolId, worker, WORKER, 0);
        _join(worker, WORKER);
        IComputePools.Member memory member = pools.getMember(poolId, worker);
        vm.assertTrue(member.active && member.role == WORKER);
        vm.assertEq(member.since, _now());
        vm.assertEq(member.used, 1);
        vm.assertEq(pools.memberCount(poolId, WORKER), 1);
        vm.assertEq(pools.listMembers(poolId, 0, 10)[0], worker);
        pools.requireMember(poolId, worker, WORKER);
    }

    function test_attack_replayedInvite() public {
        IComputePools.Invite memory invite = _invite(worker, WORKER);
        bytes memory signature = _sign(invite);
        vm.startPrank(worker);
        pools.join(invite, signature);
        pools.leave(poolId);
        vm.stopPrank();
        _refuse(invite, signature, IComputePools.InviteUsed.selector, abi.encode(0));
    }

    function test_attack_spareInviteAfterEjection() public {
        _join(worker, WORKER);
        IComputePools.Invite memory spare = _invite(worker, WORKER);
        bytes memory signature = _sign(spare);
        vm.prank(manager);
        pools.eject(poolId, worker, "rude");
        _refuse(spare, signature, IComputePools.InviteVoid.selector, abi.encode(1, 1));
        _join(worker, WORKER);
        vm.assertTrue(pools.isActive(poolId, worker));
        vm.assertEq(pools.getMember(poolId, worker).epoch, 1);
    }

    function test_attack_inviteOfAnEpochToCome() public {
        IComputePools.Invite memory invite = _invite(worker, WORKER);
        invite.nonce = 256;
        _refuse(invite, _sign(invite), IComputePools.InviteVoid.selector, abi.encode(256, 0));
    }

    function test_invitesOfOneEpochCountInAnyOrder() public {
        IComputePools.Invite memory first = _invite(worker, WORKER);
        IComputePools.Invite memory last = _invite(worker, WORKER);
        last.nonce = 255;
        bytes[2] memory signatures = [_sign(first), _sign(last)];
        vm.startPrank(worker);
        pools.join(last, signatures[1]);
        pools.leave(poolId);
        pools.join(first, signatures[0]);
        vm.stopPrank();
        vm.assertEq(pools.getMember(poolId, worker).used, 2 ** 255 + 1);
    }

    function test_attack_expiredInvite() public {
        IComputePools.Invite memory invite = _invite(worker, WORKER);
        bytes memory signature = _sign(invite);
        vm.warp(invite.expires + 1);
        bytes memory arguments = abi.encode(invite.expires, invite.expires + 1);
        _refuse(invite, signature, IComputePools.InviteExpired.selector, arguments);
        vm.warp(invite.expires);
        vm.prank(worker);
        pools.join(invite, signature);
    }

    function test_attack_otherPoolsInvite() public {
        vm.startPrank(owner);
        uint256 second = pools.createPool(domainId, standby, _terms());
        pools.startPool(second);
        vm.stopPrank();
        IComputePools.Invite memory invite = _invite(worker, WORKER);
        bytes memory signature = _sign(invite);
        invite.poolId = second;
        _refuse(invite, signature, IComputePools.InviteNotByManager.selector, abi.encode(standby));
    }

    function test_attack_otherDomainsInvite() public {
        IComputePools.Invite memory invite = _invite(worker, WORKER);
        invite.domainId = 7;
        _refuse(invite, _sign(invite), IComputePools.InviteWrongDomain.selector, abi.encode(7, domainId));
    }

    function test_attack_anotherDeploymentsSalt() public {
        IComputePools.Invite memory invite = _invite(worker, WORKER);
        invite.salt = keccak256("another deployment");
        bytes memory signature = _sign(invite);
        bytes memory arguments = abi.encode(invite.salt, SALT);
        _refuse(invite, signature, IComputePools.InviteWrongDeployment.selector, arguments);
        invite.salt = SALT; // the signature is then over other data
        _refuse(invite, signature, IComputePools.InviteNotByManager.selector, abi.encode(manager));
    }

    function test_attack_stolenInvite() public {
        IComputePools.Invite memory invite = _invite(other, WORKER);
        _refuse(invite, _sign(invite), IComputePools.NotInvitedNode.selector, abi.encode(worker, other));
        invite.node = worker;
        _refuse(invite, _sign(_invite(other, WORKER)), IComputePools.InviteNotByManager.selector, abi.encode(manager));
    }

    function test_attack_promotedRole() public {
        IComputePools.Invite memory invite = _invite(worker, WORKER);
        bytes memory signature = _sign(invite);
        invite.role = IComputePools.Role.VALIDATOR;
        _refuse(invite, signature, IComputePools.InviteNotByManager.selector, abi.encode(manager));
        invite.role = IComputePools.Role.NONE;
        _refuse(invite, signature, IComputePools.InviteWrongRole.selector, "");
    }

    function test_attack_inviteByTheOwnerOrByNobody() public {
        IComputePools.Invite memory invite = _invite(worker, WORKER);
        _refuse(invite, _signAs(0x0171, invite), IComputePools.InviteNotByManager.selector, abi.encode(manager));
        _refuse(invite, "", IComputePools.InviteNotByManager.selector, abi.encode(manager));
    }

    function test_aCancelledInviteIsVoid() public {
        IComputePools.Invite memory invite = _invite(worker, WORKER);
        bytes memory signature = _sign(invite);
        vm.startPrank(manager);
        vm.expectEmit(address(pools));
        emit IComputePools.InviteCancelled(poolId, worker, 0);
        pools.cancelInvite(poolId, worker, 0);
        _refused(IComputePools.InviteUsed.selector, abi.encode(0));
        pools.cancelInvite(poolId, worker, 0);
        _refused(IComputePools.InviteVoid.selector, abi.encode(256, 0));
        pools.cancelInvite(poolId, worker, 256);
        vm.stopPrank();
        _refuse(invite, signature, IComputePools.InviteUsed.selector, abi.encode(0));
        _join(worker, WORKER);
        vm.assertEq(pools.getMember(poolId, worker).used, 3);
    }

    function test_unregisteredOrPoorNodesMayNotJoin() public {
        vm.prank(_stakerOfKey(WORKER_KEY));
        registry.unbond(worker, 1);
        IComputePools.Invite memory invite = _invite(worker, WORKER);
        bytes memory arguments = abi.encode(worker, MIN_STAKE - 1, MIN_STAKE);
        _refuse(invite, _sign(invite), INodeRegistry.StakeTooLow.selector, arguments);
        worker = vm.addr(0x9999);
        invite = _invite(worker, WORKER);
        _refuse(invite, _sign(invite), INodeRegistry.NotRegistered.selector, abi.encode(worker));
    }

    function test_aMemberMayNotJoinTwice() public {
        _join(worker, WORKER);
        IComputePools.Invite memory invite = _invite(worker, IComputePools.Role.RELAY);
        bytes memory signature = _sign(invite);
        _refused(IComputePools.AlreadyMember.selector, abi.encode(poolId, worker));
        vm.prank(worker);
        pools.join(invite, signature);
    }

    function test_aContractWalletManages() public {
        ContractWallet wallet = new ContractWallet(manager);
        vm.startPrank(owner);
        pools.setManager(poolId, address(wallet), true);
        pools.setManager(poolId, manager, false);
        vm.stopPrank();
        vm.prank(address(wallet));
        pools.takeLease(poolId);
        IComputePools.Invite memory invite = _invite(worker, WORKER);
        bytes memory signature = _signAs(STANDBY_KEY, invite);
        _refuse(invite, signature, IComputePools.InviteNotByManager.selector, abi.encode(address(wallet)));
        _join(worker, WORKER);
        vm.assertTrue(pools.isActive(poolId, worker));
    }

    function testFuzz_onlyTheManagersKeyInvites(uint256 key, uint8 role, uint64 expires) public {
        uint256 order = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141;
        key = 1 + key % (order - 1);
        vm.assume(key != MANAGER_KEY);
        IComputePools.Invite memory invite = _invite(worker, IComputePools.Role(1 + role % 3));
        invite.expires = _now() + expires;
        _refuse(invite, _signAs(key, invite), IComputePools.InviteNotByManager.selector, abi.encode(manager));
        bytes memory signature = _sign(invite);
        vm.prank(worker);
        pools.join(invite, signature);
        vm.assertTrue(pools.getMember(poolId, worker).role == invite.role);
    }

    function testFuzz_everyFieldIsSigned(uint8 nonce, uint64 later, uint8 role) public {
        IComputePools.Invite memory invite = _invite(worker, WORKER);
        bytes memory signature = _sign(invite);
        invite.nonce += nonce;
        invite.expires += later;
        invite.role = IComputePools.Role(1 + role % 3);
        vm.assume(nonce != 0 || later != 0 || invite.role != WORKER);
        _refuse(invite, signature, IComputePools.InviteNotByManager.selector, abi.encode(manager));
    }
}
