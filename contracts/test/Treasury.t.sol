// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.30;

import {IComputePools} from "../src/interfaces/IComputePools.sol";
import {ICourt} from "../src/interfaces/ICourt.sol";
import {IPools} from "../src/interfaces/IPools.sol";
import {ITreasury} from "../src/interfaces/ITreasury.sol";
import {Fixture} from "./Fixture.sol";
import {vm} from "./Vm.sol";

contract TreasuryTest is Fixture {
    uint256 private constant EARNED = 1000 * uint256(UNIT_PRICE);

    function setUp() public override {
        super.setUp();
        _joinAll();
    }

    function _fund(uint256 amount) private {
        _purse(stranger, amount, address(treasury));
        vm.prank(stranger);
        treasury.fund(poolId, amount);
    }

    function _credit(uint256 units) private {
        vm.prank(address(court));
        treasury.credit(poolId, worker, units);
    }

    function _reclaim() private returns (uint256) {
        vm.prank(owner);
        return treasury.reclaim(poolId);
    }

    function test_verifiedWorkIsPaidToTheStaker() public {
        _purse(stranger, 5 ether, address(treasury));
        vm.expectEmit(address(treasury));
        emit ITreasury.PoolFunded(poolId, stranger, 5 ether, 5 ether);
        vm.prank(stranger);
        treasury.fund(poolId, 5 ether);
        bytes32 id = _opened();
        _judge(id, ICourt.Outcome.ACCEPTED);
        vm.assertEq(treasury.creditOf(worker), EARNED);
        vm.assertEq(treasury.fundsOf(poolId), 5 ether - EARNED);
        address staker = _stakerOfKey(WORKER_KEY);
        vm.expectEmit(address(treasury));
        emit ITreasury.CreditClaimed(worker, staker, EARNED);
        vm.prank(stranger);
        vm.assertEq(treasury.claim(worker), EARNED);
        vm.assertEq(token.balanceOf(staker), EARNED);
        _refused(ITreasury.ZeroAmount.selector, "");
        treasury.claim(worker);
    }

    function test_twoWorkersOfOneStakerAreCreditedEachForItsOwn() public {
        _fund(5 ether);
        address staker = _stakerOfKey(WORKER_KEY);
        address sister = _newNodeOf(0x3003, staker, MIN_STAKE);
        _join(sister, IComputePools.Role.WORKER);
        _skip(1);
        bytes32 id = _opened();
        bytes32 sistersId = court.open(_submitAs(sister));
        _skip(1);
        _judge(id, ICourt.Outcome.ACCEPTED);
        vm.assertEq(treasury.creditOf(worker), EARNED);
        vm.assertEq(treasury.creditOf(sister), 0);
        _judge(sistersId, ICourt.Outcome.ACCEPTED);
        vm.assertEq(treasury.unitsOf(poolId, worker), 1000);
        vm.assertEq(treasury.unitsOf(poolId, sister), 1000);
        vm.assertEq(treasury.claim(sister), EARNED);
        vm.assertEq(treasury.creditOf(worker), EARNED);
        vm.assertEq(treasury.claim(worker), EARNED);
        vm.assertEq(token.balanceOf(staker), 2 * EARNED);
    }

    function test_anEmptyPurseStillCountsTheUnits() public {
        _fund(3);
        vm.expectEmit(address(treasury));
        emit ITreasury.WorkCredited(poolId, worker, 10, 3);
        _credit(10);
        vm.assertEq(treasury.unitsOf(poolId, worker), 10);
        vm.assertEq(treasury.creditOf(worker), 3);
        vm.assertEq(treasury.fundsOf(poolId), 0);
    }

    function test_attack_moreUnitsThanNumbersHold() public {
        _fund(5 ether);
        bytes32 id = _opened();
        ICourt.Verdict memory verdict = _verdict(ICourt.Outcome.ACCEPTED);
        verdict.units = type(uint128).max;
        for (uint256 i; i < 2; ++i) {
            _commit(id, judges[i], verdict);
        }
        for (uint256 i; i < 2; ++i) {
            _reveal(id, judges[i], verdict);
        }
        vm.assertEq(treasury.creditOf(worker), 5 ether);
    }

    function test_theConvictedKeepWhatTheyHadEarned() public {
        _fund(5 ether);
        bytes32 id = _opened();
        _judge(id, ICourt.Outcome.ACCEPTED);
        _convicted();
        vm.prank(owner);
        pools.blacklistInDomain(domainId, _stakerOfKey(WORKER_KEY), "rude");
        vm.assertEq(treasury.claim(worker), EARNED);
    }

    function test_theOwnerReclaimsOnlyWhenNothingCanBeOwed() public {
        _fund(5 ether);
        _refused(ITreasury.NotPoolOwner.selector, abi.encode(stranger));
        vm.prank(stranger);
        treasury.reclaim(poolId);
        _refused(IPools.WrongState.selector, abi.encode(IPools.State.ACTIVE));
        _reclaim();
        bytes32 id = _opened();
        vm.prank(owner);
        pools.endPool(poolId);
        uint256 until = _now() + VERDICT_S + 2 * CHALLENGE_S;
        _refused(ITreasury.StillOwing.selector, abi.encode(until));
        _reclaim();
        // The longest way there is: convicted, appealed and acquitted, each in the last second.
        vm.roll(vm.getBlockNumber() + 1);
        vm.warp(court.getDocket(id).openedAt + VERDICT_S);
        _judge(id, ICourt.Outcome.REJECTED);
        vm.warp(court.getCase(id).until);
        bytes32 appealId = _appealed(id);
        vm.warp(court.getCase(id).until);
        _refused(ITreasury.StillOwing.selector, abi.encode(until));
        _reclaim();
        _judge(appealId, ICourt.Outcome.ACCEPTED);
        vm.assertEq(treasury.creditOf(worker), EARNED);
        vm.warp(until + 1);
        vm.expectEmit(address(treasury));
        emit ITreasury.FundsReclaimed(poolId, owner, 5 ether - EARNED);
        vm.assertEq(_reclaim(), 5 ether - EARNED);
        _refused(ITreasury.ZeroAmount.selector, "");
        _reclaim();
        vm.assertEq(treasury.claim(worker), EARNED);
    }

    function test_nothingIsNoAmount() public {
        _refused(ITreasury.ZeroAmount.selector, "");
        treasury.fund(poolId, 0);
        _refused(ITreasury.ZeroAmount.selector, "");
        treasury.claim(worker);
    }

    function testFuzz_fundsAndCreditAreWhatCameIn(uint96[3] memory funds, uint64[3] memory units, uint8 claims) public {
        uint256 total;
        uint256 paid;
        for (uint256 i; i < 3; ++i) {
            if (funds[i] != 0) _fund(funds[i]);
            total += funds[i];
            _credit(units[i]);
            if (claims & 2 ** i != 0 && treasury.creditOf(worker) != 0) paid += treasury.claim(worker);
            vm.assertEq(treasury.fundsOf(poolId) + treasury.creditOf(worker), total - paid);
            vm.assertEq(token.balanceOf(address(treasury)), total - paid);
        }
        vm.assertEq(treasury.unitsOf(poolId, worker), uint256(units[0]) + units[1] + units[2]);
    }
}
