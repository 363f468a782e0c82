// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.30;

import {TwoStep} from "../TwoStep.sol";

/// @title Domains, their pools, and the members a pool's manager invited.
interface IComputePools {
    enum Role {
        NONE,
        WORKER,
        VALIDATOR,
        RELAY
    }

    struct Domain {
        TwoStep.Owner owner;
        string name;
    }

    /// @param minStake wei of stake a member must have; @param slash wei burnt per rejection, at most minStake
    struct Pool {
        TwoStep.Owner owner;
        address manager;
        uint256 domainId;
        uint128 minStake;
        uint128 slash;
        uint256 memberCount;
    }

    /// @param nonce the number of the only invite that is still good for this node in this pool
    struct Member {
        Role role;
        bool active;
        bool ejected;
        uint64 nonce;
    }

    /// @dev Signed by the pool's manager as EIP-712; `expires` is in seconds of chain time, inclusive.
    struct Invite {
        address node;
        uint256 poolId;
        uint256 domainId;
        Role role;
        uint256 nonce;
        uint256 expires;
        bytes32 salt;
    }

    event DomainCreated(uint256 indexed domainId, address indexed owner, string name);
    event DomainOwnerOffered(uint256 indexed domainId, address indexed to);
    event DomainOwnerChanged(uint256 indexed domainId, address indexed owner);
    event PoolCreated(
        uint256 indexed poolId,
        uint256 indexed domainId,
        address indexed owner,
        address manager,
        uint256 minStake,
        uint256 slash
    );
    event PoolOwnerOffered(uint256 indexed poolId, address indexed to);
    event PoolOwnerChanged(uint256 indexed poolId, address indexed owner);
    event ManagerChanged(uint256 indexed poolId, address indexed manager);
    event InvitesRevoked(uint256 indexed poolId, address indexed node, uint256 nextNonce);
    event MemberJoined(uint256 indexed poolId, address indexed node, Role role, uint256 nonce);
    event MemberLeft(uint256 indexed poolId, address indexed node);
    event MemberEjected(uint256 indexed poolId, address indexed node, address indexed by, bytes32 reason);

    error UnknownDomain(uint256 domainId);
    error UnknownPool(uint256 poolId);
    error ZeroAddress();
    error SlashAboveMinStake(uint256 slash, uint256 minStake);
    error NotManager(address caller);
    error NotInvitedNode(address caller, address node);
    error InviteWrongDomain(uint256 given, uint256 expected);
    error InviteWrongRole();
    error InviteWrongDeployment(bytes32 given, bytes32 expected);
    error InviteExpired(uint256 expires, uint256 nowS);
    error InviteUsed(uint256 given, uint256 expected);
    error InviteNotByManager(address manager);
    error AlreadyMember(uint256 poolId, address node);
    error NotActiveMember(uint256 poolId, address node);
    error WrongRole(Role given, Role expected);

    function createDomain(string calldata name) external returns (uint256 domainId);
    function offerDomain(uint256 domainId, address to) external;
    function acceptDomain(uint256 domainId) external;

    /// Only the domain's owner, who becomes the pool's owner.
    function createPool(uint256 domainId, address manager, uint128 minStake, uint128 slash)
        external
        returns (uint256 poolId);
    function offerPool(uint256 poolId, address to) external;
    function acceptPool(uint256 poolId) external;
    function setManager(uint256 poolId, address manager) external;

    /// Called by the invited node itself; uses the invite up.
    function join(Invite calldata invite, bytes calldata signature) external;
    function leave(uint256 poolId) external;
    /// Makes every invite given to the node so far void.
    function revokeInvites(uint256 poolId, address node) external;
    /// By the manager, without a slash; void invites too.
    function eject(uint256 poolId, address node, bytes32 reason) external;
    /// By the run ledger after a rejection: slash, and eject if still a member.
    function punish(uint256 poolId, address node, bytes32 reason) external;

    function getDomain(uint256 domainId) external view returns (Domain memory);
    function getPool(uint256 poolId) external view returns (Pool memory);
    function getMember(uint256 poolId, address node) external view returns (Member memory);
    /// Up to `count` active members, from index `start`, in no particular order.
    function listMembers(uint256 poolId, uint256 start, uint256 count) external view returns (address[] memory);
    function runId(uint256 poolId) external view returns (bytes32);
    function requireManager(uint256 poolId, address caller) external view;
    /// Reverts unless `node` is an active member with this role and enough stake.
    function requireMember(uint256 poolId, address node, Role role) external view;
}
