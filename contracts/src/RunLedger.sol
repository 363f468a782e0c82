// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.30;

import {Hashes} from "@openzeppelin/contracts/utils/cryptography/Hashes.sol";
import {MerkleProof} from "@openzeppelin/contracts/utils/cryptography/MerkleProof.sol";
import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";
import {IComputePools} from "./interfaces/IComputePools.sol";
import {IPools} from "./interfaces/IPools.sol";
import {IRunLedger} from "./interfaces/IRunLedger.sol";

/// @title Checkpoints and submissions of every pool. A batch of files costs one stored root.
contract RunLedger is IRunLedger {
    using SafeCast for uint256;

    uint256 public constant MAX_BATCH = 256;

    IComputePools public immutable pools;
    mapping(uint256 poolId => Checkpoint[]) private _checkpoints;
    mapping(bytes32 firstSubmissionId => Batch) private _batches;
    mapping(uint256 poolId => mapping(address node => mapping(uint64 step => uint32))) public nextCounter;

    constructor(IComputePools pools_) {
        pools = pools_;
    }

    function announceCheckpoint(uint256 poolId, uint256 version, bytes32 manifestHash) external {
        IPools.Pool memory pool = pools.getPool(poolId);
        if (msg.sender != pool.manager) revert IPools.NotManager(msg.sender);
        if (manifestHash == 0) revert ZeroHash();
        uint256 expected = _checkpoints[poolId].length;
        if (version != expected) revert WrongVersion(version, expected);
        _checkpoints[poolId].push(Checkpoint(manifestHash, uint64(block.number), pool.epoch));
        emit CheckpointAnnounced(poolId, version, manifestHash, pool.epoch);
    }

    function submit(uint256 poolId, uint64 step, uint32 firstCounter, bytes32[] calldata fileHashes)
        external
        returns (bytes32 submissionId)
    {
        uint256 count = fileHashes.length;
        if (pools.getPool(poolId).state != IPools.State.ACTIVE) revert PoolNotActive(poolId);
        pools.requireMember(poolId, msg.sender, IComputePools.Role.WORKER);
        if (count == 0 || count > MAX_BATCH) revert BadBatchSize(count);
        uint32 expected = nextCounter[poolId][msg.sender][step];
        if (firstCounter != expected) revert WrongCounter(firstCounter, expected);
        nextCounter[poolId][msg.sender][step] = expected + count.toUint32();
        bytes32[] memory layer = new bytes32[](count);
        for (uint32 i; i < count; ++i) {
            if (fileHashes[i] == 0) revert ZeroHash();
            bytes32 id = submissionIdOf(poolId, step, firstCounter + i, msg.sender);
            layer[i] = _leaf(id, fileHashes[i]);
            emit SubmissionRecorded(poolId, id, msg.sender, step, firstCounter + i, fileHashes[i]);
        }
        submissionId = submissionIdOf(poolId, step, firstCounter, msg.sender);
        // For the court: those who come later may not judge this.
        uint32 validators = uint32(pools.memberCount(poolId, IComputePools.Role.VALIDATOR));
        (uint64 number, uint64 time) = (uint64(block.number), uint64(block.timestamp));
        _batches[submissionId] = Batch(_root(layer), number, time, count.toUint32(), validators);
    }

    function checkpointCount(uint256 poolId) external view returns (uint256) {
        return _checkpoints[poolId].length;
    }

    function getCheckpoint(uint256 poolId, uint256 version) external view returns (Checkpoint memory) {
        if (version >= _checkpoints[poolId].length) revert UnknownCheckpoint(poolId, version);
        return _checkpoints[poolId][version];
    }

    function getBatch(bytes32 firstSubmissionId) external view returns (Batch memory) {
        return _batches[firstSubmissionId];
    }

    function requireSubmitted(File calldata file) external view returns (bytes32 submissionId, Batch memory batch) {
        batch = _batches[submissionIdOf(file.poolId, file.step, file.firstCounter, file.node)];
        submissionId = submissionIdOf(file.poolId, file.step, file.counter, file.node);
        bytes32 leaf = _leaf(submissionId, file.fileHash);
        if (batch.count == 0 || !MerkleProof.verifyCalldata(file.proof, batch.root, leaf)) {
            revert NotSubmitted(submissionId);
        }
    }

    function submissionIdOf(uint256 poolId, uint64 step, uint32 counter, address node) public pure returns (bytes32) {
        return keccak256(abi.encode(poolId, step, counter, node));
    }

    /// Hashed twice, so that no inner node of the tree can pass for a leaf.
    function _leaf(bytes32 submissionId, bytes32 fileHash) private pure returns (bytes32) {
        return keccak256(bytes.concat(keccak256(abi.encode(submissionId, fileHash))));
    }

    /// Pairs from the left; an odd last one rises unchanged. Overwrites `layer`.
    function _root(bytes32[] memory layer) private pure returns (bytes32) {
        uint256 width = layer.length;
        while (width > 1) {
            uint256 pairs = width / 2;
            for (uint256 i; i < pairs; ++i) {
                layer[i] = Hashes.commutativeKeccak256(layer[2 * i], layer[2 * i + 1]);
            }
            if (width % 2 == 1) layer[pairs] = layer[width - 1];
            width = (width + 1) / 2;
        }
        return layer[0];
    }
}
