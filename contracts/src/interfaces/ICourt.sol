// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.30;

import {IRunLedger} from "./IRunLedger.sol";

/// @title Verdicts by quorum, and what follows from them.
/// @notice A docket is what validators are asked about: a submission, an accusation, or an appeal. Each drawn validator
/// commits to a verdict before it sees another's, then reveals it. The outcome that a quorum agrees on is final.
interface ICourt {
    enum Kind {
        NONE,
        SUBMISSION,
        ACCUSATION,
        APPEAL
    }

    /// @notice For accusations and appeals REJECTED means guilty; ACCEPTED and LATE mean not guilty.
    enum Outcome {
        PENDING,
        ACCEPTED,
        REJECTED,
        LATE
    }

    enum CaseState {
        NONE,
        OPEN,
        APPEALED,
        BURNT,
        OVERTURNED
    }

    /// @param units verified units of work, for an accepted submission; else 0
    /// @param reason a short code in ASCII; @param evidenceHash SHA-256 of the evidence, kept with the relays
    struct Verdict {
        Outcome outcome;
        uint128 units;
        bytes32 reason;
        bytes32 evidenceHash;
    }

    /// @param about for an appeal the docket that is appealed, else 0
    /// @param openedAt seconds of chain time of the submission, accusation or appeal
    /// @param validators how many there are to draw from: members when it was opened, less those who came after the work
    /// @param seedBlock whose hash they are drawn by; @param seed made of it at the first commitment
    struct Docket {
        uint256 poolId;
        address node;
        Kind kind;
        Outcome outcome;
        uint64 openedAt;
        uint8 quorum;
        uint16 panel;
        uint16 commits;
        uint32 validators;
        uint64 seedBlock;
        bytes32 seed;
        bytes32 about;
    }

    /// @param amount wei locked at the node; @param until seconds of chain time, inclusive, to appeal or to overturn
    struct Case {
        uint128 amount;
        uint64 until;
        CaseState state;
    }

    event DocketOpened(
        uint256 indexed poolId,
        bytes32 indexed docketId,
        address indexed node,
        Kind kind,
        bytes32 reason,
        bytes32 evidenceHash
    );
    event VerdictCommitted(bytes32 indexed docketId, address indexed validator);
    event VerdictRevealed(
        bytes32 indexed docketId,
        address indexed validator,
        Outcome outcome,
        uint128 units,
        bytes32 reason,
        bytes32 evidenceHash
    );
    event OutcomeReached(
        uint256 indexed poolId,
        bytes32 indexed docketId,
        address indexed node,
        Kind kind,
        Outcome outcome,
        bytes32 reason,
        bytes32 evidenceHash
    );
    event CaseOpened(
        uint256 indexed poolId, bytes32 indexed docketId, address indexed node, uint256 amount, uint256 until
    );
    event CaseClosed(
        uint256 indexed poolId, bytes32 indexed docketId, address indexed node, CaseState state, uint256 burnt
    );

    error UnknownDocket(bytes32 docketId);
    error MayNotAccuse(address caller);
    error AlreadyOpen(bytes32 docketId);
    error AccusationPending(bytes32 docketId);
    error OwnCase(address validator);
    error JoinedTooLate(address validator, uint256 since);
    error NotDrawn(address validator);
    error AlreadyDecided(bytes32 docketId, Outcome outcome);
    error VerdictsClosed(uint256 until);
    error TooEarly(uint256 seedBlock);
    error AlreadyCommitted(address validator);
    error AlreadyRevealed(address validator);
    error TooFewCommits(uint256 commits, uint256 quorum);
    error NoCommitment(address validator);
    error WrongReveal(address validator);
    error NotAVerdict();
    error NoOpenCase(bytes32 docketId);
    error MayNotAppeal(address caller);
    error AppealTooLate(uint256 until);
    error StillOpen(uint256 until);

    /// By anyone: put a submission before the validators. Opening it again changes nothing.
    function open(IRunLedger.File calldata file) external returns (bytes32 docketId);
    /// By the pool's manager or one of its validators: ask whether a node was dishonest in another way:
    /// one that is a member, or left less than the pool's verdict window ago and was not found guilty since.
    function accuse(uint256 poolId, address node, bytes32 reason, bytes32 evidenceHash)
        external
        returns (bytes32 docketId);
    /// By a drawn validator: the hash of its verdict, `commitmentOf`.
    function commit(bytes32 docketId, bytes32 commitment) external;
    /// By one that committed, once a quorum has; where one validator decides alone, without committing before.
    function reveal(bytes32 docketId, Verdict calldata verdict, bytes32 salt) external;
    /// By the node, its staker or a validator, once, in the challenge window: ask a wider panel. Returns its docket.
    function appeal(bytes32 docketId) external returns (bytes32 appealId);
    /// By anyone, when the window is over and nothing was overturned: burn.
    function execute(bytes32 docketId) external;

    function commitmentOf(bytes32 docketId, address validator, Verdict calldata verdict, bytes32 salt)
        external
        pure
        returns (bytes32);
    function getDocket(bytes32 docketId) external view returns (Docket memory);
    function getCase(bytes32 docketId) external view returns (Case memory);
    /// Reverts, with the reason, unless the validator may give a verdict on this docket now.
    function requireDrawn(bytes32 docketId, address validator) external view;
    /// How often the node was found dishonest in the pool, less what an appeal overturned.
    function convictionsOf(uint256 poolId, address node) external view returns (uint256);
    /// The newest accusation of a node, 0 where there was none. There is no other while it is pending.
    function accusationOf(uint256 poolId, address node) external view returns (bytes32);
    function commitmentBy(bytes32 docketId, address validator) external view returns (bytes32);
}
