// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.30;

/// @title What happened in a pool's run: checkpoints and submissions.
interface IRunLedger {
    /// @param epoch the manager's lease under which it was announced
    struct Checkpoint {
        bytes32 manifestHash;
        uint64 blockNumber;
        uint64 epoch;
    }

    /// @param root Merkle root over the files' leaves; @param count how many files
    /// @param validators how many the pool had then
    struct Batch {
        bytes32 root;
        uint64 blockNumber;
        uint64 time;
        uint32 count;
        uint32 validators;
    }

    /// @notice One file of a batch, with the way from its leaf to the root (sorted pairs, as OpenZeppelin's MerkleProof).
    struct File {
        uint256 poolId;
        address node;
        uint64 step;
        uint32 firstCounter;
        uint32 counter;
        bytes32 fileHash;
        bytes32[] proof;
    }

    event CheckpointAnnounced(uint256 indexed poolId, uint256 indexed version, bytes32 manifestHash, uint256 epoch);
    event SubmissionRecorded(
        uint256 indexed poolId,
        bytes32 indexed submissionId,
        address indexed node,
        uint64 step,
        uint32 counter,
        bytes32 fileHash
    );

    error ZeroHash();
    error WrongVersion(uint256 given, uint256 expected);
    error UnknownCheckpoint(uint256 poolId, uint256 version);
    error PoolNotActive(uint256 poolId);
    error BadBatchSize(uint256 count);
    error WrongCounter(uint256 given, uint256 expected);
    error NotSubmitted(bytes32 submissionId);

    /// By the manager; versions have no gaps.
    function announceCheckpoint(uint256 poolId, uint256 version, bytes32 manifestHash) external;
    /// By a worker with the pool's stake at work: the next files of a step, counters without gaps. The key binds the
    /// submitter: nobody can claim another's work by copying its hash. Returns the first submission's id.
    function submit(uint256 poolId, uint64 step, uint32 firstCounter, bytes32[] calldata fileHashes)
        external
        returns (bytes32 submissionId);

    function submissionIdOf(uint256 poolId, uint64 step, uint32 counter, address node) external pure returns (bytes32);
    /// The next counter that `node` may submit for `step`.
    function nextCounter(uint256 poolId, address node, uint64 step) external view returns (uint32);
    function checkpointCount(uint256 poolId) external view returns (uint256);
    function getCheckpoint(uint256 poolId, uint256 version) external view returns (Checkpoint memory);
    function getBatch(bytes32 firstSubmissionId) external view returns (Batch memory);
    /// The submission's id and its batch; reverts unless the file is in it.
    function requireSubmitted(File calldata file) external view returns (bytes32 submissionId, Batch memory batch);
}
