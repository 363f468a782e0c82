// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.30;

/// @title Names, once and for ever, the contracts that may call the privileged functions.
/// @notice Contracts that refer to each other cannot all know the others at construction: the deployer wires them once.
abstract contract Wired {
    address public immutable deployer = msg.sender;
    mapping(address caller => bool) public isWired;
    bool private _done;

    event CallersWired(address[] callers);

    error NotDeployer(address caller);
    error AlreadyWired();
    error NotWired(address caller);

    modifier onlyWired() {
        if (!isWired[msg.sender]) revert NotWired(msg.sender);
        _;
    }

    function wire(address[] calldata callers) external {
        if (msg.sender != deployer) revert NotDeployer(msg.sender);
        if (_done) revert AlreadyWired();
        _done = true;
        for (uint256 i; i < callers.length; ++i) {
            isWired[callers[i]] = true;
        }
        emit CallersWired(callers);
    }
}
