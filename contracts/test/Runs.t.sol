// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.30;

import {IComputePools} from "../src/interfaces/IComputePools.sol";
import {INodeRegistry} from "../src/interfaces/INodeRegistry.sol";
import {IRunLedger} from "../src/interfaces/IRunLedger.sol";
import {Fixture} from "./Fixture.sol";
import {MerkleTree} from "./MerkleTree.sol";
import {vm} from "./Vm.sol";

contract RunsTest is Fixture {
    function setUp() public override {
        super.setUp();
        _joinAll();
    }

    function _hashes(uint256 count) private pure returns (bytes32[] memory hashes) {
        hashes = new bytes32[](count);
        for (uint256 i; i < count; ++i) {
            hashes[i] = keccak256(abi.encode("file", i));
        }
    }

    function _submit(uint64 step, uint32 first, bytes32[] memory hashes) private returns (bytes32) {
        vm.prank(worker);
        return runs.submit(poolId, step, first, hashes);
    }

    function _file(uint64 step, uint32 first, bytes32[] memory hashes, uint32 index)
        private
        view
        returns (IRunLedger.File memory)
    {
        bytes32[] memory leaves = new bytes32[](hashes.length);
        for (uint32 i; i < hashes.length; ++i) {
            leaves[i] = MerkleTree.leaf(runs.submissionIdOf(poolId, step, first + i, worker), hashes[i]);
        }
        bytes32[] memory proof = MerkleTree.proof(leaves, index);
        return IRunLedger.File(poolId, worker, step, first, first + index, hashes[index], proof);
    }

    function _refuseFile(IRunLedger.File memory file) private {
        bytes32 id = runs.submissionIdOf(file.poolId, file.step, file.counter, file.node);
        _refused(IRunLedger.NotSubmitted.selector, abi.encode(id));
        runs.requireSubmitted(file);
        _refused(IRunLedger.NotSubmitted.selector, abi.encode(id));
        court.open(file);
    }

    function test_checkpointsHaveNoGaps() public {
        vm.startPrank(manager);
        vm.expectEmit(address(runs));
        emit IRunLedger.CheckpointAnnounced(poolId, 0, FILE, 1);
        runs.announceCheckpoint(poolId, 0, FILE);
        _refused(IRunLedger.WrongVersion.selector, abi.encode(0, 1));
        runs.announceCheckpoint(poolId, 0, FILE);
        _refused(IRunLedger.WrongVersion.selector, abi.encode(2, 1));
        runs.announceCheckpoint(poolId, 2, FILE);
        _refused(IRunLedger.ZeroHash.selector, "");
        runs.announceCheckpoint(poolId, 1, 0);
        runs.announceCheckpoint(poolId, 1, EVIDENCE);
        vm.stopPrank();
        vm.assertEq(runs.checkpointCount(poolId), 2);
        vm.assertEq(runs.getCheckpoint(poolId, 1).manifestHash, EVIDENCE);
        vm.assertEq(runs.getCheckpoint(poolId, 1).blockNumber, vm.getBlockNumber());
        _refused(IRunLedger.UnknownCheckpoint.selector, abi.encode(poolId, 2));
        runs.getCheckpoint(poolId, 2);
    }

    function test_aSubmissionIsRecorded() public {
        bytes32 id = runs.submissionIdOf(poolId, 3, 0, worker);
        vm.expectEmit(address(runs));
        emit IRunLedger.SubmissionRecorded(poolId, id, worker, 3, 0, _hashes(1)[0]);
        vm.assertEq(_submit(3, 0, _hashes(1)), id);
        IRunLedger.Batch memory batch = runs.getBatch(id);
        vm.assertEq(batch.count, 1);
        vm.assertEq(batch.validators, judges.length);
        vm.assertEq(batch.time, _now());
        vm.assertEq(batch.blockNumber, vm.getBlockNumber());
        vm.assertEq(batch.root, MerkleTree.leaf(id, _hashes(1)[0]));
        vm.assertEq(runs.nextCounter(poolId, worker, 3), 1);
    }

    function test_countersHaveNoGapsAndNoRepeats() public {
        _submit(0, 0, _hashes(3));
        _refused(IRunLedger.WrongCounter.selector, abi.encode(0, 3));
        _submit(0, 0, _hashes(1));
        _refused(IRunLedger.WrongCounter.selector, abi.encode(4, 3));
        _submit(0, 4, _hashes(1));
        _submit(0, 3, _hashes(1));
        _submit(1, 0, _hashes(1));
        vm.assertEq(runs.nextCounter(poolId, worker, 0), 4);
    }

    function test_batchesHaveBounds() public {
        _refused(IRunLedger.BadBatchSize.selector, abi.encode(0));
        _submit(0, 0, _hashes(0));
        uint256 most = runs.MAX_BATCH();
        _refused(IRunLedger.BadBatchSize.selector, abi.encode(most + 1));
        _submit(0, 0, _hashes(most + 1));
        _submit(0, 0, _hashes(most));
        bytes32[] memory hashes = _hashes(2);
        hashes[1] = 0;
        _refused(IRunLedger.ZeroHash.selector, "");
        _submit(1, 0, hashes);
    }

    function test_onlyActiveWorkersWithTheirStakeSubmit() public {
        bytes32[] memory hashes = _hashes(1);
        _refused(IComputePools.WrongRole.selector, abi.encode(2, 1));
        vm.prank(judges[0]);
        runs.submit(poolId, 0, 0, hashes);
        _refused(IComputePools.NotActiveMember.selector, abi.encode(poolId, other));
        vm.prank(other);
        runs.submit(poolId, 0, 0, hashes);
        vm.prank(_stakerOfKey(WORKER_KEY));
        registry.unbond(worker, 1);
        _refused(INodeRegistry.StakeTooLow.selector, abi.encode(worker, MIN_STAKE - 1, MIN_STAKE));
        _submit(0, 0, hashes);
    }

    /// The seat is kept, to be filled again; but who has nothing to lose hands nothing in.
    function test_attack_aSeatWithoutStake() public {
        vm.startPrank(_stakerOfKey(WORKER_KEY));
        registry.unbond(worker, MIN_STAKE);
        vm.warp(_now() + registry.unbondingS());
        registry.withdraw(worker);
        vm.stopPrank();
        vm.assertTrue(pools.isActive(poolId, worker));
        for (uint256 size = 1; size <= 3; size += 2) {
            _refused(INodeRegistry.StakeTooLow.selector, abi.encode(worker, 0, MIN_STAKE));
            _submit(0, 0, _hashes(size));
        }
        _purse(stranger, MIN_STAKE, address(registry));
        vm.prank(stranger);
        registry.addStake(worker, MIN_STAKE);
        _submit(0, 0, _hashes(3));
    }

    function test_anEndedPoolTakesNoWork() public {
        vm.prank(owner);
        pools.endPool(poolId);
        _refused(IRunLedger.PoolNotActive.selector, abi.encode(poolId));
        _submit(0, 0, _hashes(1));
    }

    function test_attack_copiedWorkKey() public {
        _join(other, IComputePools.Role.WORKER);
        bytes32[] memory hashes = _hashes(1);
        vm.prank(other); // sees the hash in the mempool and is first
        bytes32 copied = runs.submit(poolId, 0, 0, hashes);
        bytes32 id = _submit(0, 0, hashes); // the victim is not hindered
        vm.assertTrue(copied != id);
        vm.assertEq(runs.submissionIdOf(poolId, 0, 0, worker), id);
    }

    function test_attack_unknownWork() public {
        _refuseFile(IRunLedger.File(poolId, worker, 0, 0, 0, FILE, new bytes32[](0)));
        _refuseFile(IRunLedger.File(poolId, worker, 0, 0, 0, 0, new bytes32[](0)));
    }

    function test_attack_anInnerNodeForAFile() public {
        bytes32[] memory hashes = _hashes(2);
        bytes32 root = runs.getBatch(_submit(0, 0, hashes)).root;
        IRunLedger.File memory file = _file(0, 0, hashes, 0);
        file.fileHash = root;
        file.proof = new bytes32[](0);
        _refuseFile(file);
    }

    function test_attack_aFileUnderAnotherCounter() public {
        bytes32[] memory hashes = _hashes(4);
        _submit(0, 0, hashes);
        IRunLedger.File memory file = _file(0, 0, hashes, 2);
        runs.requireSubmitted(file);
        file.counter = 3;
        _refuseFile(file);
        file = _file(0, 0, hashes, 2);
        file.node = other;
        _refuseFile(file);
        file = _file(0, 0, hashes, 2);
        file.firstCounter = 1;
        _refuseFile(file);
        file = _file(0, 0, hashes, 2);
        file.fileHash = hashes[3];
        _refuseFile(file);
    }

    function test_theLargestBatchOpensAtBothEnds() public {
        bytes32[] memory hashes = _hashes(256);
        _submit(0, 0, hashes);
        court.open(_file(0, 0, hashes, 0));
        court.open(_file(0, 0, hashes, 255));
    }

    function testFuzz_everyFileOfABatchIsProven(uint256 size, uint32 index, uint64 step, bool second) public {
        size = 1 + size % 40;
        uint32 first;
        if (second) {
            _submit(step, 0, _hashes(5));
            first = 5;
        }
        bytes32[] memory hashes = _hashes(size);
        bytes32 firstId = _submit(step, first, hashes);
        while (index >= size) index /= 2;
        IRunLedger.File memory file = _file(step, first, hashes, index);
        (bytes32 id, IRunLedger.Batch memory batch) = runs.requireSubmitted(file);
        vm.assertEq(id, runs.submissionIdOf(poolId, step, file.counter, worker));
        vm.assertEq(keccak256(abi.encode(batch)), keccak256(abi.encode(runs.getBatch(firstId))));
        if (size > 1) {
            file.proof[file.proof.length - 1] = keccak256("another");
            _refuseFile(file);
        }
    }

    function testFuzz_idsBindEveryField(uint64 step, uint32 counter, address node) public view {
        bytes32 id = runs.submissionIdOf(poolId, step, counter, node);
        vm.assertEq(id, keccak256(abi.encode(poolId, step, counter, node)));
        vm.assertTrue(id != runs.submissionIdOf(poolId + 1, step, counter, node));
    }
}
