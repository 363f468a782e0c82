// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.30;

import {EIP712} from "@openzeppelin/contracts/utils/cryptography/EIP712.sol";
import {EnumerableSet} from "@openzeppelin/contracts/utils/structs/EnumerableSet.sol";
import {SignatureChecker} from "@openzeppelin/contracts/utils/cryptography/SignatureChecker.sol";
import {Domains} from "./Domains.sol";
import {INodeRegistry} from "./interfaces/INodeRegistry.sol";
import {TwoStep} from "./TwoStep.sol";
import {Wired} from "./Wired.sol";

/// @title Pools and their members. Ids start at 1.
contract ComputePools is Domains, Wired, EIP712 {
    using EnumerableSet for EnumerableSet.AddressSet;
    using TwoStep for TwoStep.Owner;

    bytes32 public constant INVITE_TYPEHASH = keccak256(
        "Invite(address node,uint256 poolId,uint256 domainId,uint8 role,uint256 nonce,uint256 expires,bytes32 salt)"
    );

    INodeRegistry public immutable registry;
    /// Tells two deployments apart even where chain id and addresses repeat.
    bytes32 public immutable salt;
    uint256 public poolCount;
    mapping(uint256 poolId => Pool) private _pools;
    mapping(uint256 poolId => mapping(address node => Member)) private _members;
    mapping(uint256 poolId => EnumerableSet.AddressSet) private _active;

    constructor(INodeRegistry registry_, bytes32 salt_) EIP712("intellect-node", "1") {
        registry = registry_;
        salt = salt_;
    }

    function createPool(uint256 domainId, address manager, uint128 minStake, uint128 slash)
        external
        returns (uint256 poolId)
    {
        _domain(domainId).owner.check();
        if (manager == address(0)) revert ZeroAddress();
        if (slash > minStake) revert SlashAboveMinStake(slash, minStake);
        poolId = ++poolCount;
        _pools[poolId] = Pool(TwoStep.Owner(msg.sender, address(0)), manager, domainId, minStake, slash, 0);
        emit PoolCreated(poolId, domainId, msg.sender, manager, minStake, slash);
    }

    function offerPool(uint256 poolId, address to) external {
        _pool(poolId).owner.offer(to);
        emit PoolOwnerOffered(poolId, to);
    }

    function acceptPool(uint256 poolId) external {
        _pool(poolId).owner.accept();
        emit PoolOwnerChanged(poolId, msg.sender);
    }

    function setManager(uint256 poolId, address manager) external {
        Pool storage pool = _pool(poolId);
        pool.owner.check();
        if (manager == address(0)) revert ZeroAddress();
        pool.manager = manager;
        emit ManagerChanged(poolId, manager);
    }

    function join(Invite calldata invite, bytes calldata signature) external {
        Pool storage pool = _pool(invite.poolId);
        Member storage member = _members[invite.poolId][msg.sender];
        if (msg.sender != invite.node) revert NotInvitedNode(msg.sender, invite.node);
        if (invite.domainId != pool.domainId) revert InviteWrongDomain(invite.domainId, pool.domainId);
        if (invite.role == Role.NONE) revert InviteWrongRole();
        if (invite.salt != salt) revert InviteWrongDeployment(invite.salt, salt);
        if (block.timestamp > invite.expires) revert InviteExpired(invite.expires, block.timestamp);
        if (invite.nonce != member.nonce) revert InviteUsed(invite.nonce, member.nonce);
        if (!SignatureChecker.isValidSignatureNow(pool.manager, _inviteDigest(invite), signature)) {
            revert InviteNotByManager(pool.manager);
        }
        registry.requireStake(msg.sender, pool.minStake);
        if (!_active[invite.poolId].add(msg.sender)) revert AlreadyMember(invite.poolId, msg.sender);
        _members[invite.poolId][msg.sender] = Member(invite.role, true, false, member.nonce + 1);
        emit MemberJoined(invite.poolId, msg.sender, invite.role, invite.nonce);
        registry.hold(msg.sender);
    }

    function leave(uint256 poolId) external {
        _deactivate(poolId, msg.sender);
        emit MemberLeft(poolId, msg.sender);
        registry.release(msg.sender);
    }

    function revokeInvites(uint256 poolId, address node) external {
        requireManager(poolId, msg.sender);
        emit InvitesRevoked(poolId, node, ++_members[poolId][node].nonce);
    }

    function eject(uint256 poolId, address node, bytes32 reason) external {
        requireManager(poolId, msg.sender);
        if (!_members[poolId][node].active) revert NotActiveMember(poolId, node);
        _eject(poolId, node, reason);
    }

    function punish(uint256 poolId, address node, bytes32 reason) external onlyWired {
        // Also one that has left meanwhile: who cheats and runs must not be invited again as if nothing had been.
        if (_members[poolId][node].active || !_members[poolId][node].ejected) _eject(poolId, node, reason);
        registry.slash(node, _pool(poolId).slash);
    }

    function getPool(uint256 poolId) external view returns (Pool memory pool) {
        pool = _pool(poolId);
        pool.memberCount = _active[poolId].length();
    }

    function getMember(uint256 poolId, address node) external view returns (Member memory) {
        return _members[poolId][node];
    }

    function listMembers(uint256 poolId, uint256 start, uint256 count) external view returns (address[] memory) {
        return _active[poolId].values(start, start + count);
    }

    function runId(uint256 poolId) external view returns (bytes32) {
        return keccak256(abi.encode(block.chainid, address(this), salt, poolId));
    }

    function requireManager(uint256 poolId, address caller) public view {
        if (caller != _pool(poolId).manager) revert NotManager(caller);
    }

    function requireMember(uint256 poolId, address node, Role role) external view {
        Member storage member = _members[poolId][node];
        if (!member.active) revert NotActiveMember(poolId, node);
        if (member.role != role) revert WrongRole(member.role, role);
        registry.requireStake(node, _pool(poolId).minStake);
    }

    function _pool(uint256 poolId) private view returns (Pool storage pool) {
        pool = _pools[poolId];
        if (pool.manager == address(0)) revert UnknownPool(poolId);
    }

    function _inviteDigest(Invite calldata invite) private view returns (bytes32) {
        return _hashTypedDataV4(keccak256(abi.encode(INVITE_TYPEHASH, invite)));
    }

    function _deactivate(uint256 poolId, address node) private {
        if (!_active[poolId].remove(node)) revert NotActiveMember(poolId, node);
        _members[poolId][node].active = false;
    }

    /// Also voids the invites given so far: coming back takes a new one.
    function _eject(uint256 poolId, address node, bytes32 reason) private {
        Member storage member = _members[poolId][node];
        bool wasActive = member.active;
        if (wasActive) _deactivate(poolId, node);
        member.ejected = true;
        ++member.nonce;
        emit MemberEjected(poolId, node, msg.sender, reason);
        if (wasActive) registry.release(node);
    }
}
