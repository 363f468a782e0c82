// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.30;

import {INodeRegistry} from "../../src/interfaces/INodeRegistry.sol";
import {IPools} from "../../src/interfaces/IPools.sol";
import {vm} from "../Vm.sol";
import {World} from "./World.sol";

/// @dev What is done with tokens.
abstract contract StakeActions is World {
    function stake(uint256 seed, uint256 n, uint256 amount) external step(seed, 0) {
        n %= NODES;
        amount = 1 + amount % (2 * MIN_STAKE);
        token.mint(stakers[n], amount);
        minted += amount;
        vm.prank(stakers[n]);
        registry.addStake(nodes[n], amount);
        held[nodes[n]] += amount;
        staked += amount;
    }

    function unbond(uint256 seed, uint256 n, uint256 amount) external step(seed, 0) {
        n %= NODES;
        uint256 has = registry.getNode(nodes[n]).stake;
        if (has == 0) return;
        vm.prank(stakers[n]);
        registry.unbond(nodes[n], 1 + (amount % has) / (seed % 4 == 0 ? 1 : 10));
    }

    function withdraw(uint256 seed, uint256 n) external step(seed, 0) {
        n %= NODES;
        INodeRegistry.Node memory node = registry.getNode(nodes[n]);
        if (vm.getBlockTimestamp() < node.matures) return;
        uint256 free = held[nodes[n]] > locked[nodes[n]] ? held[nodes[n]] - locked[nodes[n]] : 0;
        if (free > node.unbonding) free = node.unbonding;
        if (free != 0) _withdraw(n, free);
    }

    /// Everyone can have all of theirs that is not under a case after the unbonding time, whatever else is the matter.
    function withdrawAll(uint256 seed, uint256 n) external step(seed, 0) {
        n %= NODES;
        address node = nodes[n];
        if (held[node] == 0 || seed % (locked[node] == 0 ? 8 : 2) != 0) return;
        uint256 has = registry.getNode(node).stake;
        if (has != 0) {
            vm.prank(stakers[n]);
            registry.unbond(node, has);
        }
        vm.warp(vm.getBlockTimestamp() + UNBONDING_S);
        if (held[node] > locked[node]) return _withdraw(n, held[node] - locked[node]);
        _refused(INodeRegistry.StakeUnderCase.selector, abi.encode(node, locked[node]));
        vm.prank(stakers[n]);
        registry.withdraw(node);
    }

    function fund(uint256 seed, uint256 pool, uint96 amount) external step(seed, pool) {
        token.mint(address(this), uint256(amount) + 1);
        minted += uint256(amount) + 1;
        treasury.fund(poolId, uint256(amount) + 1);
        funds[poolId] += uint256(amount) + 1;
        owed += uint256(amount) + 1;
    }

    function claim(uint256 seed, uint256 n) external step(seed, 0) {
        n %= NODES;
        uint256 amount = earned[nodes[n]];
        if (amount == 0) return;
        vm.assertEq(treasury.claim(nodes[n]), amount);
        earned[nodes[n]] = 0;
        owed -= amount;
        outside += amount;
    }

    /// The second pool ends, its owner takes what is left as soon as it may, and another takes its place.
    function endPool(uint256 seed) external step(seed, 1) {
        if (seed % 8 != 0) return;
        vm.startPrank(owner);
        pools.endPool(poolId);
        uint256 next = pools.createPool(domainId, manager, pools.getTerms(poolId));
        pools.startPool(next);
        pools.setManager(next, standby, true);
        vm.stopPrank();
        poolIds[1] = next;
        _settleEnded();
    }

    function _settleEnded() private {
        IPools.Pool memory pool = pools.getPool(poolId);
        vm.warp(uint256(pool.endedAt) + VERDICT_S + 2 * CHALLENGE_S + 1);
        if (funds[poolId] == 0) return;
        vm.prank(owner);
        uint256 amount = treasury.reclaim(poolId);
        vm.assertEq(amount, funds[poolId]);
        funds[poolId] = 0;
        owed -= amount;
        outside += amount;
    }

    function _withdraw(uint256 n, uint256 amount) private {
        vm.prank(stakers[n]);
        vm.assertEq(registry.withdraw(nodes[n]), amount);
        held[nodes[n]] -= amount;
        staked -= amount;
        outside += amount;
    }
}
