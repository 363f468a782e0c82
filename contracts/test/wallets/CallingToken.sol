// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.30;

import {StakeToken} from "../../src/StakeToken.sol";

/// @dev A token that calls somebody in the middle of its next transfer, and fails as that call fails.
contract CallingToken is StakeToken {
    address private _target;
    bytes private _data;

    constructor(address owner_) StakeToken(owner_) {}

    function callNext(address target, bytes calldata data) external {
        (_target, _data) = (target, data);
    }

    function _update(address from, address to, uint256 amount) internal override {
        super._update(from, to, amount);
        if (_target == address(0)) return;
        (bool done, bytes memory why) = _target.call(_data);
        if (done) return;
        assembly ("memory-safe") {
            revert(add(why, 32), mload(why))
        }
    }
}
