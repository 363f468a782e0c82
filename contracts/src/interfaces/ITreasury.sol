// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.30;

/// @title What pools hold for work, and what nodes have earned.
interface ITreasury {
    event PoolFunded(uint256 indexed poolId, address indexed by, uint256 amount, uint256 funds);
    event FundsReclaimed(uint256 indexed poolId, address indexed owner, uint256 amount);
    event WorkCredited(uint256 indexed poolId, address indexed node, uint256 units, uint256 amount);
    event CreditClaimed(address indexed node, address indexed staker, uint256 amount);

    error ZeroAmount();
    error NotPoolOwner(address caller);
    error StillOwing(uint256 until);

    /// By anyone, of approved tokens.
    function fund(uint256 poolId, uint256 amount) external;
    /// By the pool's owner, once the pool has ended and nothing can be judged any more.
    function reclaim(uint256 poolId) external returns (uint256 amount);
    /// By anyone, to the node's staker: all that the node has earned.
    function claim(address node) external returns (uint256 amount);
    /// By the court: units of verified work, paid as far as the pool's funds go; the units count in any case.
    function credit(uint256 poolId, address node, uint256 units) external;

    function fundsOf(uint256 poolId) external view returns (uint256);
    function creditOf(address node) external view returns (uint256);
    function unitsOf(uint256 poolId, address node) external view returns (uint256);
}
