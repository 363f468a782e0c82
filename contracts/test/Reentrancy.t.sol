// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.30;

import {ReentrancyGuardTransient} from "@openzeppelin/contracts/utils/ReentrancyGuardTransient.sol";
import {INodeRegistry} from "../src/interfaces/INodeRegistry.sol";
import {Fixture} from "./Fixture.sol";
import {CallingToken} from "./wallets/CallingToken.sol";
import {vm} from "./Vm.sol";

/// @dev Ours calls nobody. Were another token used, one that does, nothing could be taken twice.
contract ReentrancyTest is Fixture {
    CallingToken private _calling;
    address private _staker = _stakerOfKey(WORKER_KEY);

    function _newToken() internal override {
        _calling = new CallingToken(address(this));
        token = _calling;
    }

    function _refuseWithin(address target, bytes memory inner) private {
        _calling.callNext(target, inner);
        _refused(ReentrancyGuardTransient.ReentrancyGuardReentrantCall.selector, "");
    }

    function test_attack_withdrawWithinWithdraw() public {
        vm.prank(_staker);
        registry.unbond(worker, MIN_STAKE);
        _skip(UNBONDING_S);
        _refuseWithin(address(registry), abi.encodeCall(registry.withdraw, (worker)));
        vm.prank(_staker);
        registry.withdraw(worker);
        _refuseWithin(address(registry), abi.encodeCall(registry.addStake, (worker, 1)));
        vm.prank(_staker);
        registry.withdraw(worker);
    }

    function test_attack_registerWithinRegister() public {
        address staker = _stakerOfKey(0x3001);
        _purse(staker, MIN_STAKE, address(registry));
        INodeRegistry.Binding memory binding = _binding(vm.addr(0x3001), staker);
        bytes memory signature = _signBinding(0x3001, binding);
        _refuseWithin(address(registry), abi.encodeCall(registry.register, (binding, signature, 1)));
        vm.prank(staker);
        registry.register(binding, signature, MIN_STAKE);
    }

    function test_attack_claimWithinClaimOrFund() public {
        _purse(stranger, 10 ether, address(treasury));
        vm.prank(stranger);
        treasury.fund(poolId, 5 ether);
        vm.prank(address(court));
        treasury.credit(poolId, worker, 1000);
        bytes memory claim = abi.encodeCall(treasury.claim, (worker));
        _refuseWithin(address(treasury), claim);
        treasury.claim(worker);
        _refuseWithin(address(treasury), claim);
        vm.prank(stranger);
        treasury.fund(poolId, 5 ether);
        vm.prank(owner);
        pools.endPool(poolId);
        _skip(VERDICT_S + 2 * CHALLENGE_S + 1);
        _refuseWithin(address(treasury), claim);
        vm.prank(owner);
        treasury.reclaim(poolId);
    }
}
