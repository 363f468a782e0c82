// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.30;

import {IComputePools} from "./interfaces/IComputePools.sol";
import {INodeRegistry} from "./interfaces/INodeRegistry.sol";
import {IRunLedger} from "./interfaces/IRunLedger.sol";

/// @title Checkpoints, submissions and verdicts of every pool.
contract RunLedger is IRunLedger {
    /// A validator has this long, in seconds, before anyone may close a submission as late.
    uint256 public constant VERDICT_WINDOW_S = 1 days;

    IComputePools public immutable pools;
    INodeRegistry public immutable registry;
    mapping(uint256 poolId => Checkpoint[]) private _checkpoints;
    mapping(bytes32 submissionId => Submission) private _submissions;

    constructor(IComputePools pools_, INodeRegistry registry_) {
        pools = pools_;
        registry = registry_;
    }

    function announceCheckpoint(uint256 poolId, uint256 version, bytes32 manifestHash) external {
        pools.requireManager(poolId, msg.sender);
        if (manifestHash == 0) revert ZeroHash();
        uint256 expected = _checkpoints[poolId].length;
        if (version != expected) revert WrongVersion(version, expected);
        _checkpoints[poolId].push(Checkpoint(manifestHash, uint64(block.number)));
        emit CheckpointAnnounced(poolId, version, manifestHash);
    }

    function submit(uint256 poolId, uint64 step, uint32 counter, bytes32 fileHash)
        external
        returns (bytes32 submissionId)
    {
        pools.requireMember(poolId, msg.sender, IComputePools.Role.WORKER);
        if (fileHash == 0) revert ZeroHash();
        submissionId = submissionIdOf(poolId, step, counter, msg.sender);
        if (_submissions[submissionId].fileHash != 0) revert AlreadySubmitted(submissionId);
        _submissions[submissionId] = Submission(
            poolId, msg.sender, step, counter, fileHash, uint64(block.number), uint64(block.timestamp), Outcome.PENDING
        );
        emit SubmissionRecorded(poolId, submissionId, msg.sender, step, counter, fileHash);
        registry.hold(msg.sender);
    }

    function giveVerdict(bytes32 submissionId, Outcome outcome, bytes32 reason, bytes32 evidenceHash) external {
        Submission storage submission = _pending(submissionId);
        (uint256 poolId, address node) = (submission.poolId, submission.node);
        pools.requireMember(poolId, msg.sender, IComputePools.Role.VALIDATOR);
        if (outcome == Outcome.PENDING) revert NotAVerdict();
        if (node == msg.sender) revert OwnSubmission(node);
        _judge(submissionId, submission, outcome, reason, evidenceHash);
        if (outcome == Outcome.REJECTED) pools.punish(poolId, node, reason);
    }

    function closeUnjudged(bytes32 submissionId) external {
        Submission storage submission = _pending(submissionId);
        uint256 until = submission.time + VERDICT_WINDOW_S;
        if (block.timestamp <= until) revert VerdictStillPossible(until);
        _judge(submissionId, submission, Outcome.LATE, "no-verdict", 0);
    }

    function submissionIdOf(uint256 poolId, uint64 step, uint32 counter, address node) public pure returns (bytes32) {
        return keccak256(abi.encode(poolId, step, counter, node));
    }

    function checkpointCount(uint256 poolId) external view returns (uint256) {
        return _checkpoints[poolId].length;
    }

    function getCheckpoint(uint256 poolId, uint256 version) external view returns (Checkpoint memory) {
        if (version >= _checkpoints[poolId].length) revert UnknownCheckpoint(poolId, version);
        return _checkpoints[poolId][version];
    }

    function getSubmission(bytes32 submissionId) external view returns (Submission memory) {
        return _submissions[submissionId];
    }

    function _pending(bytes32 submissionId) private view returns (Submission storage submission) {
        submission = _submissions[submissionId];
        if (submission.fileHash == 0) revert UnknownSubmission(submissionId);
        if (submission.outcome != Outcome.PENDING) revert AlreadyJudged(submissionId, submission.outcome);
    }

    function _judge(bytes32 id, Submission storage submission, Outcome outcome, bytes32 reason, bytes32 evidenceHash)
        private
    {
        submission.outcome = outcome;
        emit VerdictGiven(submission.poolId, id, submission.node, msg.sender, outcome, reason, evidenceHash);
        registry.release(submission.node);
    }
}
