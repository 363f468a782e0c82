// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.30;

/// @title What happened in a pool's run: checkpoints, submissions, verdicts.
interface IRunLedger {
    enum Outcome {
        PENDING,
        ACCEPTED,
        REJECTED,
        LATE
    }

    struct Checkpoint {
        bytes32 manifestHash;
        uint64 blockNumber;
    }

    struct Submission {
        uint256 poolId;
        address node;
        uint64 step;
        uint32 counter;
        bytes32 fileHash;
        uint64 blockNumber;
        uint64 time;
        Outcome outcome;
    }

    event CheckpointAnnounced(uint256 indexed poolId, uint256 indexed version, bytes32 manifestHash);
    event SubmissionRecorded(
        uint256 indexed poolId,
        bytes32 indexed submissionId,
        address indexed node,
        uint64 step,
        uint32 counter,
        bytes32 fileHash
    );
    event VerdictGiven(
        uint256 indexed poolId,
        bytes32 indexed submissionId,
        address indexed node,
        address validator,
        Outcome outcome,
        bytes32 reason,
        bytes32 evidenceHash
    );

    error ZeroHash();
    error WrongVersion(uint256 given, uint256 expected);
    error UnknownCheckpoint(uint256 poolId, uint256 version);
    error AlreadySubmitted(bytes32 submissionId);
    error UnknownSubmission(bytes32 submissionId);
    error AlreadyJudged(bytes32 submissionId, Outcome outcome);
    error NotAVerdict();
    error OwnSubmission(address node);
    error VerdictStillPossible(uint256 untilS);

    /// By the manager; `version` counts up from 0 without gaps.
    function announceCheckpoint(uint256 poolId, uint256 version, bytes32 manifestHash) external;
    /// By an active worker. The id binds the sender, so a copied hash is the copier's claim, never the victim's.
    function submit(uint256 poolId, uint64 step, uint32 counter, bytes32 fileHash)
        external
        returns (bytes32 submissionId);
    /// By an active validator of the pool; the first verdict is final.
    function giveVerdict(bytes32 submissionId, Outcome outcome, bytes32 reason, bytes32 evidenceHash) external;
    /// Closes a submission no validator judged within the window, as late: no credit, and its stake is free again.
    function closeUnjudged(bytes32 submissionId) external;

    function submissionIdOf(uint256 poolId, uint64 step, uint32 counter, address node)
        external
        pure
        returns (bytes32);
    function checkpointCount(uint256 poolId) external view returns (uint256);
    function getCheckpoint(uint256 poolId, uint256 version) external view returns (Checkpoint memory);
    /// All zero where nothing was recorded.
    function getSubmission(bytes32 submissionId) external view returns (Submission memory);
}
