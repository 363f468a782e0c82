// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.30;

import {ComputePools} from "../src/ComputePools.sol";
import {IComputePools} from "../src/interfaces/IComputePools.sol";
import {NodeRegistry} from "../src/NodeRegistry.sol";
import {RunLedger} from "../src/RunLedger.sol";
import {StakeToken} from "../src/StakeToken.sol";
import {vm} from "./Vm.sol";

/// @dev A deployment with one domain, one pool, three registered nodes and the means to invite them.
abstract contract Fixture {
    uint128 internal constant MIN_STAKE = 100 ether;
    uint128 internal constant SLASH = 40 ether;
    bytes32 internal constant SALT = keccak256("this deployment");
    bytes32 internal constant FILE = keccak256("a file");
    uint256 internal constant MANAGER_KEY = 0xA11CE;

    address internal manager = vm.addr(MANAGER_KEY);
    address internal owner = address(0x0171);
    address internal worker = address(0x1001);
    address internal other = address(0x1002);
    address internal validator = address(0x1003);

    StakeToken internal token;
    NodeRegistry internal registry;
    ComputePools internal pools;
    RunLedger internal runs;
    uint256 internal domainId;
    uint256 internal poolId;

    function setUp() public virtual {
        vm.warp(1_000_000);
        token = new StakeToken(address(this));
        registry = new NodeRegistry(token);
        pools = new ComputePools(registry, SALT);
        runs = new RunLedger(pools, registry);
        address[] memory callers = new address[](2);
        (callers[0], callers[1]) = (address(pools), address(runs));
        registry.wire(callers);
        callers = new address[](1);
        callers[0] = address(runs);
        pools.wire(callers);
        vm.startPrank(owner);
        domainId = pools.createDomain("maths");
        poolId = pools.createPool(domainId, manager, MIN_STAKE, SLASH);
        vm.stopPrank();
        _register(worker, MIN_STAKE);
        _register(other, MIN_STAKE);
        _register(validator, MIN_STAKE);
    }

    function _register(address node, uint256 amount) internal {
        token.mint(node, amount);
        vm.startPrank(node);
        token.approve(address(registry), amount);
        registry.register(amount);
        vm.stopPrank();
    }

    function _invite(address node, IComputePools.Role role) internal view returns (IComputePools.Invite memory) {
        uint256 nonce = pools.getMember(poolId, node).nonce;
        return IComputePools.Invite(node, poolId, domainId, role, nonce, block.timestamp + 60, SALT);
    }

    function _signAs(uint256 key, IComputePools.Invite memory invite) internal view returns (bytes memory) {
        bytes32 domain = keccak256(
            abi.encode(
                keccak256("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"),
                keccak256("intellect-node"),
                keccak256("1"),
                block.chainid,
                address(pools)
            )
        );
        bytes32 digest =
            keccak256(abi.encodePacked("\x19\x01", domain, keccak256(abi.encode(pools.INVITE_TYPEHASH(), invite))));
        (uint8 v, bytes32 r, bytes32 s) = vm.sign(key, digest);
        return abi.encodePacked(r, s, v);
    }

    function _sign(IComputePools.Invite memory invite) internal view returns (bytes memory) {
        return _signAs(MANAGER_KEY, invite);
    }

    function _join(address node, IComputePools.Role role) internal {
        IComputePools.Invite memory invite = _invite(node, role);
        bytes memory signature = _sign(invite);
        vm.prank(node);
        pools.join(invite, signature);
    }

    function _joinAll() internal {
        _join(worker, IComputePools.Role.WORKER);
        _join(validator, IComputePools.Role.VALIDATOR);
    }

    function _submit() internal returns (bytes32) {
        vm.prank(worker);
        return runs.submit(poolId, 0, 0, FILE);
    }

    function _refused(bytes4 selector, bytes memory arguments) internal {
        vm.expectRevert(abi.encodePacked(selector, arguments));
    }
}
