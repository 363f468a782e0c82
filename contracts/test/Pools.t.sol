// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.30;

import {IComputePools} from "../src/interfaces/IComputePools.sol";
import {INodeRegistry} from "../src/interfaces/INodeRegistry.sol";
import {TwoStep} from "../src/TwoStep.sol";
import {Wired} from "../src/Wired.sol";
import {Fixture} from "./Fixture.sol";
import {vm} from "./Vm.sol";

contract PoolsTest is Fixture {
    function test_ownershipMovesInTwoSteps() public {
        vm.startPrank(owner);
        pools.offerPool(poolId, other);
        pools.offerDomain(domainId, other);
        vm.stopPrank();
        vm.assertEq(pools.getPool(poolId).owner.current, owner);
        _refused(TwoStep.NotPendingOwner.selector, abi.encode(worker));
        vm.prank(worker);
        pools.acceptPool(poolId);
        vm.startPrank(other);
        pools.acceptPool(poolId);
        pools.acceptDomain(domainId);
        pools.createPool(domainId, other, 0, 0);
        vm.stopPrank();
        vm.assertEq(pools.getPool(poolId).owner.current, other);
        vm.assertEq(pools.getDomain(domainId).owner.pending, address(0));
        _refused(TwoStep.NotOwner.selector, abi.encode(owner));
        vm.prank(owner);
        pools.setManager(poolId, owner);
    }

    function test_onlyTheDomainsOwnerCreatesPools() public {
        _refused(TwoStep.NotOwner.selector, abi.encode(worker));
        vm.prank(worker);
        pools.createPool(domainId, worker, 0, 0);
        _refused(IComputePools.UnknownDomain.selector, abi.encode(9));
        pools.createPool(9, worker, 0, 0);
        vm.startPrank(owner);
        _refused(IComputePools.SlashAboveMinStake.selector, abi.encode(2, 1));
        pools.createPool(domainId, worker, 1, 2);
        _refused(IComputePools.ZeroAddress.selector, "");
        pools.createPool(domainId, address(0), 1, 1);
        _refused(IComputePools.UnknownPool.selector, abi.encode(9));
        pools.getPool(9);
    }

    function test_onlyTheManagerEjects() public {
        _joinAll();
        _refused(IComputePools.NotManager.selector, abi.encode(validator));
        vm.prank(validator);
        pools.eject(poolId, worker, "grudge");
        vm.startPrank(manager);
        pools.eject(poolId, worker, "silent");
        _refused(IComputePools.NotActiveMember.selector, abi.encode(poolId, worker));
        pools.eject(poolId, worker, "again");
        vm.assertEq(registry.getNode(worker).stake, MIN_STAKE);
        vm.assertEq(pools.getPool(poolId).memberCount, 1);
    }

    function test_memberLeavesAndTakesItsStake() public {
        _join(worker, IComputePools.Role.WORKER);
        vm.startPrank(worker);
        _refused(INodeRegistry.StakeHeld.selector, abi.encode(worker, 1));
        registry.unstake(MIN_STAKE);
        pools.leave(poolId);
        registry.unstake(MIN_STAKE);
        vm.assertEq(token.balanceOf(worker), MIN_STAKE);
        _refused(IComputePools.NotActiveMember.selector, abi.encode(poolId, worker));
        pools.leave(poolId);
    }

    function test_ejectedNodeReclaimsItsRemainingStake() public {
        _join(worker, IComputePools.Role.WORKER);
        vm.prank(manager);
        pools.eject(poolId, worker, "silent");
        vm.prank(worker);
        registry.unstake(MIN_STAKE);
        vm.assertEq(token.balanceOf(worker), MIN_STAKE);
    }

    function test_attack_privilegedCallsFromOutside() public {
        _refused(Wired.NotWired.selector, abi.encode(manager));
        vm.prank(manager);
        registry.slash(worker, 1);
        _refused(Wired.NotWired.selector, abi.encode(manager));
        vm.prank(manager);
        registry.release(worker);
        _refused(Wired.NotWired.selector, abi.encode(manager));
        vm.prank(manager);
        pools.punish(poolId, worker, "grudge");
        address[] memory callers = new address[](1);
        callers[0] = manager;
        _refused(Wired.NotDeployer.selector, abi.encode(manager));
        vm.prank(manager);
        registry.wire(callers);
        _refused(Wired.AlreadyWired.selector, "");
        registry.wire(callers);
    }

    function test_registersOnceAndAddsStake() public {
        token.mint(worker, 5);
        vm.startPrank(worker);
        token.approve(address(registry), 5);
        _refused(INodeRegistry.AlreadyRegistered.selector, abi.encode(worker));
        registry.register(5);
        registry.addStake(5);
        vm.assertEq(registry.getNode(worker).stake, MIN_STAKE + 5);
        _refused(INodeRegistry.StakeTooLow.selector, abi.encode(worker, MIN_STAKE + 5, MIN_STAKE + 6));
        registry.unstake(MIN_STAKE + 6);
        _refused(INodeRegistry.ZeroAmount.selector, "");
        registry.addStake(0);
    }

    function testFuzz_stakeIsConserved(uint96 added, uint96 taken) public {
        vm.assume(added > 0);
        token.mint(worker, added);
        vm.startPrank(worker);
        token.approve(address(registry), added);
        registry.addStake(added);
        uint256 stake = uint256(MIN_STAKE) + added;
        uint256 amount = 1 + uint256(taken) % stake;
        registry.unstake(amount);
        vm.assertEq(registry.getNode(worker).stake, stake - amount);
        vm.assertEq(token.balanceOf(worker), amount);
        vm.assertEq(token.balanceOf(address(registry)), 3 * uint256(MIN_STAKE) + added - amount);
    }

    function test_runIdBindsChainContractSaltAndPool() public view {
        vm.assertEq(pools.runId(poolId), keccak256(abi.encode(block.chainid, address(pools), SALT, poolId)));
    }
}
