// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.30;

import {IComputePools} from "../src/interfaces/IComputePools.sol";
import {INodeRegistry} from "../src/interfaces/INodeRegistry.sol";
import {IRunLedger} from "../src/interfaces/IRunLedger.sol";
import {Fixture} from "./Fixture.sol";
import {vm} from "./Vm.sol";

contract RunsTest is Fixture {
    function setUp() public override {
        super.setUp();
        _joinAll();
    }

    function _judge(bytes32 id, IRunLedger.Outcome outcome) private {
        vm.prank(validator);
        runs.giveVerdict(id, outcome, "proof-mismatch", keccak256("evidence"));
    }

    function test_checkpointsCountUpFromZero() public {
        vm.startPrank(manager);
        runs.announceCheckpoint(poolId, 0, FILE);
        _refused(IRunLedger.WrongVersion.selector, abi.encode(0, 1));
        runs.announceCheckpoint(poolId, 0, FILE);
        _refused(IRunLedger.WrongVersion.selector, abi.encode(2, 1));
        runs.announceCheckpoint(poolId, 2, FILE);
        _refused(IRunLedger.ZeroHash.selector, "");
        runs.announceCheckpoint(poolId, 1, 0);
        runs.announceCheckpoint(poolId, 1, FILE);
        vm.stopPrank();
        vm.assertEq(runs.checkpointCount(poolId), 2);
        _refused(IComputePools.NotManager.selector, abi.encode(worker));
        vm.prank(worker);
        runs.announceCheckpoint(poolId, 2, FILE);
    }

    function test_acceptedWorkHoldsNothingAndCostsNothing() public {
        bytes32 id = _submit();
        vm.assertEq(registry.getNode(worker).holds, 2);
        _judge(id, IRunLedger.Outcome.ACCEPTED);
        vm.assertTrue(runs.getSubmission(id).outcome == IRunLedger.Outcome.ACCEPTED);
        vm.assertEq(registry.getNode(worker).holds, 1);
        vm.assertEq(registry.getNode(worker).stake, MIN_STAKE);
    }

    function test_rejectionBurnsStakeAndEjects() public {
        uint256 supply = token.totalSupply();
        _judge(_submit(), IRunLedger.Outcome.REJECTED);
        vm.assertEq(token.totalSupply(), supply - SLASH);
        vm.assertEq(registry.getNode(worker).stake, MIN_STAKE - SLASH);
        vm.assertEq(token.balanceOf(validator), 0);
        vm.assertEq(token.balanceOf(owner) + token.balanceOf(manager), 0);
        vm.assertEq(registry.getNode(validator).stake, MIN_STAKE);
        vm.assertTrue(pools.getMember(poolId, worker).ejected);
        _refused(IComputePools.NotActiveMember.selector, abi.encode(poolId, worker));
        vm.prank(worker);
        runs.submit(poolId, 1, 0, FILE);
    }

    function test_lateWorkCostsNothing() public {
        _judge(_submit(), IRunLedger.Outcome.LATE);
        vm.assertTrue(pools.getMember(poolId, worker).active);
        vm.assertEq(registry.getNode(worker).stake, MIN_STAKE);
    }

    function test_attack_nonValidatorVerdict() public {
        bytes32 id = _submit();
        _refused(IComputePools.NotActiveMember.selector, abi.encode(poolId, manager));
        vm.prank(manager);
        runs.giveVerdict(id, IRunLedger.Outcome.REJECTED, "", 0);
        _refused(IComputePools.WrongRole.selector, abi.encode(1, 2));
        vm.prank(worker);
        runs.giveVerdict(id, IRunLedger.Outcome.ACCEPTED, "", 0);
        vm.prank(validator);
        pools.leave(poolId);
        _refused(IComputePools.NotActiveMember.selector, abi.encode(poolId, validator));
        _judge(id, IRunLedger.Outcome.ACCEPTED);
    }

    function test_attack_otherPoolsValidator() public {
        vm.prank(owner);
        (uint256 first, uint256 second) = (poolId, pools.createPool(domainId, manager, MIN_STAKE, SLASH));
        poolId = second;
        _join(other, IComputePools.Role.VALIDATOR);
        poolId = first;
        bytes32 id = _submit();
        _refused(IComputePools.NotActiveMember.selector, abi.encode(poolId, other));
        vm.prank(other);
        runs.giveVerdict(id, IRunLedger.Outcome.REJECTED, "", 0);
    }

    function test_attack_judgingOneselfAfterChangingRole() public {
        bytes32 id = _submit();
        vm.prank(worker);
        pools.leave(poolId);
        _join(worker, IComputePools.Role.VALIDATOR);
        _refused(IRunLedger.OwnSubmission.selector, abi.encode(worker));
        vm.prank(worker);
        runs.giveVerdict(id, IRunLedger.Outcome.ACCEPTED, "", 0);
    }

    function test_attack_frontRunSubmission() public {
        _join(other, IComputePools.Role.WORKER);
        vm.prank(other); // sees the hash in the mempool and is first
        bytes32 copied = runs.submit(poolId, 0, 0, FILE);
        bytes32 id = _submit(); // the victim is not hindered
        vm.assertTrue(copied != id);
        vm.assertEq(runs.getSubmission(id).node, worker);
        vm.assertEq(runs.getSubmission(copied).node, other);
        vm.assertEq(runs.submissionIdOf(poolId, 0, 0, worker), id);
    }

    function test_attack_doubleVerdict() public {
        bytes32 id = _submit();
        _judge(id, IRunLedger.Outcome.ACCEPTED);
        _refused(IRunLedger.AlreadyJudged.selector, abi.encode(id, 1));
        _judge(id, IRunLedger.Outcome.REJECTED);
        vm.assertEq(registry.getNode(worker).stake, MIN_STAKE);
        _refused(IRunLedger.UnknownSubmission.selector, abi.encode(FILE));
        _judge(FILE, IRunLedger.Outcome.ACCEPTED);
    }

    function test_attack_submittingTwice() public {
        bytes32 id = _submit();
        _refused(IRunLedger.AlreadySubmitted.selector, abi.encode(id));
        vm.prank(worker);
        runs.submit(poolId, 0, 0, keccak256("a better file"));
        _refused(IComputePools.WrongRole.selector, abi.encode(2, 1));
        vm.prank(validator);
        runs.submit(poolId, 0, 0, FILE);
        _refused(IRunLedger.NotAVerdict.selector, "");
        _judge(id, IRunLedger.Outcome.PENDING);
    }

    function test_attack_leavingBeforeTheVerdict() public {
        bytes32 id = _submit();
        vm.startPrank(worker);
        pools.leave(poolId);
        _refused(INodeRegistry.StakeHeld.selector, abi.encode(worker, 1));
        registry.unstake(MIN_STAKE);
        vm.stopPrank();
        _judge(id, IRunLedger.Outcome.REJECTED);
        vm.assertEq(registry.getNode(worker).stake, MIN_STAKE - SLASH);
        vm.assertTrue(pools.getMember(poolId, worker).ejected);
        vm.prank(worker);
        registry.unstake(MIN_STAKE - SLASH);
    }

    function test_everyRejectionSlashesUntilNothingIsLeft() public {
        bytes32[4] memory ids;
        vm.startPrank(worker);
        for (uint32 i; i < 4; ++i) ids[i] = runs.submit(poolId, 0, i, FILE);
        vm.stopPrank();
        for (uint256 i; i < 4; ++i) _judge(ids[i], IRunLedger.Outcome.REJECTED);
        vm.assertEq(registry.getNode(worker).stake, 0);
        vm.assertEq(registry.getNode(worker).holds, 0);
    }

    function test_unjudgedWorkIsClosedAsLateAfterTheWindow() public {
        bytes32 id = _submit();
        uint256 until = block.timestamp + runs.VERDICT_WINDOW_S();
        _refused(IRunLedger.VerdictStillPossible.selector, abi.encode(until));
        runs.closeUnjudged(id);
        vm.warp(until + 1);
        runs.closeUnjudged(id);
        vm.assertTrue(runs.getSubmission(id).outcome == IRunLedger.Outcome.LATE);
        vm.assertEq(registry.getNode(worker).holds, 1);
    }

    function test_memberSlashedElsewhereMayNotWork() public {
        vm.prank(address(runs));
        registry.slash(worker, 1);
        _refused(INodeRegistry.StakeTooLow.selector, abi.encode(worker, MIN_STAKE - 1, MIN_STAKE));
        vm.prank(worker);
        runs.submit(poolId, 0, 0, FILE);
    }

    function testFuzz_idsBindEveryField(uint64 step, uint32 counter, address node) public view {
        bytes32 id = runs.submissionIdOf(poolId, step, counter, node);
        vm.assertEq(id, keccak256(abi.encode(poolId, step, counter, node)));
        vm.assertTrue(id != runs.submissionIdOf(poolId + 1, step, counter, node));
    }
}
