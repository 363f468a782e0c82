// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.30;

import {TwoStep} from "../TwoStep.sol";

/// @title Pools: what their members agreed to, who owns them, and which key manages them now.
interface IPools {
    enum State {
        PENDING,
        ACTIVE,
        ENDED
    }

    /// @notice Fixed when the pool is created: nobody can change what a member joined under.
    /// @param minStake wei a member must have at work; @param slash wei burnt per dishonest submission, at most minStake
    /// @param unitPrice wei paid per verified unit of work
    /// @param memberLimit most members at once
    /// @param quorum validators that must agree on a verdict; @param panel how many are drawn at first, at least quorum
    /// @param roundS seconds until the panel widens; @param verdictS seconds after which nobody can be slashed any more,
    /// less than the registry's unbonding time
    /// @param challengeS seconds to appeal, and then again to judge the appeal, at most the registry's unbonding time
    /// @param leaseS seconds for which a manager that falls silent stays the manager
    /// @param requirementsUri where what a member's machine must be is described; at most 256 bytes, all read per verdict
    struct Terms {
        uint128 minStake;
        uint128 slash;
        uint128 unitPrice;
        uint32 memberLimit;
        uint8 quorum;
        uint8 panel;
        uint32 roundS;
        uint32 verdictS;
        uint32 challengeS;
        uint32 leaseS;
        string requirementsUri;
    }

    /// @param manager the key whose word counts now; @param epoch how often that changed
    /// @param leaseExpires seconds of chain time, inclusive; after it another of the pool's managers may take over.
    /// The largest number until the pool's first manager has taken its lease once
    /// @param endedAt seconds of chain time, 0 while not ended
    struct Pool {
        TwoStep.Owner owner;
        uint256 domainId;
        State state;
        bool joinsPaused;
        uint64 endedAt;
        address manager;
        uint64 epoch;
        uint64 leaseExpires;
    }

    event PoolCreated(uint256 indexed poolId, uint256 indexed domainId, address indexed owner, Terms terms);
    event PoolOwnerOffered(uint256 indexed poolId, address indexed to);
    event PoolOwnerChanged(uint256 indexed poolId, address indexed owner);
    event PoolStateChanged(uint256 indexed poolId, State state);
    event JoinsPaused(uint256 indexed poolId, bool paused);
    event ManagerSet(uint256 indexed poolId, address indexed manager, bool allowed);
    event LeaseTaken(uint256 indexed poolId, address indexed manager, uint256 epoch, uint256 expires);

    error UnknownPool(uint256 poolId);
    error ZeroAddress();
    error SlashAboveMinStake(uint256 slash, uint256 minStake);
    error BadQuorum(uint256 quorum, uint256 panel);
    error BadWindows();
    error RequirementsTooLong(uint256 size, uint256 limit);
    error WindowAboveUnbonding(uint256 windowS, uint256 unbondingS);
    error WrongState(State state);
    error NotManager(address caller);
    error LeaseHeld(address manager, uint256 expires);

    /// Only the domain's owner, who becomes the pool's owner. `manager` gets the first lease,
    /// which lapses only after that key has taken it once; until then the owner alone can give it to another.
    function createPool(uint256 domainId, address manager, Terms calldata terms) external returns (uint256 poolId);
    function offerPool(uint256 poolId, address to) external;
    function acceptPool(uint256 poolId) external;
    /// By the owner: from pending to active. Members can join from now on.
    function startPool(uint256 poolId) external;
    /// By the owner, for good: no joins and no submissions any more; verdicts, appeals, leaving and payouts go on.
    function endPool(uint256 poolId) external;
    /// By the owner or the manager. Nothing but joining can be paused.
    function pauseJoins(uint256 poolId, bool paused) external;
    /// By the owner: which keys may take the lease. Forbidding the one that holds it ends the lease at once.
    function setManager(uint256 poolId, address manager, bool allowed) external;
    /// By a key that may: renew one's own lease, or take over one that has lapsed. Everything the old one signs is void.
    function takeLease(uint256 poolId) external;

    function getPool(uint256 poolId) external view returns (Pool memory);
    function getTerms(uint256 poolId) external view returns (Terms memory);
    function mayManage(uint256 poolId, address account) external view returns (bool);
    function runId(uint256 poolId) external view returns (bytes32);
    function requireManager(uint256 poolId, address caller) external view;
}
