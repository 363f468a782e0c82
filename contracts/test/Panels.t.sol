// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.30;

import {ICourt} from "../src/interfaces/ICourt.sol";
import {IRunLedger} from "../src/interfaces/IRunLedger.sol";
import {Fixture} from "./Fixture.sol";
import {vm} from "./Vm.sol";

/// @dev Who is drawn, of twenty-four.
contract PanelsTest is Fixture {
    uint256 private constant MANY = 24;

    function setUp() public override {
        super.setUp();
        _joinAll();
        while (judges.length < MANY) _newJudge();
        _skip(1);
    }

    function _isDrawn(bytes32 docketId, address judge) private view returns (bool) {
        try court.requireDrawn(docketId, judge) {
            return true;
        } catch (bytes memory why) {
            vm.assertEq(keccak256(why), keccak256(abi.encodeWithSelector(ICourt.NotDrawn.selector, judge)));
            return false;
        }
    }

    function _openedAfter(bytes32 blockHash) private returns (bytes32 docketId) {
        docketId = _opened();
        vm.setBlockhash(vm.getBlockNumber() - 1, blockHash);
    }

    function _drawn(bytes32 docketId) private view returns (uint256 count) {
        for (uint256 i; i < MANY; ++i) {
            if (_isDrawn(docketId, judges[i])) ++count;
        }
    }

    function test_thePanelHasItsSizeOnAverage() public {
        uint256 drawn;
        for (uint256 i; i < 100; ++i) {
            drawn += _drawn(_openedAfter(keccak256(abi.encode(i))));
        }
        // 2,400 draws with chance 3/24: 300 expected, standard deviation 16
        vm.assertGe(drawn, 220);
        vm.assertLe(drawn, 380);
    }

    function test_attack_thoseLetInAfterTheWorkDoNotThinItsPanel() public {
        IRunLedger.File memory file = _submit();
        vm.assertEq(runs.getBatch(runs.submissionIdOf(poolId, 0, 0, worker)).validators, MANY);
        _skip(1);
        while (judges.length < 3 * MANY) _newJudge();
        bytes32 id = court.open(file);
        vm.assertEq(court.getDocket(id).validators, MANY);
    }

    function test_thoseWhoLeftSinceTheWorkDoNotCountEither() public {
        IRunLedger.File memory file = _submit();
        _skip(1);
        for (uint256 i; i < MANY / 2; ++i) {
            vm.prank(judges[i]);
            pools.leave(poolId);
        }
        vm.assertEq(court.getDocket(court.open(file)).validators, MANY / 2);
    }

    function test_notDrawnIsRefused() public {
        bytes32 id = _openedAfter(keccak256("a block"));
        ICourt.Verdict memory verdict = _verdict(ICourt.Outcome.REJECTED);
        for (uint256 i; i < MANY; ++i) {
            if (!_isDrawn(id, judges[i])) _refused(ICourt.NotDrawn.selector, abi.encode(judges[i]));
            vm.prank(judges[i]);
            court.commit(id, keccak256(abi.encode(verdict)));
        }
        vm.assertEq(court.getDocket(id).commits, _drawn(id));
    }

    function testFuzz_thePanelOnlyWidens(bytes32 blockHash) public {
        vm.assume(blockHash != 0);
        bytes32 id = _openedAfter(blockHash);
        bool[] memory before = new bool[](MANY);
        for (uint256 round; round < 4; ++round) {
            for (uint256 i; i < MANY; ++i) {
                bool drawn = _isDrawn(id, judges[i]);
                vm.assertTrue(drawn || !before[i]);
                vm.assertTrue(drawn || round < 3); // 3 · 2³ ≥ 24
                before[i] = drawn;
            }
            vm.warp(court.getDocket(id).openedAt + (round + 1) * ROUND_S);
        }
        vm.warp(court.getDocket(id).openedAt + VERDICT_S);
        vm.assertEq(_drawn(id), MANY);
    }

    function testFuzz_theFirstCommitmentSettlesWhoIsDrawn(bytes32 blockHash, uint16 blocks) public {
        vm.assume(blockHash != 0);
        bytes32 id = _openedAfter(blockHash);
        uint256 first;
        while (first < MANY && !_isDrawn(id, judges[first])) ++first;
        if (first == MANY) return;
        uint256 drawn = _drawn(id);
        _commit(id, judges[first], _verdict(ICourt.Outcome.REJECTED));
        vm.roll(vm.getBlockNumber() + 300 + blocks);
        vm.assertEq(_drawn(id), drawn);
    }
}
