// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.30;

import {Handler} from "./invariants/Handler.sol";

/// @dev Random histories, of which World says what must be true after every call and at the end.
contract InvariantsTest {
    struct FuzzSelector {
        address addr;
        bytes4[] selectors;
    }

    Handler private _handler;

    function setUp() public {
        _handler = new Handler();
    }

    function targetContracts() external view returns (address[] memory contracts) {
        contracts = new address[](1);
        contracts[0] = address(_handler);
    }

    function targetSelectors() external view returns (FuzzSelector[] memory selectors) {
        selectors = new FuzzSelector[](1);
        selectors[0] = FuzzSelector(address(_handler), _handler.actions());
    }

    function invariant_nothingIsLostAndNobodyIsWronged() external view {
        _handler.check();
    }

    function afterInvariant() external {
        _handler.settle();
    }
}
