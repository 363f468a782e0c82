// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.30;

/// @title Who is a node, who stands behind it, and what it has at stake.
/// @notice A node is a hot key that works; its staker is the wallet that paid, and the only one who is ever paid.
interface INodeRegistry {
    /// @dev Signed by the node as EIP-712: it agrees to be this staker's. `expires` is in seconds of chain time,
    /// inclusive; `nonce` is `nonces(node)`.
    struct Binding {
        address staker;
        address node;
        uint256 nonce;
        uint256 expires;
        bytes32 salt;
    }

    /// @param stake wei at work
    /// @param unbonding wei on its way out, still within reach of a case
    /// @param locked wei that open cases may burn; never paid out
    /// @param matures seconds of chain time from which `unbonding` may be withdrawn
    struct Node {
        address staker;
        uint64 matures;
        uint128 stake;
        uint128 unbonding;
        uint128 locked;
    }

    event NodeRegistered(address indexed node, address indexed staker);
    event StakeAdded(address indexed node, uint256 amount, uint256 stake);
    event UnbondingStarted(address indexed node, uint256 amount, uint256 matures);
    event StakeWithdrawn(address indexed node, address indexed staker, uint256 amount);
    event StakeLocked(address indexed node, uint256 amount, uint256 locked);
    event StakeUnlocked(address indexed node, uint256 amount, uint256 locked);
    event StakeBurnt(address indexed node, uint256 amount, uint256 stake);

    error AlreadyRegistered(address node);
    error NotRegistered(address node);
    error NotStaker(address caller, address staker);
    error BindingExpired(uint256 expires, uint256 nowS);
    error BindingWrongDeployment(bytes32 given, bytes32 expected);
    error BindingNotByNode(address node);
    error ZeroAmount();
    error StakeTooLow(address node, uint256 stake, uint256 needed);
    error Unbonding(address node, uint256 matures);
    error StakeUnderCase(address node, uint256 locked);

    /// The caller becomes the staker of a node that agreed, once and for ever; takes `amount` of approved tokens.
    function register(Binding calldata binding, bytes calldata signature, uint256 amount) external;
    /// Anyone may add to a node's stake; it is the staker's from then on.
    function addStake(address node, uint256 amount) external;
    /// By the staker: start taking stake out. Adding to an earlier, unfinished request restarts its clock.
    function unbond(address node, uint256 amount) external;
    /// By the staker: everything that is unbonded, matured and not under a case.
    function withdraw(address node) external returns (uint256 amount);

    /// By the court: an open case may burn `amount`.
    function lock(address node, uint256 amount) external;
    function unlock(address node, uint256 amount) external;
    /// By the court: end a lock by burning it, from the stake first, as far as there is any.
    function burn(address node, uint256 amount) external returns (uint256 burnt);

    function unbondingS() external view returns (uint64);
    function getNode(address node) external view returns (Node memory);
    function stakerOf(address node) external view returns (address);
    /// Reverts unless `needed` is at work beyond what open cases may burn.
    function requireStake(address node, uint256 needed) external view;
}
