// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.30;

import {Multicall} from "@openzeppelin/contracts/utils/Multicall.sol";
import {IComputePools} from "./interfaces/IComputePools.sol";
import {ICourt} from "./interfaces/ICourt.sol";
import {INodeRegistry} from "./interfaces/INodeRegistry.sol";
import {IPools} from "./interfaces/IPools.sol";
import {IRunLedger} from "./interfaces/IRunLedger.sol";
import {ITreasury} from "./interfaces/ITreasury.sol";

/// @title Verdicts, cases and appeals. The only way by which stake is ever burnt.
/// @dev Who is drawn follows from a block hash that nobody knew when the submission was made. It costs one hash to check:
/// a validator is drawn if its own number lies below a bound that doubles with every round without an outcome.
contract Court is ICourt, Multicall {
    uint256 private constant MAX_DOUBLINGS = 8;
    bytes32 private constant REVEALED = bytes32(uint256(1));

    IComputePools public immutable pools;
    INodeRegistry public immutable registry;
    IRunLedger public immutable runs;
    ITreasury public immutable treasury;
    mapping(bytes32 docketId => Docket) private _dockets;
    mapping(bytes32 docketId => Case) private _cases;
    mapping(uint256 poolId => mapping(address node => bytes32)) public accusationOf;
    mapping(bytes32 docketId => mapping(address validator => bytes32)) public commitmentBy;
    mapping(bytes32 docketId => mapping(bytes32 verdict => uint256)) private _tally;
    /// When an accusation was last found true, overturned or not.
    mapping(uint256 poolId => mapping(address node => uint256)) private _guiltyAt;
    /// Convictions that were not overturned.
    mapping(uint256 poolId => mapping(address node => uint256)) public convictionsOf;

    constructor(IComputePools pools_, INodeRegistry registry_, IRunLedger runs_, ITreasury treasury_) {
        pools = pools_;
        registry = registry_;
        runs = runs_;
        treasury = treasury_;
    }

    function open(IRunLedger.File calldata file) external returns (bytes32 docketId) {
        IRunLedger.Batch memory batch;
        (docketId, batch) = runs.requireSubmitted(file);
        if (_dockets[docketId].kind != Kind.NONE) return docketId;
        Docket storage docket = _open(docketId, file.poolId, file.node, Kind.SUBMISSION, batch.time, batch.blockNumber);
        _countAtMost(docket, batch.validators);
        emit DocketOpened(file.poolId, docketId, file.node, Kind.SUBMISSION, 0, 0);
    }

    function accuse(uint256 poolId, address node, bytes32 reason, bytes32 evidenceHash)
        external
        returns (bytes32 docketId)
    {
        if (msg.sender != pools.getPool(poolId).manager && !_isValidator(poolId, msg.sender)) {
            revert MayNotAccuse(msg.sender);
        }
        // One that left is out of reach when its last work is: no pool holds a node's stake for ever. And one found
        // guilty has answered for that membership: else its whole stake could be burnt, slash by slash.
        uint256 leftAt = pools.leftAt(poolId, node);
        bool inReach = leftAt > _guiltyAt[poolId][node] && block.timestamp <= leftAt + pools.getTerms(poolId).verdictS;
        if (!inReach && !pools.getMember(poolId, node).active) revert IComputePools.NotActiveMember(poolId, node);
        docketId = keccak256(abi.encode("accusation", poolId, node, reason, evidenceHash));
        if (_dockets[docketId].kind != Kind.NONE) revert AlreadyOpen(docketId);
        // Each accusation draws a panel of its own: who could bring many at once would wait for friends to be drawn.
        bytes32 last = accusationOf[poolId][node];
        if (last != 0 && _isPending(_dockets[last])) revert AccusationPending(last);
        accusationOf[poolId][node] = docketId;
        _open(docketId, poolId, node, Kind.ACCUSATION, uint64(block.timestamp), uint64(block.number));
        emit DocketOpened(poolId, docketId, node, Kind.ACCUSATION, reason, evidenceHash);
    }

    function commit(bytes32 docketId, bytes32 commitment) external {
        Docket storage docket = _pending(docketId);
        _requireDrawn(docketId, docket, msg.sender);
        if (docket.seed == 0) docket.seed = _seedOf(docketId, docket);
        if (commitmentBy[docketId][msg.sender] != 0) revert AlreadyCommitted(msg.sender);
        if (uint256(commitment) <= uint256(REVEALED)) revert NotAVerdict();
        commitmentBy[docketId][msg.sender] = commitment;
        ++docket.commits;
        emit VerdictCommitted(docketId, msg.sender);
    }

    function reveal(bytes32 docketId, Verdict calldata verdict, bytes32 salt) external {
        Docket storage docket = _docket(docketId);
        bytes32 commitment = commitmentBy[docketId][msg.sender];
        if (verdict.outcome == Outcome.PENDING) revert NotAVerdict();
        if (verdict.units != 0 && verdict.outcome != Outcome.ACCEPTED) revert NotAVerdict();
        if (commitment == REVEALED) revert AlreadyRevealed(msg.sender);
        if (docket.quorum == 1 && commitment == 0) {
            _requireDrawn(docketId, _pending(docketId), msg.sender);
        } else {
            if (commitment == 0) revert NoCommitment(msg.sender);
            if (docket.commits < docket.quorum) revert TooFewCommits(docket.commits, docket.quorum);
            if (commitment != commitmentOf(docketId, msg.sender, verdict, salt)) revert WrongReveal(msg.sender);
        }
        commitmentBy[docketId][msg.sender] = REVEALED;
        emit VerdictRevealed(docketId, msg.sender, verdict.outcome, verdict.units, verdict.reason, verdict.evidenceHash);
        // A reveal that comes too late to count is still on record: it shows who sided with whom.
        if (docket.outcome != Outcome.PENDING || block.timestamp > _closes(docket)) return;
        bytes32 position = keccak256(abi.encode(verdict.outcome, verdict.units));
        if (++_tally[docketId][position] == docket.quorum) _decide(docketId, docket, verdict);
    }

    function appeal(bytes32 docketId) external returns (bytes32 appealId) {
        Docket storage docket = _docket(docketId);
        Case storage case_ = _openCase(docketId, CaseState.OPEN);
        bool byAccused = msg.sender == docket.node || msg.sender == registry.stakerOf(docket.node);
        if (!byAccused && !_isValidator(docket.poolId, msg.sender)) revert MayNotAppeal(msg.sender);
        if (block.timestamp > case_.until) revert AppealTooLate(case_.until);
        case_.state = CaseState.APPEALED;
        case_.until = uint64(block.timestamp) + pools.getTerms(docket.poolId).challengeS;
        appealId = keccak256(abi.encode("appeal", docketId));
        (uint64 nowS, uint64 blockNumber) = (uint64(block.timestamp), uint64(block.number));
        Docket storage wider = _open(appealId, docket.poolId, docket.node, Kind.APPEAL, nowS, blockNumber);
        wider.about = docketId;
        _countAtMost(wider, docket.validators);
        wider.panel = 2 * docket.panel;
        wider.quorum = docket.quorum < wider.validators ? docket.quorum + 1 : docket.quorum;
        emit DocketOpened(docket.poolId, appealId, docket.node, Kind.APPEAL, 0, 0);
    }

    function execute(bytes32 docketId) external {
        Case storage case_ = _cases[docketId];
        if (case_.state != CaseState.OPEN && case_.state != CaseState.APPEALED) revert NoOpenCase(docketId);
        if (block.timestamp <= case_.until) revert StillOpen(case_.until);
        _burn(docketId, case_);
    }

    function getDocket(bytes32 docketId) external view returns (Docket memory) {
        return _dockets[docketId];
    }

    function getCase(bytes32 docketId) external view returns (Case memory) {
        return _cases[docketId];
    }

    function requireDrawn(bytes32 docketId, address validator) external view {
        _requireDrawn(docketId, _pending(docketId), validator);
    }

    function commitmentOf(bytes32 docketId, address validator, Verdict calldata verdict, bytes32 salt)
        public
        pure
        returns (bytes32)
    {
        return keccak256(abi.encode(docketId, validator, verdict, salt));
    }

    function _open(bytes32 docketId, uint256 poolId, address node, Kind kind, uint64 openedAt, uint64 seedBlock)
        private
        returns (Docket storage docket)
    {
        IPools.Terms memory terms = pools.getTerms(poolId);
        docket = _dockets[docketId];
        (docket.poolId, docket.node, docket.kind, docket.openedAt) = (poolId, node, kind, openedAt);
        (docket.quorum, docket.panel, docket.seedBlock) = (terms.quorum, terms.panel, seedBlock);
        docket.validators = uint32(pools.memberCount(poolId, IComputePools.Role.VALIDATOR));
    }

    /// Who came after the work may not judge it, and so makes no panel thinner and no quorum higher.
    function _countAtMost(Docket storage docket, uint32 validators) private {
        if (docket.validators > validators) docket.validators = validators;
    }

    function _decide(bytes32 docketId, Docket storage docket, Verdict calldata verdict) private {
        docket.outcome = verdict.outcome;
        (uint256 poolId, address node, Kind kind) = (docket.poolId, docket.node, docket.kind);
        emit OutcomeReached(poolId, docketId, node, kind, verdict.outcome, verdict.reason, verdict.evidenceHash);
        if (kind == Kind.APPEAL) return _decideAppeal(docket, verdict);
        if (kind == Kind.ACCUSATION && verdict.outcome == Outcome.REJECTED) _guiltyAt[poolId][node] = block.timestamp;
        if (verdict.outcome == Outcome.REJECTED) _accept(docketId, docket, verdict.reason);
        else if (kind == Kind.SUBMISSION && verdict.units != 0) treasury.credit(poolId, node, verdict.units);
    }

    function _accept(bytes32 docketId, Docket storage docket, bytes32 reason) private {
        (uint256 poolId, address node) = (docket.poolId, docket.node);
        IPools.Terms memory terms = pools.getTerms(poolId);
        uint64 until = uint64(block.timestamp) + terms.challengeS;
        _cases[docketId] = Case(terms.slash, until, CaseState.OPEN);
        emit CaseOpened(poolId, docketId, node, terms.slash, until);
        ++convictionsOf[poolId][node];
        registry.lock(node, terms.slash);
        pools.punish(poolId, node, reason);
    }

    function _decideAppeal(Docket storage wider, Verdict calldata verdict) private {
        bytes32 docketId = wider.about;
        Case storage case_ = _openCase(docketId, CaseState.APPEALED);
        if (verdict.outcome == Outcome.REJECTED) return _burn(docketId, case_);
        Docket storage docket = _dockets[docketId];
        (uint256 poolId, address node) = (docket.poolId, docket.node);
        docket.outcome = verdict.outcome;
        case_.state = CaseState.OVERTURNED;
        emit CaseClosed(poolId, docketId, node, CaseState.OVERTURNED, 0);
        registry.unlock(node, case_.amount);
        if (--convictionsOf[poolId][node] == 0) pools.pardon(poolId, node);
        if (docket.kind == Kind.SUBMISSION && verdict.units != 0) treasury.credit(poolId, node, verdict.units);
    }

    function _burn(bytes32 docketId, Case storage case_) private {
        Docket storage docket = _dockets[docketId];
        case_.state = CaseState.BURNT;
        uint256 burnt = registry.burn(docket.node, case_.amount);
        emit CaseClosed(docket.poolId, docketId, docket.node, CaseState.BURNT, burnt);
    }

    function _docket(bytes32 docketId) private view returns (Docket storage docket) {
        docket = _dockets[docketId];
        if (docket.kind == Kind.NONE) revert UnknownDocket(docketId);
    }

    function _pending(bytes32 docketId) private view returns (Docket storage docket) {
        docket = _docket(docketId);
        if (docket.outcome != Outcome.PENDING) revert AlreadyDecided(docketId, docket.outcome);
        uint256 closes = _closes(docket);
        if (block.timestamp > closes) revert VerdictsClosed(closes);
    }

    function _openCase(bytes32 docketId, CaseState state) private view returns (Case storage case_) {
        case_ = _cases[docketId];
        if (case_.state != state) revert NoOpenCase(docketId);
    }

    function _isPending(Docket storage docket) private view returns (bool) {
        return docket.outcome == Outcome.PENDING && block.timestamp <= _closes(docket);
    }

    /// Until then verdicts count. Nobody is slashed for what was left unjudged that long.
    function _closes(Docket storage docket) private view returns (uint256) {
        IPools.Terms memory terms = pools.getTerms(docket.poolId);
        return docket.openedAt + (docket.kind == Kind.APPEAL ? terms.challengeS : terms.verdictS);
    }

    function _isValidator(uint256 poolId, address account) private view returns (bool) {
        return pools.isActive(poolId, account) && pools.getMember(poolId, account).role == IComputePools.Role.VALIDATOR;
    }

    function _requireDrawn(bytes32 docketId, Docket storage docket, address validator) private view {
        pools.requireMember(docket.poolId, validator, IComputePools.Role.VALIDATOR);
        bool sameStaker = registry.stakerOf(validator) == registry.stakerOf(docket.node);
        if (sameStaker) revert OwnCase(validator);
        // Else an owner could let in obliging validators after the work was done, also to judge the appeal.
        uint256 since = pools.getMember(docket.poolId, validator).since;
        uint256 latest = docket.kind == Kind.APPEAL ? _dockets[docket.about].openedAt : docket.openedAt;
        if (since > latest) revert JoinedTooLate(validator, since);
        uint256 rounds = (block.timestamp - docket.openedAt) / pools.getTerms(docket.poolId).roundS;
        uint256 width = uint256(docket.panel) << (rounds < MAX_DOUBLINGS ? rounds : MAX_DOUBLINGS);
        if (width >= docket.validators) return;
        bytes32 seed = docket.seed == 0 ? _seedOf(docketId, docket) : docket.seed;
        uint256 number = uint256(keccak256(abi.encode(seed, validator)));
        if (number / width >= type(uint256).max / docket.validators) revert NotDrawn(validator);
    }

    /// The block's hash is unknown while it is made, and forgotten after 256 more; then the newest takes its place.
    function _seedOf(bytes32 docketId, Docket storage docket) private view returns (bytes32) {
        if (block.number <= docket.seedBlock) revert TooEarly(docket.seedBlock);
        bytes32 known = blockhash(docket.seedBlock);
        return keccak256(abi.encode(docketId, known == 0 ? blockhash(block.number - 1) : known));
    }
}
