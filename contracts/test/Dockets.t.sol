// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.30;

import {IComputePools} from "../src/interfaces/IComputePools.sol";
import {ICourt} from "../src/interfaces/ICourt.sol";
import {INodeRegistry} from "../src/interfaces/INodeRegistry.sol";
import {IRunLedger} from "../src/interfaces/IRunLedger.sol";
import {Fixture} from "./Fixture.sol";
import {vm} from "./Vm.sol";

/// @dev What comes before validators, and which of them may judge it.
contract DocketsTest is Fixture {
    function setUp() public override {
        super.setUp();
        _joinAll();
    }

    function test_anyoneOpensASubmissionAndOnceIsEnough() public {
        IRunLedger.File memory file = _submit();
        bytes32 id = runs.submissionIdOf(poolId, 0, 0, worker);
        uint256 at = _now();
        _skip(30);
        vm.expectEmit(address(court));
        emit ICourt.DocketOpened(poolId, id, worker, ICourt.Kind.SUBMISSION, 0, 0);
        vm.prank(stranger);
        vm.assertEq(court.open(file), id);
        ICourt.Docket memory docket = court.getDocket(id);
        vm.assertTrue(docket.kind == ICourt.Kind.SUBMISSION && docket.outcome == ICourt.Outcome.PENDING);
        vm.assertEq(docket.openedAt, at);
        vm.assertEq(docket.validators, 3);
        vm.recordLogs();
        vm.assertEq(court.open(file), id);
        vm.assertEq(vm.getRecordedLogs().length, 0);
    }

    function test_managerAndValidatorsAccuse() public {
        bytes32 reason = "spam";
        bytes32 expected = keccak256(abi.encode("accusation", poolId, worker, reason, EVIDENCE));
        vm.expectEmit(address(court));
        emit ICourt.DocketOpened(poolId, expected, worker, ICourt.Kind.ACCUSATION, "spam", EVIDENCE);
        bytes32 id = _accused(worker);
        vm.assertTrue(court.getDocket(id).kind == ICourt.Kind.ACCUSATION);
        _refused(ICourt.AlreadyOpen.selector, abi.encode(id));
        vm.prank(judges[0]);
        court.accuse(poolId, worker, "spam", EVIDENCE);
    }

    function test_attack_manyAccusationsToDrawAFriendlyPanel() public {
        bytes32 id = _accused(worker);
        vm.assertEq(court.accusationOf(poolId, worker), id);
        _refused(ICourt.AccusationPending.selector, abi.encode(id));
        vm.prank(judges[0]);
        court.accuse(poolId, worker, "spam", FILE);
        vm.prank(judges[0]);
        court.accuse(poolId, judges[1], "spam", FILE);
        _skip(pools.getTerms(poolId).verdictS);
        vm.prank(judges[0]);
        bytes32 next = court.accuse(poolId, worker, "spam", FILE);
        vm.assertEq(court.accusationOf(poolId, worker), next);
    }

    function test_attack_strangersWorkersAndTheBlacklistedAccuse() public {
        address[3] memory callers = [stranger, worker, owner];
        for (uint256 i; i < 3; ++i) {
            _refused(ICourt.MayNotAccuse.selector, abi.encode(callers[i]));
            vm.prank(callers[i]);
            court.accuse(poolId, judges[0], "spam", EVIDENCE);
        }
        vm.prank(owner);
        pools.blacklistInDomain(domainId, judges[0], "rude");
        _refused(ICourt.MayNotAccuse.selector, abi.encode(judges[0]));
        vm.prank(judges[0]);
        court.accuse(poolId, worker, "spam", EVIDENCE);
    }

    function test_attack_accusingOneThatNeverJoined() public {
        _refused(IComputePools.NotActiveMember.selector, abi.encode(poolId, other));
        vm.prank(manager);
        court.accuse(poolId, other, "spam", EVIDENCE);
    }

    function test_attack_accusingOneThatLeftLongAgo() public {
        vm.prank(worker);
        pools.leave(poolId);
        uint256 left = _now();
        vm.assertEq(pools.leftAt(poolId, worker), left);
        vm.warp(left + VERDICT_S);
        _accused(worker);
        vm.warp(left + VERDICT_S + 1);
        _refused(IComputePools.NotActiveMember.selector, abi.encode(poolId, worker));
        vm.prank(manager);
        court.accuse(poolId, worker, "spam", FILE);
        _join(worker, IComputePools.Role.WORKER);
        vm.warp(left + 2 * VERDICT_S + 1);
        vm.prank(manager);
        court.accuse(poolId, worker, "spam", FILE);
    }

    function test_attack_accusedAgainAndAgainUntilTheStakeIsGone() public {
        _purse(stranger, 900 ether, address(registry));
        vm.prank(stranger);
        registry.addStake(worker, 900 ether);
        _singlePool();
        vm.startPrank(judges[0]);
        bytes32 id = court.accuse(poolId, worker, "first", EVIDENCE);
        court.reveal(id, _verdict(ICourt.Outcome.REJECTED), VOTE_SALT);
        vm.assertEq(registry.getNode(worker).locked, SLASH);
        _refused(IComputePools.NotActiveMember.selector, abi.encode(poolId, worker));
        court.accuse(poolId, worker, "second", EVIDENCE);
        vm.stopPrank();
        // Overturned or not, it has answered; what it does as a member again is another matter, also once it has left.
        bytes32 appealId = _appealed(id);
        _reveal(appealId, judges[0], _verdict(ICourt.Outcome.ACCEPTED));
        _refused(IComputePools.NotActiveMember.selector, abi.encode(poolId, worker));
        vm.prank(judges[0]);
        court.accuse(poolId, worker, "second", EVIDENCE);
        _join(worker, IComputePools.Role.WORKER);
        _skip(1);
        vm.prank(worker);
        pools.leave(poolId);
        vm.startPrank(judges[0]);
        id = court.accuse(poolId, worker, "second", EVIDENCE);
        court.reveal(id, _verdict(ICourt.Outcome.REJECTED), VOTE_SALT);
        vm.assertEq(registry.getNode(worker).locked, SLASH);
        _refused(IComputePools.NotActiveMember.selector, abi.encode(poolId, worker));
        court.accuse(poolId, worker, "third", EVIDENCE);
    }

    function test_aLeaverThatIsFoundNotGuiltyCanBeAccusedOfSomethingElse() public {
        vm.prank(worker);
        pools.leave(poolId);
        _judge(_accused(worker), ICourt.Outcome.ACCEPTED);
        vm.prank(manager);
        court.accuse(poolId, worker, "else", EVIDENCE);
    }

    function test_unknownDockets() public {
        _refused(ICourt.UnknownDocket.selector, abi.encode(FILE));
        court.commit(FILE, EVIDENCE);
        _refused(ICourt.UnknownDocket.selector, abi.encode(FILE));
        court.reveal(FILE, _verdict(ICourt.Outcome.REJECTED), VOTE_SALT);
        _refused(ICourt.UnknownDocket.selector, abi.encode(FILE));
        court.appeal(FILE);
        _refused(ICourt.UnknownDocket.selector, abi.encode(FILE));
        court.requireDrawn(FILE, judges[0]);
        vm.assertTrue(court.getDocket(FILE).kind == ICourt.Kind.NONE);
    }

    function test_onlyValidatorsAtWorkJudge() public {
        bytes32 id = _opened();
        _refused(IComputePools.NotActiveMember.selector, abi.encode(poolId, stranger));
        court.requireDrawn(id, stranger);
        _join(other, IComputePools.Role.RELAY);
        _refused(IComputePools.WrongRole.selector, abi.encode(3, 2));
        court.requireDrawn(id, other);
        vm.prank(_stakerOfKey(JUDGE_KEY));
        registry.unbond(judges[0], 1);
        _refused(INodeRegistry.StakeTooLow.selector, abi.encode(judges[0], MIN_STAKE - 1, MIN_STAKE));
        court.requireDrawn(id, judges[0]);
        court.requireDrawn(id, judges[1]);
    }

    function test_attack_judgingOneselfOrOnesOwnWorker() public {
        address sister = _newNodeOf(0x3003, _stakerOfKey(WORKER_KEY), MIN_STAKE);
        _join(sister, IComputePools.Role.VALIDATOR);
        _skip(1);
        bytes32 id = _opened();
        _refused(ICourt.OwnCase.selector, abi.encode(sister));
        court.requireDrawn(id, sister);
        id = _accused(judges[0]);
        _refused(ICourt.OwnCase.selector, abi.encode(judges[0]));
        _commit(id, judges[0], _verdict(ICourt.Outcome.ACCEPTED));
    }

    function test_attack_validatorsLetInAfterTheWork() public {
        bytes32 id = _opened();
        address late = _newJudge();
        _refused(ICourt.JoinedTooLate.selector, abi.encode(late, _now()));
        court.requireDrawn(id, late);
        // The worker itself, as a validator, with the date of its work
        vm.prank(judges[0]);
        pools.leave(poolId);
        _join(judges[0], IComputePools.Role.WORKER);
        vm.prank(judges[0]);
        pools.leave(poolId);
        _join(judges[0], IComputePools.Role.VALIDATOR);
        _refused(ICourt.JoinedTooLate.selector, abi.encode(judges[0], _now()));
        court.requireDrawn(id, judges[0]);
    }

    function test_attack_appealJudgesLetInAfterTheWork() public {
        bytes32 id = _opened();
        address late = _newJudge();
        uint256 since = _now();
        _skip(1);
        _judge(id, ICourt.Outcome.REJECTED);
        bytes32 appealId = _appealed(id);
        _refused(ICourt.JoinedTooLate.selector, abi.encode(late, since));
        court.requireDrawn(appealId, late);
        court.requireDrawn(appealId, judges[0]);
    }

    function test_verdictsHaveTheirTime() public {
        bytes32 id = _opened();
        uint256 closes = court.getDocket(id).openedAt + VERDICT_S;
        vm.warp(closes);
        court.requireDrawn(id, judges[0]);
        vm.warp(closes + 1);
        _refused(ICourt.VerdictsClosed.selector, abi.encode(closes));
        _commit(id, judges[0], _verdict(ICourt.Outcome.REJECTED));
    }

    function test_nobodyIsDrawnBeforeTheBlockIsKnown() public {
        bytes32 id = court.open(_submit());
        uint256 seedBlock = vm.getBlockNumber();
        _refused(ICourt.TooEarly.selector, abi.encode(seedBlock));
        _commit(id, judges[0], _verdict(ICourt.Outcome.REJECTED));
        vm.roll(seedBlock + 1);
        _commit(id, judges[0], _verdict(ICourt.Outcome.REJECTED));
    }

    function test_aForgottenBlockGivesWayToTheNewest() public {
        bytes32 id = _opened();
        vm.roll(vm.getBlockNumber() + 1000);
        _commit(id, judges[0], _verdict(ICourt.Outcome.REJECTED));
        bytes32 seed = court.getDocket(id).seed;
        vm.assertTrue(seed != 0);
        vm.roll(vm.getBlockNumber() + 1);
        _commit(id, judges[1], _verdict(ICourt.Outcome.REJECTED));
        vm.assertEq(court.getDocket(id).seed, seed);
    }
}
