// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.30;

import {EIP712} from "@openzeppelin/contracts/utils/cryptography/EIP712.sol";
import {EnumerableSet} from "@openzeppelin/contracts/utils/structs/EnumerableSet.sol";
import {SignatureChecker} from "@openzeppelin/contracts/utils/cryptography/SignatureChecker.sol";
import {IComputePools} from "./interfaces/IComputePools.sol";
import {INodeRegistry} from "./interfaces/INodeRegistry.sol";
import {Pools} from "./Pools.sol";
import {Wired} from "./Wired.sol";

/// @title The members of pools. Nothing here costs more as members become more.
contract ComputePools is IComputePools, Pools, Wired, EIP712 {
    using EnumerableSet for EnumerableSet.AddressSet;

    bytes32 public constant INVITE_TYPEHASH = keccak256(
        "Invite(address node,uint256 poolId,uint256 domainId,uint8 role,uint256 nonce,uint256 expires,bytes32 salt)"
    );

    mapping(uint256 poolId => mapping(address node => Member)) private _members;
    mapping(uint256 poolId => EnumerableSet.AddressSet) private _active;
    mapping(uint256 poolId => mapping(Role => uint256)) public memberCount;
    mapping(uint256 poolId => mapping(address account => Bar)) public barOf;
    mapping(uint256 poolId => mapping(address node => uint64)) public leftAt;

    constructor(INodeRegistry registry_, bytes32 salt_) Pools(registry_, salt_) EIP712("intellect-node", "1") {}

    function join(Invite calldata invite, bytes calldata signature) external {
        (uint256 poolId, address node) = (invite.poolId, invite.node);
        Pool storage pool = _pool(poolId);
        Member storage member = _members[poolId][node];
        if (msg.sender != node) revert NotInvitedNode(msg.sender, node);
        if (pool.state != State.ACTIVE) revert WrongState(pool.state);
        if (pool.joinsPaused) revert JoinsArePaused(poolId);
        if (invite.domainId != pool.domainId) revert InviteWrongDomain(invite.domainId, pool.domainId);
        if (invite.role == Role.NONE) revert InviteWrongRole();
        if (invite.salt != salt) revert InviteWrongDeployment(invite.salt, salt);
        if (block.timestamp > invite.expires) revert InviteExpired(invite.expires, block.timestamp);
        _checkUnused(member, invite.nonce);
        if (!SignatureChecker.isValidSignatureNow(pool.manager, _inviteDigest(invite), signature)) {
            revert InviteNotByManager(pool.manager);
        }
        if (_isBarred(poolId, node)) revert AccountBlacklisted(node);
        registry.requireStake(node, _terms[poolId].minStake);
        if (_active[poolId].length() >= _terms[poolId].memberLimit) {
            revert PoolFull(poolId, _terms[poolId].memberLimit);
        }
        if (!_active[poolId].add(node)) revert AlreadyMember(poolId, node);
        if (member.role != invite.role) member.since = uint64(block.timestamp);
        (member.role, member.active) = (invite.role, true);
        member.used |= _bit(invite.nonce);
        ++memberCount[poolId][invite.role];
        emit MemberJoined(poolId, node, invite.role, invite.nonce);
    }

    function leave(uint256 poolId) external {
        _pool(poolId);
        if (_deactivate(poolId, msg.sender)) emit MemberLeft(poolId, msg.sender);
    }

    function cancelInvite(uint256 poolId, address node, uint256 nonce) external {
        requireManager(poolId, msg.sender);
        Member storage member = _members[poolId][node];
        _checkUnused(member, nonce);
        member.used |= _bit(nonce);
        emit InviteCancelled(poolId, node, nonce);
    }

    function eject(uint256 poolId, address node, bytes32 reason) external {
        requireManager(poolId, msg.sender);
        _eject(poolId, node, reason);
    }

    function blacklist(uint256 poolId, address account, bytes32 reason) external {
        requireManager(poolId, msg.sender);
        _blacklist(poolId, account, Bar.BY_MANAGER, reason);
    }

    function unblacklist(uint256 poolId, address account) external {
        requireManager(poolId, msg.sender);
        barOf[poolId][account] = Bar.NONE;
        emit Unblacklisted(poolId, account);
    }

    function purge(uint256 poolId, address node) external {
        if (!_isBarred(poolId, node)) revert NotBlacklisted(node);
        _eject(poolId, node, "blacklisted");
    }

    function punish(uint256 poolId, address node, bytes32 reason) external onlyWired {
        Bar bar = barOf[poolId][node];
        _blacklist(poolId, node, bar == Bar.NONE ? Bar.BY_VERDICT : bar, reason);
    }

    function pardon(uint256 poolId, address node) external onlyWired {
        if (barOf[poolId][node] != Bar.BY_VERDICT) return;
        barOf[poolId][node] = Bar.NONE;
        emit Unblacklisted(poolId, node);
    }

    function getMember(uint256 poolId, address node) external view returns (Member memory) {
        return _members[poolId][node];
    }

    function listMembers(uint256 poolId, uint256 start, uint256 count) external view returns (address[] memory) {
        return _active[poolId].values(start, start + count);
    }

    function isActive(uint256 poolId, address node) public view returns (bool) {
        return _members[poolId][node].active && !_isBarred(poolId, node);
    }

    function requireMember(uint256 poolId, address node, Role role) external view {
        if (!isActive(poolId, node)) revert NotActiveMember(poolId, node);
        Role given = _members[poolId][node].role;
        if (given != role) revert WrongRole(given, role);
        registry.requireStake(node, _terms[poolId].minStake);
    }

    function _checkUnused(Member storage member, uint256 nonce) private view {
        if (nonce >> 8 != member.epoch) revert InviteVoid(nonce, member.epoch);
        if (member.used & _bit(nonce) != 0) revert InviteUsed(nonce);
    }

    function _bit(uint256 nonce) private pure returns (uint256) {
        return 2 ** (nonce & 0xff);
    }

    /// In this pool or its domain, itself or by its staker.
    function _isBarred(uint256 poolId, address node) private view returns (bool) {
        uint256 domainId = _pool(poolId).domainId;
        address staker = registry.stakerOf(node);
        return barOf[poolId][node] != Bar.NONE || barOf[poolId][staker] != Bar.NONE
            || isBlacklistedInDomain[domainId][node] || isBlacklistedInDomain[domainId][staker];
    }

    function _inviteDigest(Invite calldata invite) private view returns (bytes32) {
        return _hashTypedDataV4(keccak256(abi.encode(INVITE_TYPEHASH, invite)));
    }

    function _deactivate(uint256 poolId, address node) private returns (bool wasActive) {
        wasActive = _active[poolId].remove(node);
        if (!wasActive) return false;
        Member storage member = _members[poolId][node];
        member.active = false;
        leftAt[poolId][node] = uint64(block.timestamp);
        --memberCount[poolId][member.role];
    }

    function _eject(uint256 poolId, address node, bytes32 reason) private {
        _deactivate(poolId, node);
        Member storage member = _members[poolId][node];
        ++member.epoch;
        member.used = 0;
        emit MemberEjected(poolId, node, msg.sender, reason);
    }

    function _blacklist(uint256 poolId, address account, Bar bar, bytes32 reason) private {
        barOf[poolId][account] = bar;
        emit Blacklisted(poolId, account, bar, reason);
        _eject(poolId, account, reason);
    }
}
