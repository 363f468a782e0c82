// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.30;

import {IComputePools} from "../../src/interfaces/IComputePools.sol";
import {ICourt} from "../../src/interfaces/ICourt.sol";
import {vm} from "../Vm.sol";
import {World} from "./World.sol";

/// @dev Work, verdicts and what follows from them.
abstract contract CourtActions is World {
    uint256 private _accusations;
    mapping(bytes32 docketId => mapping(address judge => ICourt.Outcome)) private _promised;
    mapping(uint256 poolId => mapping(address node => uint256)) private _convictions;

    function work(uint256 seed, uint256 pool, uint256 n) external step(seed, pool) {
        for (uint256 i; i < NODES; ++i) {
            address node = nodes[addmod(n, i, NODES)];
            try pools.requireMember(poolId, node, IComputePools.Role.WORKER) {
                docketIds.push(court.open(_submitAs(node)));
                if (seed % 2 == 0) docketIds.push(court.open(_submitAs(node)));
                return;
            } catch {}
        }
    }

    function accuse(uint256 seed, uint256 pool, uint256 n) external step(seed, pool) {
        address node = nodes[n % NODES];
        if (!pools.getMember(poolId, node).active) return;
        bytes32 last = court.accusationOf(poolId, node);
        if (last != 0 && block.timestamp <= court.getDocket(last).openedAt + pools.getTerms(poolId).verdictS) {
            if (court.getDocket(last).outcome == ICourt.Outcome.PENDING) return;
        }
        vm.prank(pools.getPool(poolId).manager);
        docketIds.push(court.accuse(poolId, node, "spam", bytes32(++_accusations)));
    }

    /// One validator commits, or reveals, about one of the newest dockets.
    function vote(uint256 seed, uint256 docket, uint256 n, uint8 outcome) external step(seed, 0) {
        if (docketIds.length == 0) return;
        bytes32 id = _newest(docket);
        _vote(id, nodes[n % NODES], ICourt.Outcome(1 + outcome % 3));
    }

    /// All that are drawn say the same.
    function rally(uint256 seed, uint256 docket, uint8 outcome) external step(seed, 0) {
        if (docketIds.length == 0) return;
        bytes32 id = _newest(docket);
        for (uint256 i; i < 2 * NODES && court.getDocket(id).outcome == ICourt.Outcome.PENDING; ++i) {
            _vote(id, nodes[i % NODES], ICourt.Outcome(1 + outcome % 3));
        }
    }

    function appeal(uint256 seed, uint256 case_, uint256 n) external step(seed, 0) {
        if (caseIds.length == 0) return;
        bytes32 id = caseIds[caseIds.length - 1 - case_ % (caseIds.length < 4 ? caseIds.length : 4)];
        ICourt.Case memory found = court.getCase(id);
        if (found.state != ICourt.CaseState.OPEN || vm.getBlockTimestamp() > found.until) return;
        address node = court.getDocket(id).node;
        vm.prank(n % 2 == 0 ? node : registry.stakerOf(node));
        docketIds.push(court.appeal(id));
    }

    function execute(uint256 seed, uint256 case_, bool late) external step(seed, 0) {
        if (caseIds.length == 0) return;
        if (late) vm.warp(vm.getBlockTimestamp() + CHALLENGE_S + 1);
        _execute(caseIds[case_ % caseIds.length]);
    }

    function wait(uint256 seed, uint32 time) external step(seed, 0) {
        vm.warp(vm.getBlockTimestamp() + time % (seed % 16 == 0 ? 2 days : 10 minutes));
    }

    function _newest(uint256 docket) private view returns (bytes32) {
        uint256 count = docketIds.length;
        return docketIds[count - 1 - docket % (count < 4 ? count : 4)];
    }

    function _vote(bytes32 id, address judge, ICourt.Outcome outcome) private {
        ICourt.Docket memory docket = court.getDocket(id);
        bytes32 commitment = court.commitmentBy(id, judge);
        if (commitment == bytes32(uint256(1))) return;
        if (commitment != 0) {
            if (docket.commits < docket.quorum) return;
            outcome = _promised[id][judge];
        } else {
            try court.requireDrawn(id, judge) {}
            catch {
                return;
            }
            if (docket.quorum > 1) {
                _promised[id][judge] = outcome;
                return _commit(id, judge, _verdict(outcome));
            }
        }
        _reveal(id, judge, _verdict(outcome));
        uint256 windowS = docket.kind == ICourt.Kind.APPEAL ? CHALLENGE_S : VERDICT_S;
        bool counts = docket.outcome == ICourt.Outcome.PENDING && vm.getBlockTimestamp() <= docket.openedAt + windowS;
        if (!counts) return;
        if (++voices[id][outcome] == docket.quorum) _decided(id, docket, outcome);
    }

    function _decided(bytes32 id, ICourt.Docket memory docket, ICourt.Outcome outcome) private {
        vm.assertTrue(court.getDocket(id).outcome == outcome);
        poolId = docket.poolId;
        if (docket.kind == ICourt.Kind.APPEAL) {
            if (outcome == ICourt.Outcome.REJECTED) return _burnt(docket.about);
            _acquitted(docket.node);
            docket.kind = court.getDocket(docket.about).kind;
        } else if (outcome == ICourt.Outcome.REJECTED) {
            return _convict(id, docket.node);
        }
        if (docket.kind != ICourt.Kind.SUBMISSION || outcome != ICourt.Outcome.ACCEPTED) return;
        uint256 amount = UNITS * UNIT_PRICE < funds[poolId] ? UNITS * UNIT_PRICE : funds[poolId];
        funds[poolId] -= amount;
        earned[docket.node] += amount;
    }

    function _convict(bytes32 id, address node) private {
        caseIds.push(id);
        locked[node] += SLASH;
        ++_convictions[poolId][node];
        if (!isBarred[poolId][node]) (isBarred[poolId][node], isBarredByVerdict[poolId][node]) = (true, true);
        _putOut(node);
    }

    function _acquitted(address node) private {
        locked[node] -= SLASH;
        if (--_convictions[poolId][node] != 0 || !isBarredByVerdict[poolId][node]) return;
        (isBarred[poolId][node], isBarredByVerdict[poolId][node]) = (false, false);
    }
}
