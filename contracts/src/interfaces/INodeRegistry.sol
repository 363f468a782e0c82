// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.30;

/// @title Who is a node and what it has at stake.
interface INodeRegistry {
    /// @param stake tokens held for the node, in wei
    /// @param holds reasons why the stake may not go: memberships and unjudged submissions
    struct Node {
        uint128 stake;
        uint64 holds;
        bool registered;
    }

    event NodeRegistered(address indexed node);
    event StakeAdded(address indexed node, uint256 amount, uint256 stake);
    event StakeWithdrawn(address indexed node, uint256 amount, uint256 stake);
    event StakeSlashed(address indexed node, uint256 amount, uint256 stake);

    error AlreadyRegistered(address node);
    error NotRegistered(address node);
    error ZeroAmount();
    error StakeHeld(address node, uint256 holds);
    error StakeTooLow(address node, uint256 stake, uint256 needed);

    /// Become a node; takes `amount` of approved tokens.
    function register(uint256 amount) external;
    function addStake(uint256 amount) external;
    /// Take stake back; only while nothing holds it.
    function unstake(uint256 amount) external;

    function hold(address node) external;
    function release(address node) external;
    /// Burn up to `amount` of the node's stake; returns what was burnt.
    function slash(address node, uint256 amount) external returns (uint256 burnt);

    function getNode(address node) external view returns (Node memory);
    /// Reverts unless the node is registered with at least `needed` at stake.
    function requireStake(address node, uint256 needed) external view;
}
