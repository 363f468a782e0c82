// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.30;

import {Domains} from "./Domains.sol";
import {INodeRegistry} from "./interfaces/INodeRegistry.sol";
import {IPools} from "./interfaces/IPools.sol";
import {TwoStep} from "./TwoStep.sol";

/// @title Pools, their terms and their managers. Ids start at 1.
abstract contract Pools is Domains, IPools {
    using TwoStep for TwoStep.Owner;

    uint256 public constant MAX_URI_BYTES = 256;
    uint64 private constant UNBEGUN = type(uint64).max;

    INodeRegistry public immutable registry;
    /// Tells two deployments apart even where chain id and addresses repeat.
    bytes32 public immutable salt;
    uint256 public poolCount;
    mapping(uint256 poolId => Pool) private _pools;
    mapping(uint256 poolId => Terms) internal _terms;
    mapping(uint256 poolId => mapping(address account => bool)) public mayManage;

    constructor(INodeRegistry registry_, bytes32 salt_) {
        registry = registry_;
        salt = salt_;
    }

    function createPool(uint256 domainId, address manager, Terms calldata terms) external returns (uint256 poolId) {
        _domain(domainId).owner.check();
        if (manager == address(0)) revert ZeroAddress();
        if (terms.slash > terms.minStake) revert SlashAboveMinStake(terms.slash, terms.minStake);
        if (terms.quorum == 0 || terms.quorum == type(uint8).max || terms.panel < terms.quorum) {
            revert BadQuorum(terms.quorum, terms.panel);
        }
        if (terms.roundS == 0 || terms.verdictS == 0 || terms.challengeS == 0 || terms.leaseS == 0) {
            revert BadWindows();
        }
        uint256 uriBytes = bytes(terms.requirementsUri).length;
        if (uriBytes > MAX_URI_BYTES) revert RequirementsTooLong(uriBytes, MAX_URI_BYTES);
        uint256 unbondingS = registry.unbondingS();
        if (terms.verdictS >= unbondingS) revert WindowAboveUnbonding(terms.verdictS, unbondingS);
        // Else a case could hold a node's stake for a lifetime.
        if (terms.challengeS > unbondingS) revert WindowAboveUnbonding(terms.challengeS, unbondingS);
        poolId = ++poolCount;
        _terms[poolId] = terms;
        Pool storage pool = _pools[poolId];
        pool.owner.current = msg.sender;
        pool.domainId = domainId;
        emit PoolCreated(poolId, domainId, msg.sender, terms);
        _setManager(poolId, manager, true);
        // Its clock starts when the manager first takes it: a short lease must not lapse before anybody has started.
        _grant(poolId, pool, manager, UNBEGUN);
    }

    function offerPool(uint256 poolId, address to) external {
        _pool(poolId).owner.offer(to);
        emit PoolOwnerOffered(poolId, to);
    }

    function acceptPool(uint256 poolId) external {
        _pool(poolId).owner.accept();
        emit PoolOwnerChanged(poolId, msg.sender);
    }

    function startPool(uint256 poolId) external {
        Pool storage pool = _pool(poolId);
        pool.owner.check();
        if (pool.state != State.PENDING) revert WrongState(pool.state);
        pool.state = State.ACTIVE;
        emit PoolStateChanged(poolId, State.ACTIVE);
    }

    function endPool(uint256 poolId) external {
        Pool storage pool = _pool(poolId);
        pool.owner.check();
        if (pool.state == State.ENDED) revert WrongState(pool.state);
        pool.state = State.ENDED;
        pool.endedAt = uint64(block.timestamp);
        emit PoolStateChanged(poolId, State.ENDED);
    }

    function pauseJoins(uint256 poolId, bool paused) external {
        Pool storage pool = _pool(poolId);
        if (msg.sender != pool.manager) pool.owner.check();
        pool.joinsPaused = paused;
        emit JoinsPaused(poolId, paused);
    }

    function setManager(uint256 poolId, address manager, bool allowed) external {
        Pool storage pool = _pool(poolId);
        pool.owner.check();
        if (manager == address(0)) revert ZeroAddress();
        _setManager(poolId, manager, allowed);
        if (!allowed && pool.manager == manager) {
            (pool.manager, pool.leaseExpires) = (address(0), 0);
            emit LeaseTaken(poolId, address(0), ++pool.epoch, 0);
        }
    }

    function takeLease(uint256 poolId) external {
        Pool storage pool = _pool(poolId);
        if (!mayManage[poolId][msg.sender]) revert NotManager(msg.sender);
        if (msg.sender != pool.manager && block.timestamp <= pool.leaseExpires) {
            revert LeaseHeld(pool.manager, pool.leaseExpires);
        }
        _grant(poolId, pool, msg.sender, uint64(block.timestamp) + _terms[poolId].leaseS);
    }

    function getPool(uint256 poolId) external view returns (Pool memory) {
        return _pool(poolId);
    }

    function getTerms(uint256 poolId) external view returns (Terms memory) {
        _pool(poolId);
        return _terms[poolId];
    }

    function runId(uint256 poolId) external view returns (bytes32) {
        return keccak256(abi.encode(block.chainid, address(this), salt, poolId));
    }

    function requireManager(uint256 poolId, address caller) public view {
        if (caller != _pool(poolId).manager) revert NotManager(caller);
    }

    function _pool(uint256 poolId) internal view returns (Pool storage pool) {
        pool = _pools[poolId];
        if (pool.owner.current == address(0)) revert UnknownPool(poolId);
    }

    function _setManager(uint256 poolId, address manager, bool allowed) private {
        mayManage[poolId][manager] = allowed;
        emit ManagerSet(poolId, manager, allowed);
    }

    function _grant(uint256 poolId, Pool storage pool, address manager, uint64 expires) private {
        if (manager != pool.manager) {
            pool.manager = manager;
            ++pool.epoch;
        }
        pool.leaseExpires = expires;
        emit LeaseTaken(poolId, manager, pool.epoch, expires);
    }
}
