// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.30;

import {IComputePools} from "../../src/interfaces/IComputePools.sol";
import {INodeRegistry} from "../../src/interfaces/INodeRegistry.sol";
import {IPools} from "../../src/interfaces/IPools.sol";
import {vm} from "../Vm.sol";
import {World} from "./World.sol";

/// @dev What nodes, managers and owners do about membership.
abstract contract MemberActions is World {
    /// The last invite that was used up.
    IComputePools.Invite internal lastInvite;

    function join(uint256 seed, uint256 pool, uint256 n, uint8 role) external step(seed, pool) {
        n %= NODES;
        IPools.Pool memory current = pools.getPool(poolId);
        if (current.joinsPaused || isIn[poolId][nodes[n]]) return;
        INodeRegistry.Node memory node = registry.getNode(nodes[n]);
        if (_barred(poolId, n) || node.stake < uint256(MIN_STAKE) + node.locked) return;
        if (pools.listMembers(poolId, 0, 10).length == pools.getTerms(poolId).memberLimit) return;
        // Mostly three workers and four validators, else there is nothing to judge.
        lastInvite = _enter(nodes[n], IComputePools.Role(role % 4 == 0 ? 1 + seed % 3 : n < 3 ? 1 : 2));
    }

    function leave(uint256 seed, uint256 pool, uint256 n) external step(seed, pool) {
        n %= NODES;
        if (seed % 2 == 0) return;
        vm.prank(nodes[n]);
        pools.leave(poolId);
        isIn[poolId][nodes[n]] = false;
    }

    function eject(uint256 seed, uint256 pool, uint256 n) external step(seed, pool) {
        n %= NODES;
        if (seed % 2 == 0) return;
        vm.prank(pools.getPool(poolId).manager);
        pools.eject(poolId, nodes[n], "rude");
        _putOut(nodes[n]);
    }

    function bar(uint256 seed, uint256 pool, uint256 n, bool staker, bool domain) external step(seed, pool) {
        n %= NODES;
        if (seed % 4 != 0) return;
        address account = staker ? stakers[n] : nodes[n];
        if (domain) {
            vm.prank(owner);
            pools.blacklistInDomain(domainId, account, "rude");
            isBarredInDomain[account] = true;
        } else {
            vm.prank(pools.getPool(poolId).manager);
            pools.blacklist(poolId, account, "rude");
            (isBarred[poolId][account], isBarredByVerdict[poolId][account]) = (true, false);
            _putOut(account);
        }
    }

    function unbar(uint256 seed, uint256 pool, uint256 n) external step(seed, pool) {
        n %= NODES;
        address[2] memory accounts = [stakers[n], nodes[n]];
        for (uint256 i; i < 2; ++i) {
            if (isBarred[poolId][accounts[i]]) {
                vm.prank(pools.getPool(poolId).manager);
                pools.unblacklist(poolId, accounts[i]);
                (isBarred[poolId][accounts[i]], isBarredByVerdict[poolId][accounts[i]]) = (false, false);
            }
            if (isBarredInDomain[accounts[i]]) {
                vm.prank(owner);
                pools.unblacklistInDomain(domainId, accounts[i]);
                isBarredInDomain[accounts[i]] = false;
            }
        }
    }

    function purge(uint256 seed, uint256 pool, uint256 n) external step(seed, pool) {
        n %= NODES;
        if (!_barred(poolId, n)) return;
        pools.purge(poolId, nodes[n]);
        _putOut(nodes[n]);
    }

    function cancelInvite(uint256 seed, uint256 pool, uint256 n, uint8 bit) external step(seed, pool) {
        n %= NODES;
        if (used[poolId][nodes[n]] & 2 ** uint256(bit) != 0) return;
        vm.prank(pools.getPool(poolId).manager);
        pools.cancelInvite(poolId, nodes[n], (epochs[poolId][nodes[n]] << 8) + bit);
        used[poolId][nodes[n]] |= 2 ** uint256(bit);
    }

    function pauseJoins(uint256 seed, uint256 pool) external step(seed, pool) {
        if (seed % 4 > 1) return;
        vm.prank(owner);
        pools.pauseJoins(poolId, seed % 4 == 1);
    }

    function handOver(uint256 seed, uint256 pool, bool byForce) external step(seed, pool) {
        IPools.Pool memory current = pools.getPool(poolId);
        address next = current.manager == manager ? standby : manager;
        if (byForce) {
            vm.startPrank(owner);
            pools.setManager(poolId, current.manager, false);
            pools.setManager(poolId, current.manager, true);
            vm.stopPrank();
        } else if (vm.getBlockTimestamp() <= current.leaseExpires) {
            next = current.manager;
        }
        vm.prank(next);
        pools.takeLease(poolId);
        vm.assertTrue(pools.getPool(poolId).manager == next);
    }
}
