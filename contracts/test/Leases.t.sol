// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.30;

import {IComputePools} from "../src/interfaces/IComputePools.sol";
import {IPools} from "../src/interfaces/IPools.sol";
import {IRunLedger} from "../src/interfaces/IRunLedger.sol";
import {Fixture} from "./Fixture.sol";
import {vm} from "./Vm.sol";

contract LeasesTest is Fixture {
    function setUp() public override {
        super.setUp();
        vm.prank(owner);
        pools.setManager(poolId, standby, true);
        _take(manager);
    }

    function _take(address by) private {
        vm.prank(by);
        pools.takeLease(poolId);
    }

    /// A new pool with this manager, in which the standby may manage as well.
    function _newPool() private {
        vm.startPrank(owner);
        vm.expectEmit(address(pools));
        emit IPools.LeaseTaken(poolId + 1, manager, 1, type(uint64).max);
        poolId = pools.createPool(domainId, manager, _terms());
        pools.setManager(poolId, standby, true);
        pools.startPool(poolId);
        vm.stopPrank();
    }

    function testFuzz_aFirstLeaseDoesNotLapseBeforeItsHolderHasStarted(uint32 afterS) public {
        _newPool();
        vm.warp(_now() + afterS);
        _refused(IPools.LeaseHeld.selector, abi.encode(manager, type(uint64).max));
        _take(standby);
        _take(manager);
        uint256 expires = pools.getPool(poolId).leaseExpires;
        vm.assertEq(expires, _now() + LEASE_S);
        vm.assertEq(pools.getPool(poolId).epoch, 1);
        vm.warp(expires);
        _refused(IPools.LeaseHeld.selector, abi.encode(manager, expires));
        _take(standby);
        vm.warp(expires + 1);
        _take(standby);
        vm.assertEq(pools.getPool(poolId).epoch, 2);
    }

    function test_theOwnerGivesAFirstLeaseThatNobodyTookToAnother() public {
        _newPool();
        vm.prank(owner);
        pools.setManager(poolId, manager, false);
        _take(standby);
        vm.assertEq(pools.getPool(poolId).manager, standby);
        vm.assertEq(pools.getPool(poolId).leaseExpires, _now() + LEASE_S);
    }

    function test_theHolderRenews() public {
        _skip(LEASE_S / 2);
        vm.expectEmit(address(pools));
        emit IPools.LeaseTaken(poolId, manager, 1, _now() + LEASE_S);
        _take(manager);
        vm.assertEq(pools.getPool(poolId).epoch, 1);
    }

    function test_aStandbyWaitsUntilTheLeaseHasLapsed() public {
        uint256 expires = pools.getPool(poolId).leaseExpires;
        vm.assertEq(expires, _now() + LEASE_S);
        vm.warp(expires);
        _refused(IPools.LeaseHeld.selector, abi.encode(manager, expires));
        _take(standby);
        vm.warp(expires + 1);
        vm.expectEmit(address(pools));
        emit IPools.LeaseTaken(poolId, standby, 2, expires + 1 + LEASE_S);
        _take(standby);
        vm.assertEq(pools.getPool(poolId).manager, standby);
        _refused(IPools.LeaseHeld.selector, abi.encode(standby, expires + 1 + LEASE_S));
        _take(manager);
    }

    function test_aSilentManagerStaysUntilAnotherTakesOver() public {
        _skip(10 * LEASE_S);
        vm.prank(manager);
        runs.announceCheckpoint(poolId, 0, FILE);
        _take(manager);
        vm.assertEq(pools.getPool(poolId).epoch, 1);
    }

    function test_theOldOneIsFenced() public {
        vm.prank(manager);
        runs.announceCheckpoint(poolId, 0, FILE);
        IComputePools.Invite memory invite = _invite(worker, IComputePools.Role.WORKER);
        invite.expires += LEASE_S;
        bytes memory signature = _sign(invite);
        _skip(LEASE_S + 1);
        _take(standby);
        _refused(IPools.NotManager.selector, abi.encode(manager));
        vm.prank(manager);
        runs.announceCheckpoint(poolId, 1, FILE);
        _refused(IComputePools.InviteNotByManager.selector, abi.encode(standby));
        vm.prank(worker);
        pools.join(invite, signature);
        vm.prank(standby);
        runs.announceCheckpoint(poolId, 1, EVIDENCE);
        IRunLedger.Checkpoint memory checkpoint = runs.getCheckpoint(poolId, 1);
        vm.assertEq(checkpoint.epoch, 2);
        vm.assertEq(checkpoint.manifestHash, EVIDENCE);
    }

    function test_forbiddingTheHolderEndsTheLeaseAtOnce() public {
        vm.expectEmit(address(pools));
        emit IPools.ManagerSet(poolId, manager, false);
        vm.expectEmit(address(pools));
        emit IPools.LeaseTaken(poolId, address(0), 2, 0);
        vm.prank(owner);
        pools.setManager(poolId, manager, false);
        _refused(IPools.NotManager.selector, abi.encode(manager));
        _take(manager);
        _take(standby);
        vm.assertEq(pools.getPool(poolId).epoch, 3);
        vm.assertEq(pools.getPool(poolId).manager, standby);
    }

    function test_attack_withoutAManagerNobodyCanInvite() public {
        vm.prank(owner);
        pools.setManager(poolId, manager, false);
        IComputePools.Invite memory invite = _invite(worker, IComputePools.Role.WORKER);
        bytes memory unreadable = new bytes(65);
        _refused(IComputePools.InviteNotByManager.selector, abi.encode(address(0)));
        vm.prank(worker);
        pools.join(invite, unreadable);
        bytes memory signature = _sign(invite);
        _refused(IComputePools.InviteNotByManager.selector, abi.encode(address(0)));
        vm.prank(worker);
        pools.join(invite, signature);
    }

    function test_forbiddingAnotherKeyLeavesTheLease() public {
        vm.startPrank(owner);
        pools.setManager(poolId, standby, false);
        _refused(IPools.ZeroAddress.selector, "");
        pools.setManager(poolId, address(0), true);
        vm.stopPrank();
        vm.assertEq(pools.getPool(poolId).manager, manager);
        _skip(LEASE_S + 1);
        _refused(IPools.NotManager.selector, abi.encode(standby));
        _take(standby);
    }

    function testFuzz_aLeaseIsNeverTakenEarly(uint32 afterS, bool byHolder) public {
        uint256 expires = pools.getPool(poolId).leaseExpires;
        vm.warp(_now() + afterS);
        bool early = !byHolder && _now() <= expires;
        if (early) _refused(IPools.LeaseHeld.selector, abi.encode(manager, expires));
        _take(byHolder ? manager : standby);
        IPools.Pool memory pool = pools.getPool(poolId);
        vm.assertEq(pool.manager, byHolder || early ? manager : standby);
        vm.assertEq(pool.epoch, byHolder || early ? 1 : 2);
        vm.assertEq(pool.leaseExpires, early ? expires : _now() + LEASE_S);
    }
}
