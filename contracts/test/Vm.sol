// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.30;

/// @dev The forge cheat codes the tests use.
interface Vm {
    function addr(uint256 key) external pure returns (address);
    function sign(uint256 key, bytes32 digest) external pure returns (uint8 v, bytes32 r, bytes32 s);
    function prank(address sender) external;
    function startPrank(address sender) external;
    function stopPrank() external;
    function warp(uint256 timeS) external;
    function expectRevert(bytes calldata data) external;
    function assume(bool condition) external pure;
    function assertEq(uint256 left, uint256 right) external pure;
    function assertEq(address left, address right) external pure;
    function assertEq(bytes32 left, bytes32 right) external pure;
    function assertTrue(bool condition) external pure;
    function assertFalse(bool condition) external pure;
}

Vm constant vm = Vm(address(uint160(uint256(keccak256("hevm cheat code")))));
