// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.30;

import {IDomains} from "./IDomains.sol";
import {IPools} from "./IPools.sol";

/// @title The members of pools: invited by the manager, free to leave, put out by the manager or by a verdict.
interface IComputePools is IDomains, IPools {
    enum Role {
        NONE,
        WORKER,
        VALIDATOR,
        RELAY
    }

    enum Bar {
        NONE,
        BY_VERDICT,
        BY_MANAGER
    }

    /// @param since seconds of chain time of the first join in this role; a validator judges nothing older
    /// @param epoch invites of earlier epochs are void; @param used one bit per invite of this epoch that is used up
    struct Member {
        Role role;
        bool active;
        uint64 since;
        uint64 epoch;
        uint256 used;
    }

    /// @dev Signed by the pool's manager as EIP-712. `expires` is in seconds of chain time, inclusive. `nonce` is
    /// the member's epoch times 256 plus a number from 0 to 255 that was not used in it.
    struct Invite {
        address node;
        uint256 poolId;
        uint256 domainId;
        Role role;
        uint256 nonce;
        uint256 expires;
        bytes32 salt;
    }

    event InviteCancelled(uint256 indexed poolId, address indexed node, uint256 nonce);
    event MemberJoined(uint256 indexed poolId, address indexed node, Role role, uint256 nonce);
    event MemberLeft(uint256 indexed poolId, address indexed node);
    event MemberEjected(uint256 indexed poolId, address indexed node, address indexed by, bytes32 reason);
    event Blacklisted(uint256 indexed poolId, address indexed account, Bar bar, bytes32 reason);
    event Unblacklisted(uint256 indexed poolId, address indexed account);

    error JoinsArePaused(uint256 poolId);
    error PoolFull(uint256 poolId, uint256 memberLimit);
    error AccountBlacklisted(address account);
    error NotBlacklisted(address account);
    error NotInvitedNode(address caller, address node);
    error InviteWrongDomain(uint256 given, uint256 expected);
    error InviteWrongRole();
    error InviteWrongDeployment(bytes32 given, bytes32 expected);
    error InviteExpired(uint256 expires, uint256 nowS);
    error InviteVoid(uint256 nonce, uint256 epoch);
    error InviteUsed(uint256 nonce);
    error InviteNotByManager(address manager);
    error AlreadyMember(uint256 poolId, address node);
    error NotActiveMember(uint256 poolId, address node);
    error WrongRole(Role given, Role expected);

    /// Called by the invited node itself; uses the invite up.
    function join(Invite calldata invite, bytes calldata signature) external;
    /// Always possible, in every state of the pool; no error for one that is no member.
    function leave(uint256 poolId) external;
    /// By the manager: this one invite is void.
    function cancelInvite(uint256 poolId, address node, uint256 nonce) external;
    /// By the manager, without a slash: out of the pool, and all open invites void. Coming back takes a new one.
    function eject(uint256 poolId, address node, bytes32 reason) external;
    /// By the manager: ejected, and no invite counts for it, as a node or as a staker, until it is unblacklisted.
    function blacklist(uint256 poolId, address account, bytes32 reason) external;
    function unblacklist(uint256 poolId, address account) external;
    /// By anyone: eject a member that, or whose staker, the pool or its domain has blacklisted.
    function purge(uint256 poolId, address node) external;

    /// By the court, on a dishonest node: ejected and blacklisted.
    function punish(uint256 poolId, address node, bytes32 reason) external;
    /// By the court, when all of that was overturned: no longer blacklisted, unless the manager did that on its own account.
    function pardon(uint256 poolId, address node) external;

    function getMember(uint256 poolId, address node) external view returns (Member memory);
    /// Seconds of chain time at which it last left or was put out; 0 if it never did.
    function leftAt(uint256 poolId, address node) external view returns (uint64);
    function barOf(uint256 poolId, address account) external view returns (Bar);
    function memberCount(uint256 poolId, Role role) external view returns (uint256);
    /// Up to `count` active members, from index `start`, in no particular order.
    function listMembers(uint256 poolId, uint256 start, uint256 count) external view returns (address[] memory);
    function isActive(uint256 poolId, address node) external view returns (bool);
    /// Reverts unless `node` is active with this role and has the pool's stake at work.
    function requireMember(uint256 poolId, address node, Role role) external view;
}
