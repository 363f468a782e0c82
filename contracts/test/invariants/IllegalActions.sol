// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.30;

import {Ownable} from "@openzeppelin/contracts/access/Ownable.sol";
import {IComputePools} from "../../src/interfaces/IComputePools.sol";
import {ICourt} from "../../src/interfaces/ICourt.sol";
import {INodeRegistry} from "../../src/interfaces/INodeRegistry.sol";
import {IPools} from "../../src/interfaces/IPools.sol";
import {ITreasury} from "../../src/interfaces/ITreasury.sol";
import {Wired} from "../../src/Wired.sol";
import {vm} from "../Vm.sol";
import {MemberActions} from "./MemberActions.sol";

/// @dev What nobody may do, whenever it is tried.
abstract contract IllegalActions is MemberActions {
    function takeFromOthers(uint256 seed, uint256 n, uint256 amount) external step(seed, 0) {
        n %= NODES;
        _refused(INodeRegistry.NotStaker.selector, abi.encode(nodes[n], stakers[n]));
        vm.prank(nodes[n]);
        registry.withdraw(nodes[n]);
        uint256 has = registry.getNode(nodes[n]).stake;
        amount = has + 1 + amount % MIN_STAKE;
        _refused(INodeRegistry.StakeTooLow.selector, abi.encode(nodes[n], has, amount));
        vm.prank(stakers[n]);
        registry.unbond(nodes[n], amount);
        if (earned[nodes[n]] != 0) return;
        _refused(ITreasury.ZeroAmount.selector, "");
        treasury.claim(nodes[n]);
    }

    function withdrawEarly(uint256 seed, uint256 n) external step(seed, 0) {
        n %= NODES;
        INodeRegistry.Node memory node = registry.getNode(nodes[n]);
        if (node.unbonding == 0) {
            _refused(INodeRegistry.ZeroAmount.selector, "");
        } else if (vm.getBlockTimestamp() < node.matures) {
            if (seed % 2 == 0) vm.warp(node.matures - 1);
            _refused(INodeRegistry.Unbonding.selector, abi.encode(nodes[n], node.matures));
        } else if (held[nodes[n]] <= locked[nodes[n]]) {
            _refused(INodeRegistry.StakeUnderCase.selector, abi.encode(nodes[n], locked[nodes[n]]));
        } else {
            return;
        }
        vm.prank(stakers[n]);
        registry.withdraw(nodes[n]);
    }

    function playCourt(uint256 seed, uint256 pool, uint256 n) external step(seed, pool) {
        n %= NODES;
        _refused(Wired.NotWired.selector, abi.encode(manager));
        vm.prank(manager);
        registry.burn(nodes[n], 1);
        _refused(Wired.NotWired.selector, abi.encode(owner));
        vm.prank(owner);
        pools.punish(poolId, nodes[n], "rude");
        _refused(Wired.NotWired.selector, abi.encode(nodes[n]));
        vm.prank(nodes[n]);
        treasury.credit(poolId, nodes[n], 1);
        _refused(Ownable.OwnableUnauthorizedAccount.selector, abi.encode(owner));
        vm.prank(owner);
        token.mint(owner, 1);
    }

    function burnEarly(uint256 seed, uint256 case_) external step(seed, 0) {
        if (caseIds.length == 0) return;
        bytes32 id = caseIds[case_ % caseIds.length];
        ICourt.Case memory found = court.getCase(id);
        if (found.state == ICourt.CaseState.BURNT || found.state == ICourt.CaseState.OVERTURNED) {
            _refused(ICourt.NoOpenCase.selector, abi.encode(id));
        } else if (vm.getBlockTimestamp() <= found.until) {
            if (seed % 2 == 0) vm.warp(found.until);
            _refused(ICourt.StillOpen.selector, abi.encode(found.until));
        } else {
            return;
        }
        court.execute(id);
    }

    function judgeUninvited(uint256 seed, uint256 docket) external step(seed, 0) {
        if (docketIds.length == 0) return;
        bytes32 id = docketIds[docket % docketIds.length];
        ICourt.Docket memory found = court.getDocket(id);
        uint256 closes = found.openedAt + (found.kind == ICourt.Kind.APPEAL ? CHALLENGE_S : VERDICT_S);
        if (found.outcome != ICourt.Outcome.PENDING) {
            _refused(ICourt.AlreadyDecided.selector, abi.encode(id, found.outcome));
        } else if (vm.getBlockTimestamp() > closes) {
            _refused(ICourt.VerdictsClosed.selector, abi.encode(closes));
        } else {
            _refused(IComputePools.NotActiveMember.selector, abi.encode(found.poolId, stranger));
        }
        vm.prank(stranger);
        court.commit(id, EVIDENCE);
    }

    function reuseInvite(uint256 seed) external step(seed, 0) {
        IComputePools.Invite memory invite = lastInvite;
        if (invite.node == address(0) || pools.getPool(invite.poolId).state != IPools.State.ACTIVE) return;
        uint256 epoch = epochs[invite.poolId][invite.node];
        if (pools.getPool(invite.poolId).joinsPaused) {
            _refused(IComputePools.JoinsArePaused.selector, abi.encode(invite.poolId));
        } else if (invite.nonce >> 8 != epoch) {
            _refused(IComputePools.InviteVoid.selector, abi.encode(invite.nonce, epoch));
        } else {
            _refused(IComputePools.InviteUsed.selector, abi.encode(invite.nonce));
        }
        vm.prank(invite.node);
        pools.join(invite, "");
    }

    function returnBarred(uint256 seed, uint256 pool, uint256 n) external step(seed, pool) {
        n %= NODES;
        IPools.Pool memory current = pools.getPool(poolId);
        if (current.joinsPaused || !_barred(poolId, n)) return;
        IComputePools.Invite memory invite = _invite(nodes[n], IComputePools.Role.WORKER);
        bytes memory signature = _signAs(current.manager == manager ? MANAGER_KEY : STANDBY_KEY, invite);
        _refused(IComputePools.AccountBlacklisted.selector, abi.encode(nodes[n]));
        vm.prank(nodes[n]);
        pools.join(invite, signature);
    }

    function seizePool(uint256 seed, uint256 pool, uint256 n) external step(seed, pool) {
        n %= NODES;
        IPools.Pool memory current = pools.getPool(poolId);
        _refused(IPools.NotManager.selector, abi.encode(nodes[n]));
        vm.prank(nodes[n]);
        pools.takeLease(poolId);
        _refused(IPools.WrongState.selector, abi.encode(IPools.State.ACTIVE));
        vm.prank(owner);
        treasury.reclaim(poolId);
        if (vm.getBlockTimestamp() > current.leaseExpires) return;
        // A lease that has not begun yet has no last second to go to.
        bool begun = current.leaseExpires != type(uint64).max;
        if (seed % 2 == 0 && begun) vm.warp(current.leaseExpires);
        _refused(IPools.LeaseHeld.selector, abi.encode(current.manager, current.leaseExpires));
        vm.prank(current.manager == manager ? standby : manager);
        pools.takeLease(poolId);
    }
}
