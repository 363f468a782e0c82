// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.30;

import {Nonces} from "@openzeppelin/contracts/utils/Nonces.sol";
import {INodeRegistry} from "../src/interfaces/INodeRegistry.sol";
import {Fixture} from "./Fixture.sol";
import {ContractWallet} from "./wallets/ContractWallet.sol";
import {vm} from "./Vm.sol";

contract BindingsTest is Fixture {
    uint256 private constant KEY = 0x3001;
    address private _node = vm.addr(KEY);
    address private _staker = _stakerOfKey(KEY);

    function setUp() public override {
        super.setUp();
        _purse(_staker, 10 * MIN_STAKE, address(registry));
    }

    function _refuse(INodeRegistry.Binding memory binding, bytes memory signature, bytes4 why, bytes memory arguments)
        private
    {
        _refused(why, arguments);
        vm.prank(_staker);
        registry.register(binding, signature, MIN_STAKE);
        vm.assertEq(registry.stakerOf(_node), address(0));
    }

    function test_aNodeThatAgreedIsBound() public {
        INodeRegistry.Binding memory binding = _binding(_node, _staker);
        bytes memory signature = _signBinding(KEY, binding);
        vm.expectEmit(address(registry));
        emit INodeRegistry.NodeRegistered(_node, _staker);
        vm.expectEmit(address(registry));
        emit INodeRegistry.StakeAdded(_node, MIN_STAKE, MIN_STAKE);
        vm.prank(_staker);
        registry.register(binding, signature, MIN_STAKE);
        vm.assertEq(registry.stakerOf(_node), _staker);
        vm.assertEq(registry.getNode(_node).stake, MIN_STAKE);
        vm.assertEq(token.balanceOf(address(registry)), 3 * MIN_STAKE);
    }

    function test_aWalletMayBeItsOwnNode() public {
        _newNodeOf(0x3002, vm.addr(0x3002), MIN_STAKE);
        vm.assertEq(registry.stakerOf(vm.addr(0x3002)), vm.addr(0x3002));
    }

    function test_oneStakerHasManyNodes() public {
        _newNodeOf(0x3003, _staker, MIN_STAKE);
        _newNodeOf(0x3004, _staker, MIN_STAKE);
        vm.assertEq(registry.getNode(vm.addr(0x3003)).stake, MIN_STAKE);
        vm.assertEq(registry.getNode(vm.addr(0x3004)).stake, MIN_STAKE);
    }

    function test_aContractWalletIsANode() public {
        ContractWallet wallet = new ContractWallet(_node);
        INodeRegistry.Binding memory binding = _binding(address(wallet), _staker);
        bytes memory signature = _signBinding(KEY, binding);
        vm.prank(_staker);
        registry.register(binding, signature, MIN_STAKE);
        vm.assertEq(registry.stakerOf(address(wallet)), _staker);
    }

    function test_attack_anotherStakerUsesTheBinding() public {
        INodeRegistry.Binding memory binding = _binding(_node, _staker);
        bytes memory signature = _signBinding(KEY, binding);
        _refused(INodeRegistry.NotStaker.selector, abi.encode(stranger, _staker));
        vm.prank(stranger);
        registry.register(binding, signature, MIN_STAKE);
        binding.staker = stranger;
        _refused(INodeRegistry.BindingNotByNode.selector, abi.encode(_node));
        vm.prank(stranger);
        registry.register(binding, signature, MIN_STAKE);
    }

    function test_attack_aStakerClaimsANodeThatDidNotAgree() public {
        INodeRegistry.Binding memory binding = _binding(_node, _staker);
        _refuse(binding, _signBinding(0xBAD, binding), INodeRegistry.BindingNotByNode.selector, abi.encode(_node));
        _refuse(binding, "", INodeRegistry.BindingNotByNode.selector, abi.encode(_node));
    }

    function test_attack_registeringAgainToWashTheRecord() public {
        INodeRegistry.Binding memory binding = _binding(worker, stranger);
        bytes memory signature = _signBinding(WORKER_KEY, binding);
        _refused(INodeRegistry.AlreadyRegistered.selector, abi.encode(worker));
        vm.prank(stranger);
        registry.register(binding, signature, MIN_STAKE);
        vm.assertEq(registry.stakerOf(worker), _stakerOfKey(WORKER_KEY));
    }

    function test_attack_expiredBinding() public {
        INodeRegistry.Binding memory binding = _binding(_node, _staker);
        bytes memory signature = _signBinding(KEY, binding);
        vm.warp(binding.expires + 1);
        bytes memory arguments = abi.encode(binding.expires, binding.expires + 1);
        _refuse(binding, signature, INodeRegistry.BindingExpired.selector, arguments);
        vm.warp(binding.expires);
        vm.prank(_staker);
        registry.register(binding, signature, MIN_STAKE);
    }

    function test_attack_bindingOfAnotherDeployment() public {
        INodeRegistry.Binding memory binding = _binding(_node, _staker);
        binding.salt = keccak256("another deployment");
        bytes memory signature = _signBinding(KEY, binding);
        bytes memory arguments = abi.encode(binding.salt, SALT);
        _refuse(binding, signature, INodeRegistry.BindingWrongDeployment.selector, arguments);
        binding.salt = SALT; // the signature is then over other data
        _refuse(binding, signature, INodeRegistry.BindingNotByNode.selector, abi.encode(_node));
    }

    function test_attack_bindingForAnotherContract() public {
        INodeRegistry.Binding memory binding = _binding(_node, _staker);
        bytes32 hash = keccak256(abi.encode(registry.BINDING_TYPEHASH(), binding));
        bytes memory signature = _signTyped(KEY, address(pools), hash);
        _refuse(binding, signature, INodeRegistry.BindingNotByNode.selector, abi.encode(_node));
    }

    function test_attack_wrongNonce() public {
        INodeRegistry.Binding memory binding = _binding(_node, _staker);
        binding.nonce = 1;
        _refuse(binding, _signBinding(KEY, binding), Nonces.InvalidAccountNonce.selector, abi.encode(_node, 0));
    }

    function test_aNodeWithoutStakeIsNone() public {
        INodeRegistry.Binding memory binding = _binding(_node, _staker);
        bytes memory signature = _signBinding(KEY, binding);
        _refused(INodeRegistry.ZeroAmount.selector, "");
        vm.prank(_staker);
        registry.register(binding, signature, 0);
        vm.assertEq(registry.nonces(_node), 0);
    }

    function testFuzz_everyFieldIsSigned(uint256 nonce, uint64 later, address staker) public {
        INodeRegistry.Binding memory signed = _binding(_node, _staker);
        bytes memory signature = _signBinding(KEY, signed);
        vm.assume(staker != address(0) && (staker != signed.staker || later != 0));
        INodeRegistry.Binding memory binding =
            INodeRegistry.Binding(staker, _node, signed.nonce, signed.expires + later, SALT);
        _refused(INodeRegistry.BindingNotByNode.selector, abi.encode(_node));
        vm.prank(staker);
        registry.register(binding, signature, MIN_STAKE);
        vm.assume(nonce != 0);
        signed.nonce = nonce;
        _refuse(signed, signature, Nonces.InvalidAccountNonce.selector, abi.encode(_node, 0));
    }
}
