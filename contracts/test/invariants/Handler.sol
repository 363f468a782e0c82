// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.30;

import {CourtActions} from "./CourtActions.sol";
import {IllegalActions} from "./IllegalActions.sol";
import {StakeActions} from "./StakeActions.sol";

/// @dev All that may happen, and what may not. Court actions come first: they take the most calls to get anywhere.
contract Handler is StakeActions, CourtActions, IllegalActions {
    function actions() external pure returns (bytes4[] memory selectors) {
        selectors = new bytes4[](34);
        bytes4[34] memory all = [
            this.work.selector,
            this.work.selector,
            this.rally.selector,
            this.rally.selector,
            this.work.selector,
            this.rally.selector,
            this.vote.selector,
            this.vote.selector,
            this.accuse.selector,
            this.appeal.selector,
            this.execute.selector,
            this.wait.selector,
            this.stake.selector,
            this.unbond.selector,
            this.withdraw.selector,
            this.withdrawAll.selector,
            this.fund.selector,
            this.claim.selector,
            this.endPool.selector,
            this.join.selector,
            this.leave.selector,
            this.eject.selector,
            this.bar.selector,
            this.unbar.selector,
            this.purge.selector,
            this.cancelInvite.selector,
            this.pauseJoins.selector,
            this.handOver.selector,
            this.illegal.selector,
            this.illegal.selector,
            this.illegal.selector,
            this.join.selector,
            this.unbar.selector,
            this.stake.selector
        ];
        for (uint256 i; i < all.length; ++i) selectors[i] = all[i];
    }

    function illegal(uint256 seed, uint256 a, uint256 b) external {
        uint256 which = (seed / 2) % 8;
        if (which == 0) this.takeFromOthers(seed, a, b);
        else if (which == 1) this.withdrawEarly(seed, a);
        else if (which == 2) this.playCourt(seed, a, b);
        else if (which == 3) this.burnEarly(seed, a);
        else if (which == 4) this.judgeUninvited(seed, a);
        else if (which == 5) this.reuseInvite(seed);
        else if (which == 6) this.returnBarred(seed, a, b);
        else this.seizePool(seed, a, b);
    }
}
