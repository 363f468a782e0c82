// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.30;

import {IComputePools} from "../src/interfaces/IComputePools.sol";
import {ICourt} from "../src/interfaces/ICourt.sol";
import {IPools} from "../src/interfaces/IPools.sol";
import {IRunLedger} from "../src/interfaces/IRunLedger.sol";
import {Fixture} from "./Fixture.sol";
import {print, vm} from "./Vm.sol";

/// @dev What each call costs in pools of growing size. Every contract's storage is cold before every measured call, as
/// in a transaction of its own; the 21,000 gas and the calldata of one come on top.
contract GasTest is Fixture {
    uint256 private constant TOLERANCE_PERCENT = 3;
    uint256 private constant CALLS = 9;
    uint256 private constant FIRST_KEY = 0x100000;

    string[CALLS] private _names = [
        "join",
        "leave",
        "eject",
        "submit (one file)",
        "commit",
        "reveal",
        "reveal (decides: dishonest)",
        "appeal",
        "execute"
    ];
    mapping(uint256 size => uint256[CALLS]) private _gas;
    uint256 private _keys = FIRST_KEY;
    uint256 private _members;
    address[] private _panel;

    function _terms() internal pure override returns (IPools.Terms memory terms) {
        terms = super._terms();
        terms.memberLimit = 100_000;
    }

    /// Up to 10,000 members in the long profile.
    function test_gasIsFlatHoweverManyMembersThereAre() public {
        bool long = keccak256(bytes(vm.envOr("FOUNDRY_PROFILE", "default"))) == keccak256("long");
        uint256[] memory sizes = new uint256[](long ? 4 : 3);
        (sizes[0], sizes[1], sizes[2]) = (10, 100, 1000);
        if (long) sizes[3] = 10_000;
        for (uint256 i; i < sizes.length; ++i) {
            _grow(sizes[i]);
            _measure(sizes[i]);
        }
        for (uint256 call; call < CALLS; ++call) {
            string memory row = string.concat("| ", _names[call], " |");
            uint256 least = _gas[sizes[0]][call];
            for (uint256 i; i < sizes.length; ++i) {
                uint256 gas = _gas[sizes[i]][call];
                row = string.concat(row, " ", vm.toString(gas), " |");
                vm.assertGe(gas * 100, least * (100 - TOLERANCE_PERCENT));
                vm.assertLe(gas * 100, least * (100 + TOLERANCE_PERCENT));
            }
            print(row);
        }
    }

    /// One validator in ten, but at least six: fewer would all be drawn, which is cheaper.
    function _grow(uint256 size) private {
        while (_members < size) {
            bool judge = judges.length < 6 || judges.length * 10 < _members;
            address node = _newNode(++_keys, MIN_STAKE);
            _join(node, judge ? IComputePools.Role.VALIDATOR : IComputePools.Role.WORKER);
            if (judge) judges.push(node);
            ++_members;
        }
        _skip(1);
    }

    function _newMember() private returns (address node) {
        node = _newNode(++_keys, MIN_STAKE);
        _join(node, IComputePools.Role.WORKER);
    }

    function _measure(uint256 size) private {
        uint256[CALLS] storage gas = _gas[size];
        address node = _newNode(++_keys, MIN_STAKE);
        IComputePools.Invite memory invite = _invite(node, IComputePools.Role.WORKER);
        gas[0] = _cost(node, address(pools), abi.encodeCall(pools.join, (invite, _sign(invite))));
        address leaver = _newMember();
        address rude = _newMember();
        _newMember(); // so that those who go are not the last of the list
        gas[1] = _cost(leaver, address(pools), abi.encodeCall(pools.leave, (poolId)));
        gas[2] = _cost(manager, address(pools), abi.encodeCall(pools.eject, (poolId, rude, "rude")));
        bytes32[] memory hashes = new bytes32[](1);
        hashes[0] = FILE;
        gas[3] = _cost(node, address(runs), abi.encodeCall(runs.submit, (poolId, 0, 0, hashes)));
        bytes32 id = court.open(IRunLedger.File(poolId, node, 0, 0, 0, FILE, new bytes32[](0)));
        _skip(1);
        _draw(id);
        ICourt.Verdict memory verdict = _verdict(ICourt.Outcome.REJECTED);
        _commit(id, _panel[0], verdict);
        bytes32 commitment = court.commitmentOf(id, _panel[1], verdict, VOTE_SALT);
        gas[4] = _cost(_panel[1], address(court), abi.encodeCall(court.commit, (id, commitment)));
        bytes memory reveal = abi.encodeCall(court.reveal, (id, verdict, VOTE_SALT));
        gas[5] = _cost(_panel[0], address(court), reveal);
        gas[6] = _cost(_panel[1], address(court), reveal);
        gas[7] = _cost(node, address(court), abi.encodeCall(court.appeal, (id)));
        _skip(CHALLENGE_S + 1);
        gas[8] = _cost(stranger, address(court), abi.encodeCall(court.execute, (id)));
    }

    /// Two that are drawn while the panel is still smaller than the pool.
    function _draw(bytes32 id) private {
        uint256 width = 3;
        while (2 * width < court.getDocket(id).validators) {
            width *= 2;
            vm.warp(vm.getBlockTimestamp() + ROUND_S);
        }
        delete _panel;
        for (uint256 i; i < judges.length && _panel.length < 2; ++i) {
            try court.requireDrawn(id, judges[i]) {
                _panel.push(judges[i]);
            } catch {}
        }
    }

    function _cost(address caller, address target, bytes memory data) private returns (uint256) {
        address[6] memory all = [
            address(token), address(registry), address(pools), address(runs), address(treasury), address(court)
        ];
        for (uint256 i; i < all.length; ++i) vm.cool(all[i]);
        vm.prank(caller);
        (bool done,) = target.call(data);
        assert(done);
        return vm.lastCallGas().gasTotalUsed;
    }
}
