// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.30;

import {INodeRegistry} from "../src/interfaces/INodeRegistry.sol";
import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";
import {IERC20Errors} from "@openzeppelin/contracts/interfaces/draft-IERC6093.sol";
import {Fixture} from "./Fixture.sol";
import {vm} from "./Vm.sol";

contract StakeTest is Fixture {
    address private _staker = _stakerOfKey(WORKER_KEY);

    function _held(address node) private view returns (uint256) {
        INodeRegistry.Node memory entry = registry.getNode(node);
        return uint256(entry.stake) + entry.unbonding;
    }

    function _unbond(uint256 amount) private {
        vm.prank(_staker);
        registry.unbond(worker, amount);
    }

    function _withdraw() private returns (uint256) {
        vm.prank(_staker);
        return registry.withdraw(worker);
    }

    function test_anyoneAddsButOnlyTheStakerTakes() public {
        _purse(stranger, 5 ether, address(registry));
        vm.expectEmit(address(registry));
        emit INodeRegistry.StakeAdded(worker, 5 ether, MIN_STAKE + 5 ether);
        vm.prank(stranger);
        registry.addStake(worker, 5 ether);
        _refused(INodeRegistry.NotStaker.selector, abi.encode(stranger, _staker));
        vm.prank(stranger);
        registry.unbond(worker, 1);
        _refused(INodeRegistry.NotStaker.selector, abi.encode(worker, _staker));
        vm.prank(worker);
        registry.withdraw(worker);
        _unbond(MIN_STAKE + 5 ether);
        _skip(UNBONDING_S);
        vm.assertEq(_withdraw(), MIN_STAKE + 5 ether);
        vm.assertEq(token.balanceOf(_staker), MIN_STAKE + 5 ether);
    }

    function test_attack_dustDoesNotHoldUpAWithdrawal() public {
        _unbond(MIN_STAKE);
        _skip(UNBONDING_S);
        _purse(stranger, 1, address(registry));
        vm.prank(stranger);
        registry.addStake(worker, 1);
        vm.assertEq(_withdraw(), MIN_STAKE);
    }

    function test_unbondingTakesItsTimeToTheSecond() public {
        uint256 matures = _now() + UNBONDING_S;
        vm.expectEmit(address(registry));
        emit INodeRegistry.UnbondingStarted(worker, 30 ether, matures);
        _unbond(30 ether);
        vm.warp(matures - 1);
        _refused(INodeRegistry.Unbonding.selector, abi.encode(worker, matures));
        _withdraw();
        vm.warp(matures);
        vm.expectEmit(address(registry));
        emit INodeRegistry.StakeWithdrawn(worker, _staker, 30 ether);
        vm.assertEq(_withdraw(), 30 ether);
        vm.assertEq(registry.getNode(worker).stake, MIN_STAKE - 30 ether);
    }

    function test_askingForMoreRestartsTheClock() public {
        _unbond(30 ether);
        _skip(UNBONDING_S - 1);
        _unbond(1 ether);
        _skip(1);
        _refused(INodeRegistry.Unbonding.selector, abi.encode(worker, _now() - 1 + UNBONDING_S));
        _withdraw();
        _skip(UNBONDING_S);
        vm.assertEq(_withdraw(), 31 ether);
    }

    function test_nothingIsNoAmount() public {
        _refused(INodeRegistry.ZeroAmount.selector, "");
        _unbond(0);
        _refused(INodeRegistry.ZeroAmount.selector, "");
        _withdraw();
        _refused(INodeRegistry.ZeroAmount.selector, "");
        registry.addStake(worker, 0);
    }

    function test_attack_moreThanThereIs() public {
        _refused(INodeRegistry.StakeTooLow.selector, abi.encode(worker, MIN_STAKE, MIN_STAKE + 1));
        _unbond(MIN_STAKE + 1);
        uint256 wraps = uint256(MIN_STAKE) + 2 ** 128;
        _refused(INodeRegistry.StakeTooLow.selector, abi.encode(worker, MIN_STAKE, wraps));
        _unbond(wraps);
    }

    function test_attack_anAmountThatWrapsAround() public {
        uint256 wraps = 2 ** 128 + 1;
        _purse(stranger, wraps, address(registry));
        _refused(SafeCast.SafeCastOverflowedUintDowncast.selector, abi.encode(128, wraps));
        vm.prank(stranger);
        registry.addStake(worker, wraps);
    }

    function test_theTokensMustBeThere() public {
        _refused(IERC20Errors.ERC20InsufficientAllowance.selector, abi.encode(address(registry), 0, 7));
        vm.prank(stranger);
        registry.addStake(worker, 7);
    }

    function test_nobodyStakesForTheUnregistered() public {
        _refused(INodeRegistry.NotRegistered.selector, abi.encode(stranger));
        registry.addStake(stranger, 1);
        _refused(INodeRegistry.NotRegistered.selector, abi.encode(stranger));
        registry.unbond(stranger, 1);
        _refused(INodeRegistry.NotRegistered.selector, abi.encode(stranger));
        registry.withdraw(stranger);
        _refused(INodeRegistry.NotRegistered.selector, abi.encode(stranger));
        registry.requireStake(stranger, 0);
    }

    function test_stakeUnderACaseIsNotAtWork() public {
        registry.requireStake(worker, MIN_STAKE);
        vm.prank(address(court));
        registry.lock(worker, 1);
        _refused(INodeRegistry.StakeTooLow.selector, abi.encode(worker, MIN_STAKE, MIN_STAKE + 1));
        registry.requireStake(worker, MIN_STAKE);
        _unbond(40 ether);
        _refused(INodeRegistry.StakeTooLow.selector, abi.encode(worker, MIN_STAKE - 40 ether, MIN_STAKE - 40 ether + 1));
        registry.requireStake(worker, MIN_STAKE - 40 ether);
    }

    function test_whatACaseMayBurnStaysAndTheRestGoes() public {
        _unbond(MIN_STAKE);
        vm.prank(address(court));
        registry.lock(worker, SLASH);
        _skip(UNBONDING_S);
        vm.assertEq(_withdraw(), MIN_STAKE - SLASH);
        _refused(INodeRegistry.StakeUnderCase.selector, abi.encode(worker, SLASH));
        _withdraw();
        vm.startPrank(address(court));
        vm.expectEmit(address(registry));
        emit INodeRegistry.StakeUnlocked(worker, SLASH, 0);
        registry.unlock(worker, SLASH);
        vm.stopPrank();
        vm.assertEq(_withdraw(), SLASH);
        vm.assertEq(_held(worker), 0);
    }

    function test_locksAboveTheStakeBurnAllAndNoMore() public {
        _unbond(30 ether);
        vm.startPrank(address(court));
        for (uint256 i; i < 3; ++i) registry.lock(worker, SLASH);
        vm.stopPrank();
        _skip(UNBONDING_S);
        _refused(INodeRegistry.StakeUnderCase.selector, abi.encode(worker, 3 * SLASH));
        _withdraw();
        uint256 supply = token.totalSupply();
        vm.startPrank(address(court));
        vm.assertEq(registry.burn(worker, SLASH), SLASH); // 70 at work → 30
        vm.assertEq(registry.getNode(worker).unbonding, 30 ether);
        vm.assertEq(registry.burn(worker, SLASH), SLASH); // 30 at work, then 10 of the 30 unbonding
        vm.assertEq(registry.getNode(worker).unbonding, 20 ether);
        vm.assertEq(registry.burn(worker, SLASH), 20 ether);
        vm.stopPrank();
        vm.assertEq(supply - token.totalSupply(), MIN_STAKE);
        vm.assertEq(_held(worker), 0);
        vm.assertEq(registry.getNode(worker).locked, 0);
        _refused(INodeRegistry.ZeroAmount.selector, "");
        _withdraw();
    }

    function test_maturedStakeIsNotStuckAfterASlash() public {
        _unbond(70 ether);
        _skip(UNBONDING_S);
        vm.startPrank(address(court));
        registry.lock(worker, SLASH);
        registry.burn(worker, SLASH);
        vm.stopPrank();
        vm.assertEq(_withdraw(), 60 ether);
        vm.assertEq(_held(worker), 0);
    }

    /// Whatever was locked, withdrawn and burnt in between: what goes out is what came in.
    function testFuzz_nothingIsLostOrMade(uint96 extra, uint128 out, uint128[3] memory locks, bool[3] memory burns)
        public
    {
        uint256 total = uint256(MIN_STAKE) + extra;
        if (extra != 0) {
            _purse(_staker, extra, address(registry));
            vm.prank(_staker);
            registry.addStake(worker, extra);
        }
        _unbond(1 + out % total);
        uint256 locked;
        vm.startPrank(address(court));
        for (uint256 i; i < 3; ++i) {
            locks[i] = uint128(locks[i] % (total + 1));
            locked += locks[i];
            registry.lock(worker, locks[i]);
        }
        vm.stopPrank();
        _skip(UNBONDING_S);
        uint256 free = total > locked ? total - locked : 0;
        uint256 unbonding = registry.getNode(worker).unbonding;
        uint256 expected = free < unbonding ? free : unbonding;
        uint256 paid;
        if (expected == 0) _refused(INodeRegistry.StakeUnderCase.selector, abi.encode(worker, locked));
        else paid = expected;
        uint256 got = _withdraw();
        if (expected != 0) vm.assertEq(got, expected);
        uint256 burnt;
        vm.startPrank(address(court));
        for (uint256 i; i < 3; ++i) {
            if (burns[i]) burnt += registry.burn(worker, locks[i]);
            else registry.unlock(worker, locks[i]);
        }
        vm.stopPrank();
        vm.assertEq(registry.getNode(worker).locked, 0);
        vm.assertEq(_held(worker), total - paid - burnt);
        if (registry.getNode(worker).stake != 0) _unbond(registry.getNode(worker).stake);
        _skip(UNBONDING_S);
        if (total != paid + burnt) vm.assertEq(_withdraw(), total - paid - burnt);
        vm.assertEq(_held(worker), 0);
    }
}
