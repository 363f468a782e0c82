// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.30;

import {IComputePools} from "../src/interfaces/IComputePools.sol";
import {ICourt} from "../src/interfaces/ICourt.sol";
import {INodeRegistry} from "../src/interfaces/INodeRegistry.sol";
import {Fixture} from "./Fixture.sol";
import {vm} from "./Vm.sol";

/// @dev From conviction to burn or acquittal.
contract CasesTest is Fixture {
    ICourt.Outcome private constant ACCEPTED = ICourt.Outcome.ACCEPTED;
    ICourt.Outcome private constant REJECTED = ICourt.Outcome.REJECTED;

    address private _staker = _stakerOfKey(WORKER_KEY);

    function setUp() public override {
        super.setUp();
        _joinAll();
    }

    function _unbondAll() private {
        uint256 stake = registry.getNode(worker).stake;
        vm.prank(_staker);
        registry.unbond(worker, stake);
    }

    function _withdraw() private returns (uint256) {
        vm.prank(_staker);
        return registry.withdraw(worker);
    }

    function test_aConvictionLocksAndEjectsAndBurnsOnlyAfterTheWindow() public {
        bytes32 id = _opened();
        uint256 until = _now() + CHALLENGE_S;
        ICourt.Verdict memory verdict = _verdict(REJECTED);
        _commit(id, judges[0], verdict);
        _commit(id, judges[1], verdict);
        _reveal(id, judges[0], verdict);
        vm.expectEmit(address(court));
        emit ICourt.CaseOpened(poolId, id, worker, SLASH, until);
        vm.expectEmit(address(registry));
        emit INodeRegistry.StakeLocked(worker, SLASH, SLASH);
        vm.expectEmit(address(pools));
        emit IComputePools.Blacklisted(poolId, worker, IComputePools.Bar.BY_VERDICT, "because");
        _reveal(id, judges[1], verdict);
        vm.assertEq(registry.getNode(worker).stake, MIN_STAKE);
        vm.warp(until);
        _refused(ICourt.StillOpen.selector, abi.encode(until));
        court.execute(id);
        vm.warp(until + 1);
        uint256 supply = token.totalSupply();
        vm.expectEmit(address(registry));
        emit INodeRegistry.StakeBurnt(worker, SLASH, MIN_STAKE - SLASH);
        vm.expectEmit(address(court));
        emit ICourt.CaseClosed(poolId, id, worker, ICourt.CaseState.BURNT, SLASH);
        vm.prank(stranger);
        court.execute(id);
        vm.assertEq(supply - token.totalSupply(), SLASH);
        vm.assertEq(registry.getNode(worker).locked, 0);
        _refused(ICourt.NoOpenCase.selector, abi.encode(id));
        court.execute(id);
        _refused(ICourt.NoOpenCase.selector, abi.encode(FILE));
        court.execute(FILE);
    }

    function test_aWiderPanelOverturns() public {
        _newJudge();
        _skip(1);
        bytes32 id = _opened();
        _skip(ROUND_S); // until all four are drawn
        _judge(id, REJECTED);
        vm.assertEq(registry.getNode(worker).locked, SLASH);
        bytes32 appealId = keccak256(abi.encode("appeal", id));
        vm.expectEmit(address(court));
        emit ICourt.DocketOpened(poolId, appealId, worker, ICourt.Kind.APPEAL, 0, 0);
        vm.assertEq(_appealed(id), appealId);
        ICourt.Docket memory wider = court.getDocket(appealId);
        vm.assertEq(wider.panel, 6);
        vm.assertEq(wider.quorum, 3);
        vm.assertEq(wider.about, id);
        _judge(appealId, ACCEPTED);
        vm.assertTrue(court.getCase(id).state == ICourt.CaseState.OVERTURNED);
        vm.assertTrue(court.getDocket(id).outcome == ACCEPTED);
        vm.assertEq(registry.getNode(worker).locked, 0);
        vm.assertEq(treasury.unitsOf(poolId, worker), 1000);
        _skip(2 * CHALLENGE_S);
        _refused(ICourt.NoOpenCase.selector, abi.encode(id));
        court.execute(id);
    }

    function test_aWiderPanelUpholdsAndBurnsAtOnce() public {
        bytes32 id = _convicted();
        _judge(_appealed(id), REJECTED);
        vm.assertTrue(court.getCase(id).state == ICourt.CaseState.BURNT);
        vm.assertEq(registry.getNode(worker).stake, MIN_STAKE - SLASH);
        vm.assertFalse(pools.isActive(poolId, worker));
    }

    function test_anAppealThatNobodyJudgesBurns() public {
        bytes32 id = _convicted();
        bytes32 appealId = _appealed(id);
        uint256 until = court.getCase(id).until;
        _refused(ICourt.StillOpen.selector, abi.encode(until));
        court.execute(id);
        vm.warp(until + 1);
        _refused(ICourt.VerdictsClosed.selector, abi.encode(until));
        _commit(appealId, judges[0], _verdict(ACCEPTED));
        court.execute(id);
        vm.assertEq(registry.getNode(worker).stake, MIN_STAKE - SLASH);
    }

    function test_theAccusedItsStakerOrAValidatorAppealsOnce() public {
        bytes32 id = _convicted();
        _refused(ICourt.MayNotAppeal.selector, abi.encode(stranger));
        vm.prank(stranger);
        court.appeal(id);
        _refused(ICourt.MayNotAppeal.selector, abi.encode(manager));
        vm.prank(manager);
        court.appeal(id);
        vm.prank(_staker);
        bytes32 appealId = court.appeal(id);
        _refused(ICourt.NoOpenCase.selector, abi.encode(id));
        _appealed(id);
        _refused(ICourt.NoOpenCase.selector, abi.encode(appealId));
        _appealed(appealId);
        id = _accused(judges[2]);
        _judge(id, REJECTED);
        vm.prank(judges[0]);
        court.appeal(id);
    }

    function test_appealsHaveTheirTime() public {
        bytes32 id = _convicted();
        uint256 until = court.getCase(id).until;
        vm.warp(until + 1);
        _refused(ICourt.AppealTooLate.selector, abi.encode(until));
        _appealed(id);
        vm.warp(until);
        _appealed(id);
        vm.assertEq(court.getCase(id).until, until + CHALLENGE_S);
    }

    function test_nothingOpenToAppeal() public {
        bytes32 id = _opened();
        _refused(ICourt.NoOpenCase.selector, abi.encode(id));
        _appealed(id);
    }

    function test_attack_takingTheStakeOutBeforeTheVerdict() public {
        bytes32 id = court.open(_submit());
        _unbondAll();
        vm.prank(worker);
        pools.leave(poolId);
        vm.roll(vm.getBlockNumber() + 1);
        vm.warp(court.getDocket(id).openedAt + VERDICT_S); // the last second
        _judge(id, REJECTED);
        _skip(UNBONDING_S);
        vm.assertEq(_withdraw(), MIN_STAKE - SLASH);
        court.execute(id);
        vm.assertEq(registry.getNode(worker).unbonding, 0);
        vm.assertEq(token.balanceOf(_staker), MIN_STAKE - SLASH);
    }

    function test_attack_oneStakeForManyCheats() public {
        bytes32[4] memory ids;
        for (uint256 i; i < 4; ++i) ids[i] = _opened();
        for (uint256 i; i < 4; ++i) _judge(ids[i], REJECTED);
        vm.assertEq(registry.getNode(worker).locked, 4 * SLASH);
        _unbondAll();
        _skip(UNBONDING_S);
        _refused(INodeRegistry.StakeUnderCase.selector, abi.encode(worker, 4 * SLASH));
        _withdraw();
        for (uint256 i; i < 4; ++i) court.execute(ids[i]);
        vm.assertEq(registry.getNode(worker).unbonding, 0);
        vm.assertEq(registry.getNode(worker).locked, 0);
    }

    function test_aConvictTakesWhatIsLeft() public {
        bytes32 id = _convicted();
        _skip(CHALLENGE_S + 1);
        court.execute(id);
        vm.prank(worker);
        pools.leave(poolId);
        _unbondAll();
        _skip(UNBONDING_S);
        vm.assertEq(_withdraw(), MIN_STAKE - SLASH);
    }

    function test_casesGoOnWhenThePoolHasEnded() public {
        bytes32 first = _opened();
        bytes32 second = _opened();
        _judge(first, REJECTED);
        vm.prank(owner);
        pools.endPool(poolId);
        _judge(_appealed(first), ACCEPTED);
        _judge(second, REJECTED);
        _skip(CHALLENGE_S + 1);
        court.execute(second);
        vm.assertEq(registry.getNode(worker).stake, MIN_STAKE - SLASH);
    }

    function test_workThatWasOnlyLateIsNotPunished() public {
        bytes32 id = _convicted();
        _judge(_appealed(id), ICourt.Outcome.LATE);
        vm.assertTrue(court.getCase(id).state == ICourt.CaseState.OVERTURNED);
        vm.assertTrue(court.getDocket(id).outcome == ICourt.Outcome.LATE);
        vm.assertEq(registry.getNode(worker).locked, 0);
        vm.assertEq(treasury.unitsOf(poolId, worker), 0);
    }

    function test_attack_oneAcquittalForTwoConvictions() public {
        bytes32 first = _opened();
        bytes32 second = _opened();
        _judge(first, REJECTED);
        _judge(second, REJECTED);
        _judge(_appealed(second), ACCEPTED);
        vm.assertTrue(pools.barOf(poolId, worker) == IComputePools.Bar.BY_VERDICT);
        _judge(_appealed(first), ACCEPTED);
        vm.assertTrue(pools.barOf(poolId, worker) == IComputePools.Bar.NONE);
    }

    function test_aConvictedValidatorJudgesNoMore() public {
        _judge(_accused(judges[2]), REJECTED);
        bytes32 id = _accused(worker);
        _refused(IComputePools.NotActiveMember.selector, abi.encode(poolId, judges[2]));
        court.requireDrawn(id, judges[2]);
    }

    /// Cases end in any order: each burns its own part once, and what is left is free.
    function testFuzz_casesInAnyOrder(uint8[3] memory order, bool[3] memory overturn, bool unbondFirst) public {
        bytes32[3] memory ids;
        bytes32[3] memory appeals;
        for (uint256 i; i < 3; ++i) ids[i] = _opened();
        for (uint256 i; i < 3; ++i) _judge(ids[i], REJECTED);
        if (unbondFirst) _unbondAll();
        for (uint256 i; i < 3; ++i) {
            if (overturn[i]) appeals[i] = _appealed(ids[i]);
        }
        for (uint256 i; i < 3; ++i) {
            if (overturn[order[i] % 3] && court.getCase(ids[order[i] % 3]).state == ICourt.CaseState.APPEALED) {
                _judge(appeals[order[i] % 3], ACCEPTED);
            }
        }
        _skip(UNBONDING_S);
        uint256 burnt;
        for (uint256 i; i < 3; ++i) {
            if (court.getCase(ids[i]).state == ICourt.CaseState.OVERTURNED) continue;
            burnt += SLASH;
            court.execute(ids[i]);
        }
        if (burnt > MIN_STAKE) burnt = MIN_STAKE;
        INodeRegistry.Node memory node = registry.getNode(worker);
        vm.assertEq(node.locked, 0);
        vm.assertEq(uint256(node.stake) + node.unbonding, MIN_STAKE - burnt);
    }
}
