// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.30;

import {ICourt} from "../src/interfaces/ICourt.sol";
import {Fixture} from "./Fixture.sol";
import {vm} from "./Vm.sol";

/// @dev From commitment to outcome.
contract VotesTest is Fixture {
    ICourt.Outcome private constant ACCEPTED = ICourt.Outcome.ACCEPTED;
    ICourt.Outcome private constant REJECTED = ICourt.Outcome.REJECTED;
    ICourt.Outcome private constant LATE = ICourt.Outcome.LATE;

    function setUp() public override {
        super.setUp();
        _joinAll();
    }

    function _isPending(bytes32 id) private view returns (bool) {
        return court.getDocket(id).outcome == ICourt.Outcome.PENDING;
    }

    function test_aQuorumDecides() public {
        bytes32 id = _opened();
        ICourt.Verdict memory verdict = _verdict(ACCEPTED);
        vm.expectEmit(address(court));
        emit ICourt.VerdictCommitted(id, judges[0]);
        _commit(id, judges[0], verdict);
        _commit(id, judges[1], verdict);
        vm.expectEmit(address(court));
        emit ICourt.VerdictRevealed(id, judges[0], ACCEPTED, 1000, "because", EVIDENCE);
        _reveal(id, judges[0], verdict);
        vm.assertTrue(_isPending(id));
        vm.expectEmit(address(court));
        emit ICourt.OutcomeReached(poolId, id, worker, ICourt.Kind.SUBMISSION, ACCEPTED, "because", EVIDENCE);
        _reveal(id, judges[1], verdict);
        vm.assertTrue(court.getDocket(id).outcome == ACCEPTED);
        vm.assertEq(treasury.unitsOf(poolId, worker), 1000);
        vm.assertTrue(court.getCase(id).state == ICourt.CaseState.NONE);
    }

    function test_disagreementIsNoOutcomeUntilAThirdVoice() public {
        bytes32 id = _opened();
        _commit(id, judges[0], _verdict(ACCEPTED));
        _commit(id, judges[1], _verdict(REJECTED));
        _reveal(id, judges[0], _verdict(ACCEPTED));
        _reveal(id, judges[1], _verdict(REJECTED));
        vm.assertTrue(_isPending(id));
        ICourt.Verdict memory fewer = _verdict(ACCEPTED);
        fewer.units = 999; // another position: units are agreed on to the last one
        _commit(id, judges[2], fewer);
        _reveal(id, judges[2], fewer);
        vm.assertTrue(_isPending(id));
        vm.assertEq(registry.getNode(worker).locked, 0);
    }

    function test_lateWorkIsNeitherCreditedNorPunished() public {
        bytes32 id = _opened();
        _judge(id, LATE);
        vm.assertTrue(court.getDocket(id).outcome == LATE);
        vm.assertTrue(court.getCase(id).state == ICourt.CaseState.NONE);
        vm.assertEq(treasury.unitsOf(poolId, worker), 0);
        vm.assertTrue(pools.isActive(poolId, worker));
    }

    function test_anAccusedThatIsCleared() public {
        bytes32 id = _accused(worker);
        _judge(id, ACCEPTED);
        vm.assertEq(treasury.unitsOf(poolId, worker), 0);
        vm.assertEq(registry.getNode(worker).locked, 0);
        vm.assertTrue(pools.isActive(poolId, worker));
    }

    function test_attack_twoVoicesOfOneValidator() public {
        bytes32 id = _opened();
        ICourt.Verdict memory verdict = _verdict(REJECTED);
        _commit(id, judges[0], verdict);
        _refused(ICourt.AlreadyCommitted.selector, abi.encode(judges[0]));
        vm.prank(judges[0]);
        court.commit(id, FILE);
        _commit(id, judges[1], verdict);
        _reveal(id, judges[0], verdict);
        _refused(ICourt.AlreadyRevealed.selector, abi.encode(judges[0]));
        _reveal(id, judges[0], verdict);
        _refused(ICourt.AlreadyCommitted.selector, abi.encode(judges[0]));
        vm.prank(judges[0]);
        court.commit(id, FILE);
    }

    function test_attack_revealingBeforeAQuorumCommitted() public {
        bytes32 id = _opened();
        _commit(id, judges[0], _verdict(REJECTED));
        _refused(ICourt.TooFewCommits.selector, abi.encode(1, 2));
        _reveal(id, judges[0], _verdict(REJECTED));
    }

    function test_attack_revealingWithoutHavingCommitted() public {
        bytes32 id = _opened();
        _refused(ICourt.NoCommitment.selector, abi.encode(judges[2]));
        _reveal(id, judges[2], _verdict(REJECTED));
        _refused(ICourt.NoCommitment.selector, abi.encode(stranger));
        _reveal(id, stranger, _verdict(REJECTED));
    }

    function test_attack_changingOnesMindAfterSeeingOthers() public {
        bytes32 id = _opened();
        _commit(id, judges[0], _verdict(REJECTED));
        _commit(id, judges[1], _verdict(ACCEPTED));
        _reveal(id, judges[0], _verdict(REJECTED));
        _refused(ICourt.WrongReveal.selector, abi.encode(judges[1]));
        _reveal(id, judges[1], _verdict(REJECTED));
    }

    function test_attack_copyingAnothersCommitment() public {
        bytes32 id = _opened();
        ICourt.Verdict memory verdict = _verdict(REJECTED);
        bytes32 copied = court.commitmentOf(id, judges[0], verdict, VOTE_SALT);
        _commit(id, judges[0], verdict);
        vm.prank(judges[1]);
        court.commit(id, copied);
        _reveal(id, judges[0], verdict);
        _refused(ICourt.WrongReveal.selector, abi.encode(judges[1]));
        _reveal(id, judges[1], verdict); // knows verdict and salt now, but its own hash is another
    }

    function test_whatIsNoVerdict() public {
        bytes32 id = _opened();
        _refused(ICourt.NotAVerdict.selector, "");
        vm.prank(judges[0]);
        court.commit(id, 0);
        _refused(ICourt.NotAVerdict.selector, "");
        vm.prank(judges[0]);
        court.commit(id, bytes32(uint256(1))); // would read as already revealed
        _refused(ICourt.NotAVerdict.selector, "");
        _reveal(id, judges[0], _verdict(ICourt.Outcome.PENDING));
        ICourt.Verdict memory verdict = _verdict(REJECTED);
        verdict.units = 1;
        _refused(ICourt.NotAVerdict.selector, "");
        _reveal(id, judges[0], verdict);
    }

    function test_aDecidedDocketTakesNoMoreCommitments() public {
        bytes32 id = _opened();
        _commit(id, judges[2], _verdict(ACCEPTED));
        _judge(id, REJECTED);
        address late = judges[2];
        _reveal(id, late, _verdict(ACCEPTED)); // on record, without effect
        vm.assertTrue(court.getDocket(id).outcome == REJECTED);
        vm.assertEq(treasury.unitsOf(poolId, worker), 0);
        _refused(ICourt.AlreadyDecided.selector, abi.encode(id, REJECTED));
        _commit(id, late, _verdict(ACCEPTED));
        _refused(ICourt.AlreadyDecided.selector, abi.encode(id, REJECTED));
        court.requireDrawn(id, late);
    }

    function test_nobodyIsSlashedForWhatWasLeftUnjudged() public {
        bytes32 id = _opened();
        ICourt.Verdict memory verdict = _verdict(REJECTED);
        for (uint256 i; i < 3; ++i) {
            _commit(id, judges[i], verdict);
        }
        _reveal(id, judges[0], verdict);
        vm.warp(court.getDocket(id).openedAt + VERDICT_S + 1);
        _reveal(id, judges[1], verdict);
        _reveal(id, judges[2], verdict);
        vm.assertTrue(_isPending(id));
        vm.assertEq(registry.getNode(worker).locked, 0);
    }

    function test_attack_unjudgedWorkIsNeverPaid() public {
        bytes32 id = _opened();
        ICourt.Verdict memory verdict = _verdict(ACCEPTED);
        for (uint256 i; i < 3; ++i) {
            _commit(id, judges[i], verdict);
        }
        _reveal(id, judges[0], verdict);
        vm.warp(court.getDocket(id).openedAt + VERDICT_S + 1);
        _reveal(id, judges[1], verdict);
        vm.assertEq(treasury.unitsOf(poolId, worker), 0);
        bytes32 neverOpened = court.open(_submit());
        vm.warp(court.getDocket(neverOpened).openedAt + VERDICT_S + 1);
        _refused(ICourt.VerdictsClosed.selector, abi.encode(_now() - 1));
        _commit(neverOpened, judges[2], verdict);
        vm.assertEq(treasury.unitsOf(poolId, worker), 0);
    }

    function test_attack_anothersVerdictOnAnotherDocket() public {
        bytes32 id = _opened();
        bytes32 next = _opened();
        ICourt.Verdict memory verdict = _verdict(ACCEPTED);
        // What was committed for one docket opens no other.
        bytes32 commitment = court.commitmentOf(id, judges[0], verdict, VOTE_SALT);
        vm.prank(judges[0]);
        court.commit(next, commitment);
        _commit(next, judges[1], verdict);
        _refused(ICourt.WrongReveal.selector, abi.encode(judges[0]));
        _reveal(next, judges[0], verdict);
        _refused(ICourt.NoCommitment.selector, abi.encode(judges[0]));
        _reveal(id, judges[0], verdict);
    }

    function test_oneValidatorThatDecidesAloneNeedNotCommit() public {
        _singlePool();
        bytes32 id = _opened();
        _reveal(id, judges[0], _verdict(ACCEPTED));
        vm.assertEq(treasury.unitsOf(poolId, worker), 1000);
        _refused(ICourt.AlreadyRevealed.selector, abi.encode(judges[0]));
        _reveal(id, judges[0], _verdict(ACCEPTED));
        id = _opened();
        _commit(id, judges[0], _verdict(REJECTED));
        _refused(ICourt.WrongReveal.selector, abi.encode(judges[0]));
        _reveal(id, judges[0], _verdict(ACCEPTED));
        _reveal(id, judges[0], _verdict(REJECTED));
        vm.assertTrue(court.getDocket(id).outcome == REJECTED);
    }

    function test_attack_aloneButNotDrawnOrTooLate() public {
        _singlePool();
        bytes32 id = _opened();
        bytes32 own = _accused(judges[0]);
        _refused(ICourt.OwnCase.selector, abi.encode(judges[0]));
        _reveal(own, judges[0], _verdict(ACCEPTED));
        vm.warp(court.getDocket(id).openedAt + VERDICT_S + 1);
        _refused(ICourt.VerdictsClosed.selector, abi.encode(_now() - 1));
        _reveal(id, judges[0], _verdict(REJECTED));
    }

    function test_manyDocketsInOneTransaction() public {
        _singlePool();
        bytes[] memory calls = new bytes[](4);
        for (uint256 i; i < 2; ++i) {
            calls[2 * i] = abi.encodeCall(court.open, (_submit()));
            bytes32 id = runs.submissionIdOf(poolId, 0, i == 0 ? 0 : 1, worker);
            calls[2 * i + 1] = abi.encodeCall(court.reveal, (id, _verdict(ACCEPTED), 0));
        }
        _skip(1);
        vm.prank(judges[0]);
        court.multicall(calls);
        vm.assertEq(treasury.unitsOf(poolId, worker), 2000);
    }

    function testFuzz_onlyAnAgreeingQuorumDecides(uint8[3] memory votes) public {
        bytes32 id = _opened();
        uint256[4] memory tally;
        for (uint256 i; i < 3; ++i) {
            votes[i] = 1 + votes[i] % 3;
        }
        for (uint256 i; i < 3; ++i) {
            _commit(id, judges[i], _verdict(ICourt.Outcome(votes[i])));
        }
        uint256 decided;
        for (uint256 i; i < 3; ++i) {
            _reveal(id, judges[i], _verdict(ICourt.Outcome(votes[i])));
            if (++tally[votes[i]] == 2) decided = votes[i];
        }
        vm.assertEq(uint256(court.getDocket(id).outcome), decided);
        vm.assertEq(registry.getNode(worker).locked, decided == uint256(REJECTED) ? SLASH : 0);
        vm.assertEq(treasury.unitsOf(poolId, worker), decided == uint256(ACCEPTED) ? 1000 : 0);
    }
}
