// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.30;

import {ComputePools} from "../src/ComputePools.sol";
import {Court} from "../src/Court.sol";
import {IComputePools} from "../src/interfaces/IComputePools.sol";
import {ICourt} from "../src/interfaces/ICourt.sol";
import {INodeRegistry} from "../src/interfaces/INodeRegistry.sol";
import {IPools} from "../src/interfaces/IPools.sol";
import {IRunLedger} from "../src/interfaces/IRunLedger.sol";
import {NodeRegistry} from "../src/NodeRegistry.sol";
import {RunLedger} from "../src/RunLedger.sol";
import {StakeToken} from "../src/StakeToken.sol";
import {Treasury} from "../src/Treasury.sol";
import {vm} from "./Vm.sol";

/// @dev A deployment with one domain, one active pool, registered nodes, and the means to invite, work and judge.
/// A node's staker is another account than the node.
abstract contract Fixture {
    uint128 internal constant MIN_STAKE = 100 ether;
    uint128 internal constant SLASH = 40 ether;
    uint128 internal constant UNIT_PRICE = 1e15;
    uint64 internal constant UNBONDING_S = 7 days;
    uint32 internal constant ROUND_S = 60;
    uint32 internal constant VERDICT_S = 1 days;
    uint32 internal constant CHALLENGE_S = 1 hours;
    uint32 internal constant LEASE_S = 5 minutes;
    bytes32 internal constant SALT = keccak256("this deployment");
    bytes32 internal constant FILE = keccak256("a file");
    bytes32 internal constant EVIDENCE = keccak256("the evidence");
    bytes32 internal constant VOTE_SALT = keccak256("a secret");
    uint256 internal constant MANAGER_KEY = 0xA11CE;
    uint256 internal constant STANDBY_KEY = 0xA11CF;
    uint256 internal constant WORKER_KEY = 0x1001;
    uint256 internal constant OTHER_KEY = 0x1002;
    uint256 internal constant JUDGE_KEY = 0x2000;

    address internal manager = vm.addr(MANAGER_KEY);
    address internal standby = vm.addr(STANDBY_KEY);
    address internal owner = address(0x0171);
    address internal stranger = address(0x5742);
    address internal worker = vm.addr(WORKER_KEY);
    address internal other = vm.addr(OTHER_KEY);
    address[] internal judges;

    StakeToken internal token;
    NodeRegistry internal registry;
    ComputePools internal pools;
    RunLedger internal runs;
    Treasury internal treasury;
    Court internal court;
    uint256 internal domainId;
    uint256 internal poolId;

    function setUp() public virtual {
        vm.warp(1_000_000);
        vm.roll(1_000);
        _deploy();
        vm.startPrank(owner);
        domainId = pools.createDomain("maths");
        poolId = pools.createPool(domainId, manager, _terms());
        pools.startPool(poolId);
        vm.stopPrank();
        _newNode(WORKER_KEY, MIN_STAKE);
        _newNode(OTHER_KEY, MIN_STAKE);
    }

    function _deploy() internal {
        token = new StakeToken(address(this));
        registry = new NodeRegistry(token, SALT, UNBONDING_S);
        pools = new ComputePools(registry, SALT);
        treasury = new Treasury(token, registry, pools);
        runs = new RunLedger(pools);
        court = new Court(pools, registry, runs, treasury);
        address[] memory callers = new address[](1);
        callers[0] = address(court);
        registry.wire(callers);
        pools.wire(callers);
        treasury.wire(callers);
    }

    function _terms() internal pure virtual returns (IPools.Terms memory terms) {
        terms.minStake = MIN_STAKE;
        terms.slash = SLASH;
        terms.unitPrice = UNIT_PRICE;
        terms.memberLimit = 100;
        (terms.quorum, terms.panel) = (2, 3);
        (terms.roundS, terms.verdictS) = (ROUND_S, VERDICT_S);
        (terms.challengeS, terms.leaseS) = (CHALLENGE_S, LEASE_S);
        terms.requirementsUri = "ipfs://requirements";
    }

    function _now() internal view returns (uint256) {
        return vm.getBlockTimestamp();
    }

    function _skip(uint256 seconds_) internal {
        vm.warp(vm.getBlockTimestamp() + seconds_);
        vm.roll(vm.getBlockNumber() + 1);
    }

    function _refused(bytes4 selector, bytes memory arguments) internal {
        vm.expectRevert(abi.encodePacked(selector, arguments));
    }

    // Nodes

    function _stakerOfKey(uint256 key) internal pure returns (address) {
        return vm.addr(0x50000000 + key);
    }

    function _purse(address holder, uint256 amount, address spender) internal {
        token.mint(holder, amount);
        vm.prank(holder);
        token.approve(spender, amount);
    }

    function _newNode(uint256 key, uint256 amount) internal returns (address node) {
        return _newNodeOf(key, _stakerOfKey(key), amount);
    }

    function _newNodeOf(uint256 key, address staker, uint256 amount) internal returns (address node) {
        node = vm.addr(key);
        _purse(staker, amount, address(registry));
        INodeRegistry.Binding memory binding = _binding(node, staker);
        bytes memory signature = _signBinding(key, binding);
        vm.prank(staker);
        registry.register(binding, signature, amount);
    }

    function _binding(address node, address staker) internal view returns (INodeRegistry.Binding memory) {
        return INodeRegistry.Binding(staker, node, registry.nonces(node), _now() + 60, SALT);
    }

    function _signBinding(uint256 key, INodeRegistry.Binding memory binding) internal view returns (bytes memory) {
        return _signTyped(key, address(registry), keccak256(abi.encode(registry.BINDING_TYPEHASH(), binding)));
    }

    function _signTyped(uint256 key, address verifier, bytes32 structHash) internal view returns (bytes memory) {
        bytes32 domain = keccak256(
            abi.encode(
                keccak256("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"),
                keccak256("intellect-node"),
                keccak256("1"),
                block.chainid,
                verifier
            )
        );
        (uint8 v, bytes32 r, bytes32 s) = vm.sign(key, keccak256(abi.encodePacked("\x19\x01", domain, structHash)));
        return abi.encodePacked(r, s, v);
    }

    // Members

    function _invite(address node, IComputePools.Role role) internal view returns (IComputePools.Invite memory) {
        IComputePools.Member memory member = pools.getMember(poolId, node);
        uint256 bit;
        while (member.used & (2 ** bit) != 0) ++bit;
        uint256 nonce = (uint256(member.epoch) << 8) + bit;
        return IComputePools.Invite(node, poolId, domainId, role, nonce, _now() + 60, SALT);
    }

    function _signAs(uint256 key, IComputePools.Invite memory invite) internal view returns (bytes memory) {
        return _signTyped(key, address(pools), keccak256(abi.encode(pools.INVITE_TYPEHASH(), invite)));
    }

    function _sign(IComputePools.Invite memory invite) internal view returns (bytes memory) {
        return _signAs(MANAGER_KEY, invite);
    }

    function _join(address node, IComputePools.Role role) internal {
        IComputePools.Invite memory invite = _invite(node, role);
        bytes memory signature = _sign(invite);
        vm.prank(node);
        pools.join(invite, signature);
    }

    function _newJudge() internal returns (address judge) {
        judge = _newNode(JUDGE_KEY + judges.length, MIN_STAKE);
        _join(judge, IComputePools.Role.VALIDATOR);
        judges.push(judge);
    }

    /// The worker and three validators, in the pool before anything is submitted.
    function _joinAll() internal {
        _join(worker, IComputePools.Role.WORKER);
        for (uint256 i; i < 3; ++i) _newJudge();
        _skip(1);
    }

    // Work and verdicts

    function _submit() internal returns (IRunLedger.File memory file) {
        return _submitAs(worker);
    }

    function _submitAs(address node) internal returns (IRunLedger.File memory file) {
        bytes32[] memory hashes = new bytes32[](1);
        hashes[0] = FILE;
        uint32 counter = runs.nextCounter(poolId, node, 0);
        vm.prank(node);
        runs.submit(poolId, 0, counter, hashes);
        return IRunLedger.File(poolId, node, 0, counter, counter, FILE, new bytes32[](0));
    }

    /// A fresh submission of the worker's, before the validators, one block later.
    function _opened() internal returns (bytes32 docketId) {
        docketId = court.open(_submit());
        _skip(1);
    }

    function _accused(address node) internal returns (bytes32 docketId) {
        vm.prank(manager);
        docketId = court.accuse(poolId, node, "spam", EVIDENCE);
        _skip(1);
    }

    function _verdict(ICourt.Outcome outcome) internal pure returns (ICourt.Verdict memory) {
        return ICourt.Verdict(outcome, outcome == ICourt.Outcome.ACCEPTED ? 1000 : 0, "because", EVIDENCE);
    }

    function _commit(bytes32 docketId, address judge, ICourt.Verdict memory verdict) internal {
        bytes32 commitment = keccak256(abi.encode(docketId, judge, verdict, VOTE_SALT));
        vm.prank(judge);
        court.commit(docketId, commitment);
    }

    function _reveal(bytes32 docketId, address judge, ICourt.Verdict memory verdict) internal {
        vm.prank(judge);
        court.reveal(docketId, verdict, VOTE_SALT);
    }

    /// The first of the judges, as many as the docket's quorum asks for, agree.
    function _judge(bytes32 docketId, ICourt.Outcome outcome) internal {
        uint256 quorum = court.getDocket(docketId).quorum;
        ICourt.Verdict memory verdict = _verdict(outcome);
        for (uint256 i; i < quorum; ++i) _commit(docketId, judges[i], verdict);
        for (uint256 i; i < quorum; ++i) _reveal(docketId, judges[i], verdict);
    }

    /// A case that is open against the worker.
    function _convicted() internal returns (bytes32 docketId) {
        docketId = _opened();
        _judge(docketId, ICourt.Outcome.REJECTED);
    }

    function _appealed(bytes32 docketId) internal returns (bytes32 appealId) {
        vm.prank(worker);
        appealId = court.appeal(docketId);
        _skip(1);
    }
}
