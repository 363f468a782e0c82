// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.30;

import {Ownable} from "@openzeppelin/contracts/access/Ownable.sol";
import {StakeToken} from "../src/StakeToken.sol";
import {Wired} from "../src/Wired.sol";
import {Fixture} from "./Fixture.sol";
import {vm} from "./Vm.sol";

contract WiredTest is Fixture {
    function test_theDeployerWiresOnce() public {
        Wired fresh = new Wirable();
        address[] memory callers = new address[](2);
        (callers[0], callers[1]) = (worker, other);
        _refused(Wired.NotDeployer.selector, abi.encode(stranger));
        vm.prank(stranger);
        fresh.wire(callers);
        vm.expectEmit(address(fresh));
        emit Wired.CallersWired(callers);
        fresh.wire(callers);
        vm.assertTrue(fresh.isWired(worker) && fresh.isWired(other) && !fresh.isWired(stranger));
        _refused(Wired.AlreadyWired.selector, "");
        fresh.wire(callers);
        vm.assertEq(fresh.deployer(), address(this));
    }

    function test_attack_theCourtsPowersInOtherHands() public {
        bytes[6] memory calls = [
            abi.encodeCall(registry.lock, (worker, 1)),
            abi.encodeCall(registry.unlock, (worker, 1)),
            abi.encodeCall(registry.burn, (worker, 1)),
            abi.encodeCall(pools.punish, (poolId, worker, "")),
            abi.encodeCall(pools.pardon, (poolId, worker)),
            abi.encodeCall(treasury.credit, (poolId, worker, 1))
        ];
        address[4] memory callers = [owner, manager, stranger, address(this)];
        for (uint256 i; i < calls.length; ++i) {
            for (uint256 j; j < callers.length; ++j) {
                address target = i < 3 ? address(registry) : i < 5 ? address(pools) : address(treasury);
                vm.prank(callers[j]);
                (bool done, bytes memory why) = target.call(calls[i]);
                vm.assertFalse(done);
                vm.assertEq(keccak256(why), keccak256(abi.encodeWithSelector(Wired.NotWired.selector, callers[j])));
            }
        }
        _refused(Wired.NotWired.selector, abi.encode(stranger));
        vm.prank(stranger);
        registry.burn(worker, 1);
    }

    function test_onlyTheOwnerMintsAndTheOwnerChangesInTwoSteps() public {
        _refused(Ownable.OwnableUnauthorizedAccount.selector, abi.encode(stranger));
        vm.prank(stranger);
        token.mint(stranger, 1);
        StakeToken fresh = new StakeToken(owner);
        vm.prank(owner);
        fresh.transferOwnership(other);
        vm.assertEq(fresh.owner(), owner);
        vm.prank(other);
        fresh.acceptOwnership();
        vm.prank(other);
        fresh.mint(stranger, 5);
        vm.prank(stranger);
        fresh.burn(2);
        vm.assertEq(fresh.totalSupply(), 3);
        vm.assertEq(fresh.balanceOf(stranger), 3);
    }
}

contract Wirable is Wired {}
