// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.30;

import {IComputePools} from "../../src/interfaces/IComputePools.sol";
import {ICourt} from "../../src/interfaces/ICourt.sol";
import {INodeRegistry} from "../../src/interfaces/INodeRegistry.sol";
import {IPools} from "../../src/interfaces/IPools.sol";
import {Fixture} from "../Fixture.sol";
import {vm} from "../Vm.sol";

/// @dev Seven nodes and two pools, and beside them what must be true of them, kept without reading the contracts.
abstract contract World is Fixture {
    uint256 internal constant NODES = 7;
    uint256 internal constant UNITS = 1000;

    address[NODES] internal nodes;
    address[NODES] internal stakers;
    /// The pool with a quorum of two, and the one where one validator decides.
    uint256[2] internal poolIds;

    uint256 internal minted;
    uint256 internal burnt;
    /// Tokens in the registry, in the treasury, and in wallets.
    uint256 internal staked;
    uint256 internal owed;
    uint256 internal outside;
    mapping(address node => uint256) internal held;
    mapping(address node => uint256) internal locked;
    mapping(address node => uint256) internal earned;
    mapping(uint256 poolId => uint256) internal funds;

    mapping(uint256 poolId => mapping(address node => bool)) internal isIn;
    mapping(uint256 poolId => mapping(address account => bool)) internal isBarred;
    /// Those that an acquittal unbars.
    mapping(uint256 poolId => mapping(address node => bool)) internal isBarredByVerdict;
    mapping(address account => bool) internal isBarredInDomain;
    mapping(uint256 poolId => mapping(address node => uint256)) internal epochs;
    mapping(uint256 poolId => mapping(address node => uint256)) internal used;

    bytes32[] internal docketIds;
    bytes32[] internal caseIds;
    mapping(bytes32 docketId => mapping(ICourt.Outcome => uint256)) internal voices;

    uint256 internal turn;

    error Broken(string rule);

    modifier step(uint256 seed, uint256 pool) {
        poolId = poolIds[pool % 2];
        ++turn;
        vm.roll(vm.getBlockNumber() + 1);
        vm.warp(vm.getBlockTimestamp() + seed % 20);
        _;
    }

    constructor() {
        super.setUp();
        IPools.Terms memory terms = _terms();
        (terms.quorum, terms.panel, terms.memberLimit) = (1, 1, 5);
        vm.startPrank(owner);
        poolIds = [poolId, pools.createPool(domainId, manager, terms)];
        pools.startPool(poolIds[1]);
        for (uint256 i; i < 2; ++i) pools.setManager(poolIds[i], standby, true);
        vm.stopPrank();
        for (uint256 i; i < NODES; ++i) {
            uint256 key = 0x7000 + i;
            (nodes[i], stakers[i]) = (_newNode(key, 3 * MIN_STAKE), _stakerOfKey(key));
            held[nodes[i]] = 3 * MIN_STAKE;
            vm.prank(stakers[i]);
            token.approve(address(registry), type(uint256).max);
            poolId = poolIds[0];
            if (i == 6) break; // the pool is full
            _enter(nodes[i], i < 2 ? IComputePools.Role.WORKER : IComputePools.Role.VALIDATOR);
        }
        // The fixture's own two nodes do not take part.
        (minted, staked) = ((3 * NODES + 2) * MIN_STAKE, (3 * NODES + 2) * MIN_STAKE);
        token.approve(address(treasury), type(uint256).max);
        _skip(1);
    }

    function _terms() internal pure override returns (IPools.Terms memory terms) {
        terms = super._terms();
        terms.memberLimit = 6;
    }

    function _enter(address node, IComputePools.Role role) internal returns (IComputePools.Invite memory invite) {
        invite = _invite(node, role);
        invite.expires = type(uint64).max;
        bytes memory signature = _signAs(pools.getPool(poolId).manager == manager ? MANAGER_KEY : STANDBY_KEY, invite);
        vm.prank(node);
        pools.join(invite, signature);
        isIn[poolId][node] = true;
        used[poolId][node] |= 2 ** (invite.nonce % 256);
    }

    function _putOut(address node) internal {
        isIn[poolId][node] = false;
        ++epochs[poolId][node];
        used[poolId][node] = 0;
    }

    function _barred(uint256 id, uint256 i) internal view returns (bool) {
        return isBarred[id][nodes[i]] || isBarred[id][stakers[i]] || isBarredInDomain[nodes[i]]
            || isBarredInDomain[stakers[i]];
    }

    /// What must hold after every call. Looks at one node in turn: what is wrong with another stays wrong.
    function check() external view {
        uint256 i = turn % NODES;
        address node = nodes[i];
        INodeRegistry.Node memory entry = registry.getNode(node);
        if (uint256(entry.stake) + entry.unbonding != held[node]) revert Broken("only a quorum reduces a stake");
        if (entry.locked != locked[node]) revert Broken("locked for open cases, and nothing else");
        for (uint256 j; j < 2; ++j) {
            uint256 id = poolIds[j];
            bool mayBeActive = isIn[id][node] && !_barred(id, i);
            if (pools.isActive(id, node) != mayBeActive) revert Broken("ejected and barred nodes are not active");
            IComputePools.Member memory member = pools.getMember(id, node);
            if (member.epoch != epochs[id][node]) revert Broken("ejection voids invites, and nothing else does");
            if (member.used != used[id][node]) revert Broken("used nonces stay used");
        }
        if (token.balanceOf(address(registry)) != staked) revert Broken("stake and unbonding are covered");
        if (token.balanceOf(address(treasury)) != owed) revert Broken("funds and credit are covered");
        if (token.totalSupply() + burnt != minted) revert Broken("what is not burnt exists");
        if (staked + owed + outside + burnt != minted) revert Broken("what exists is somewhere");
    }

    /// After whatever happened, everyone can have all of theirs.
    function settle() external {
        vm.warp(vm.getBlockTimestamp() + VERDICT_S + 2 * CHALLENGE_S + 1);
        for (uint256 i; i < caseIds.length; ++i) _execute(caseIds[i]);
        for (uint256 i; i < NODES; ++i) {
            vm.assertEq(registry.getNode(nodes[i]).locked, 0, "no case stays open");
            uint256 stake = registry.getNode(nodes[i]).stake;
            vm.startPrank(stakers[i]);
            if (stake != 0) registry.unbond(nodes[i], stake);
            vm.stopPrank();
        }
        vm.warp(vm.getBlockTimestamp() + UNBONDING_S);
        uint256 total;
        for (uint256 i; i < NODES; ++i) {
            vm.prank(stakers[i]);
            if (held[nodes[i]] != 0) vm.assertEq(registry.withdraw(nodes[i]), held[nodes[i]]);
            if (earned[nodes[i]] != 0) vm.assertEq(treasury.claim(nodes[i]), earned[nodes[i]]);
            total += token.balanceOf(stakers[i]);
        }
        vm.startPrank(owner);
        for (uint256 j; j < 2; ++j) {
            pools.endPool(poolIds[j]);
        }
        vm.warp(vm.getBlockTimestamp() + VERDICT_S + 2 * CHALLENGE_S + 1);
        for (uint256 j; j < 2; ++j) {
            if (funds[poolIds[j]] != 0) treasury.reclaim(poolIds[j]);
        }
        vm.stopPrank();
        vm.assertEq(token.balanceOf(address(registry)), 2 * MIN_STAKE, "nothing is stuck in the registry");
        vm.assertEq(token.balanceOf(address(treasury)), 0, "nothing is stuck in the treasury");
        total += token.balanceOf(owner) + token.balanceOf(address(this)) + 2 * MIN_STAKE;
        vm.assertEq(total + burnt, minted, "minted is burnt or held");
    }

    /// Burns what an open case of which the time is over may burn.
    function _execute(bytes32 caseId) internal {
        ICourt.Case memory case_ = court.getCase(caseId);
        if (case_.state != ICourt.CaseState.OPEN && case_.state != ICourt.CaseState.APPEALED) return;
        if (vm.getBlockTimestamp() <= case_.until) return;
        court.execute(caseId);
        _burnt(caseId);
    }

    function _burnt(bytes32 caseId) internal {
        ICourt.Docket memory docket = court.getDocket(caseId);
        vm.assertGe(voices[caseId][ICourt.Outcome.REJECTED], docket.quorum);
        uint256 amount = held[docket.node] < SLASH ? held[docket.node] : SLASH;
        held[docket.node] -= amount;
        staked -= amount;
        locked[docket.node] -= SLASH;
        burnt += amount;
    }
}
