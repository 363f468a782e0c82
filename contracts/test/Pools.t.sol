// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.30;

import {IComputePools} from "../src/interfaces/IComputePools.sol";
import {IDomains} from "../src/interfaces/IDomains.sol";
import {IPools} from "../src/interfaces/IPools.sol";
import {TwoStep} from "../src/TwoStep.sol";
import {Fixture} from "./Fixture.sol";
import {vm} from "./Vm.sol";

contract PoolsTest is Fixture {
    function _create(IPools.Terms memory terms) private returns (uint256) {
        vm.prank(owner);
        return pools.createPool(domainId, manager, terms);
    }

    function test_domainsAndPoolsAreNumberedFromOne() public {
        vm.assertEq(domainId, 1);
        vm.assertEq(poolId, 1);
        vm.expectEmit(address(pools));
        emit IDomains.DomainCreated(2, stranger, "games");
        vm.prank(stranger);
        vm.assertEq(pools.createDomain("games"), 2);
        vm.assertEq(pools.domainCount(), 2);
        vm.assertEq(pools.getDomain(2).name, "games");
        vm.assertEq(pools.getDomain(2).owner.current, stranger);
    }

    function test_aPoolKeepsTheTermsItWasMadeWith() public {
        vm.expectEmit(address(pools));
        emit IPools.PoolCreated(2, domainId, owner, _terms());
        vm.assertEq(_create(_terms()), 2);
        IPools.Pool memory pool = pools.getPool(2);
        vm.assertTrue(pool.state == IPools.State.PENDING && !pool.joinsPaused);
        vm.assertEq(pool.owner.current, owner);
        vm.assertEq(pool.manager, manager);
        vm.assertEq(pool.epoch, 1);
        vm.assertEq(keccak256(abi.encode(pools.getTerms(2))), keccak256(abi.encode(_terms())));
        vm.assertEq(pools.runId(2), keccak256(abi.encode(block.chainid, address(pools), SALT, 2)));
    }

    function test_ownershipMovesInTwoSteps() public {
        vm.startPrank(owner);
        pools.offerPool(poolId, other);
        pools.offerDomain(domainId, other);
        vm.stopPrank();
        vm.assertEq(pools.getPool(poolId).owner.current, owner);
        _refused(TwoStep.NotPendingOwner.selector, abi.encode(worker));
        vm.prank(worker);
        pools.acceptPool(poolId);
        _refused(TwoStep.NotPendingOwner.selector, abi.encode(worker));
        vm.prank(worker);
        pools.acceptDomain(domainId);
        vm.startPrank(other);
        vm.expectEmit(address(pools));
        emit IPools.PoolOwnerChanged(poolId, other);
        pools.acceptPool(poolId);
        vm.expectEmit(address(pools));
        emit IDomains.DomainOwnerChanged(domainId, other);
        pools.acceptDomain(domainId);
        pools.createPool(domainId, other, _terms());
        vm.stopPrank();
        vm.assertEq(pools.getPool(poolId).owner.current, other);
        vm.assertEq(pools.getDomain(domainId).owner.pending, address(0));
    }

    function test_anOfferIsTakenBackByOfferingToNobody() public {
        vm.startPrank(owner);
        pools.offerPool(poolId, other);
        pools.offerPool(poolId, address(0));
        vm.stopPrank();
        _refused(TwoStep.NotPendingOwner.selector, abi.encode(other));
        vm.prank(other);
        pools.acceptPool(poolId);
    }

    function test_everythingOfTheOwnersIsRefusedToOthers() public {
        bytes[11] memory calls = [
            abi.encodeCall(pools.offerPool, (poolId, manager)),
            abi.encodeCall(pools.startPool, (poolId)),
            abi.encodeCall(pools.endPool, (poolId)),
            abi.encodeCall(pools.setManager, (poolId, manager, true)),
            abi.encodeCall(pools.offerDomain, (domainId, manager)),
            abi.encodeCall(pools.blacklistInDomain, (domainId, worker, "")),
            abi.encodeCall(pools.unblacklistInDomain, (domainId, worker)),
            abi.encodeCall(pools.createPool, (domainId, manager, _terms())),
            abi.encodeCall(pools.pauseJoins, (poolId, true)),
            abi.encodeCall(pools.offerPool, (poolId, stranger)),
            abi.encodeCall(pools.offerDomain, (domainId, stranger))
        ];
        for (uint256 i; i < calls.length; ++i) {
            address caller = i < 8 ? manager : stranger;
            vm.prank(caller);
            (bool done, bytes memory why) = address(pools).call(calls[i]);
            vm.assertFalse(done);
            vm.assertEq(keccak256(why), keccak256(abi.encodeWithSelector(TwoStep.NotOwner.selector, caller)));
        }
        _refused(TwoStep.NotOwner.selector, abi.encode(stranger));
        vm.prank(stranger);
        pools.startPool(poolId);
    }

    function test_everythingOfTheManagersIsRefusedToOthers() public {
        bytes[7] memory calls = [
            abi.encodeCall(pools.cancelInvite, (poolId, worker, 0)),
            abi.encodeCall(pools.eject, (poolId, worker, "")),
            abi.encodeCall(pools.blacklist, (poolId, worker, "")),
            abi.encodeCall(pools.unblacklist, (poolId, worker)),
            abi.encodeCall(pools.takeLease, (poolId)),
            abi.encodeCall(pools.requireManager, (poolId, owner)),
            abi.encodeCall(runs.announceCheckpoint, (poolId, 0, FILE))
        ];
        for (uint256 i; i < calls.length; ++i) {
            vm.prank(owner);
            (bool done, bytes memory why) = (i == 6 ? address(runs) : address(pools)).call(calls[i]);
            vm.assertFalse(done);
            vm.assertEq(keccak256(why), keccak256(abi.encodeWithSelector(IPools.NotManager.selector, owner)));
        }
        _refused(IPools.NotManager.selector, abi.encode(stranger));
        vm.prank(stranger);
        pools.eject(poolId, worker, "");
    }

    function test_unknownDomainsAndPools() public {
        _refused(IDomains.UnknownDomain.selector, abi.encode(9));
        pools.createPool(9, worker, _terms());
        _refused(IDomains.UnknownDomain.selector, abi.encode(0));
        pools.getDomain(0);
        _refused(IDomains.UnknownDomain.selector, abi.encode(9));
        pools.acceptDomain(9);
        _refused(IPools.UnknownPool.selector, abi.encode(9));
        pools.getPool(9);
        _refused(IPools.UnknownPool.selector, abi.encode(0));
        pools.getTerms(0);
        _refused(IPools.UnknownPool.selector, abi.encode(9));
        pools.acceptPool(9);
        _refused(IPools.UnknownPool.selector, abi.encode(9));
        pools.leave(9);
        _refused(IPools.UnknownPool.selector, abi.encode(9));
        pools.purge(9, worker);
        _refused(IPools.UnknownPool.selector, abi.encode(9));
        runs.announceCheckpoint(9, 0, FILE);
        _refused(IPools.UnknownPool.selector, abi.encode(9));
        treasury.fund(9, 1);
        _refused(IPools.UnknownPool.selector, abi.encode(9));
        court.accuse(9, worker, "", 0);
    }

    function test_termsThatNobodyCouldKeep() public {
        IPools.Terms memory terms = _terms();
        terms.slash = MIN_STAKE + 1;
        _refused(IPools.SlashAboveMinStake.selector, abi.encode(MIN_STAKE + 1, MIN_STAKE));
        _create(terms);
        terms = _terms();
        terms.quorum = 0;
        _refused(IPools.BadQuorum.selector, abi.encode(0, 3));
        _create(terms);
        (terms.quorum, terms.panel) = (4, 3);
        _refused(IPools.BadQuorum.selector, abi.encode(4, 3));
        _create(terms);
        vm.prank(owner);
        _refused(IPools.ZeroAddress.selector, "");
        pools.createPool(domainId, address(0), _terms());
        for (uint256 i; i < 4; ++i) {
            terms = _terms();
            if (i == 0) terms.roundS = 0;
            if (i == 1) terms.verdictS = 0;
            if (i == 2) terms.challengeS = 0;
            if (i == 3) terms.leaseS = 0;
            _refused(IPools.BadWindows.selector, "");
            _create(terms);
        }
    }

    function test_aPanelLeavesRoomForAnAppeal() public {
        IPools.Terms memory terms = _terms();
        (terms.quorum, terms.panel) = (255, 255); // an appeal takes one more
        _refused(IPools.BadQuorum.selector, abi.encode(255, 255));
        _create(terms);
        terms.quorum = 254;
        _create(terms);
    }

    function test_attack_requirementsThatMakeEveryVerdictDear() public {
        IPools.Terms memory terms = _terms();
        terms.requirementsUri = string(new bytes(256));
        _create(terms);
        terms.requirementsUri = string(new bytes(257));
        _refused(IPools.RequirementsTooLong.selector, abi.encode(257, 256));
        _create(terms);
    }

    function test_verdictsEndBeforeStakeCanBeOut() public {
        IPools.Terms memory terms = _terms();
        for (uint256 i; i < 2; ++i) {
            terms.verdictS = i == 0 ? 7 days : 7 days + 1;
            _refused(IPools.WindowAboveUnbonding.selector, abi.encode(UNBONDING_S + i, UNBONDING_S));
            _create(terms);
        }
        terms.verdictS = 7 days - 1;
        _create(terms);
    }

    function test_attack_aCaseThatHoldsStakeForALifetime() public {
        IPools.Terms memory terms = _terms();
        uint32[2] memory tooLong = [uint32(7 days + 1), type(uint32).max];
        for (uint256 i; i < 2; ++i) {
            terms.challengeS = tooLong[i];
            _refused(IPools.WindowAboveUnbonding.selector, abi.encode(tooLong[i], UNBONDING_S));
            _create(terms);
        }
        terms.challengeS = 7 days;
        _create(terms);
    }

    function test_aPoolIsPendingThenActiveThenEndedForGood() public {
        uint256 second = _create(_terms());
        vm.startPrank(owner);
        vm.expectEmit(address(pools));
        emit IPools.PoolStateChanged(second, IPools.State.ACTIVE);
        pools.startPool(second);
        _refused(IPools.WrongState.selector, abi.encode(IPools.State.ACTIVE));
        pools.startPool(second);
        vm.expectEmit(address(pools));
        emit IPools.PoolStateChanged(second, IPools.State.ENDED);
        pools.endPool(second);
        vm.assertEq(pools.getPool(second).endedAt, _now());
        _refused(IPools.WrongState.selector, abi.encode(IPools.State.ENDED));
        pools.startPool(second);
        _refused(IPools.WrongState.selector, abi.encode(IPools.State.ENDED));
        pools.endPool(second);
        vm.stopPrank();
    }

    function test_aPendingPoolMayEndButTakesNobodyIn() public {
        poolId = _create(_terms());
        IComputePools.Invite memory invite = _invite(worker, IComputePools.Role.WORKER);
        bytes memory signature = _sign(invite);
        _refused(IPools.WrongState.selector, abi.encode(IPools.State.PENDING));
        vm.prank(worker);
        pools.join(invite, signature);
        vm.prank(owner);
        pools.endPool(poolId);
        _refused(IPools.WrongState.selector, abi.encode(IPools.State.ENDED));
        vm.prank(worker);
        pools.join(invite, signature);
    }

    function test_ownerOrManagerPauseJoinsAndNothingElse() public {
        _joinAll();
        vm.expectEmit(address(pools));
        emit IPools.JoinsPaused(poolId, true);
        vm.prank(manager);
        pools.pauseJoins(poolId, true);
        IComputePools.Invite memory invite = _invite(other, IComputePools.Role.WORKER);
        bytes memory signature = _sign(invite);
        _refused(IComputePools.JoinsArePaused.selector, abi.encode(poolId));
        vm.prank(other);
        pools.join(invite, signature);
        _convicted();
        vm.prank(worker);
        pools.leave(poolId);
        vm.prank(owner);
        pools.pauseJoins(poolId, false);
        vm.prank(other);
        pools.join(invite, signature);
    }
}
