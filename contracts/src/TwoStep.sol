// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.30;

/// @title An owner that changes in two steps: offered by the old one, accepted by the new one.
library TwoStep {
    struct Owner {
        address current;
        address pending;
    }

    error NotOwner(address caller);
    error NotPendingOwner(address caller);

    function check(Owner storage self) internal view {
        if (msg.sender != self.current) revert NotOwner(msg.sender);
    }

    function offer(Owner storage self, address to) internal {
        check(self);
        self.pending = to;
    }

    function accept(Owner storage self) internal {
        if (msg.sender != self.pending) revert NotPendingOwner(msg.sender);
        self.current = msg.sender;
        self.pending = address(0);
    }
}
