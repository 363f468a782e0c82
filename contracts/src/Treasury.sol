// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.30;

import {Math} from "@openzeppelin/contracts/utils/math/Math.sol";
import {ReentrancyGuardTransient} from "@openzeppelin/contracts/utils/ReentrancyGuardTransient.sol";
import {SafeERC20} from "@openzeppelin/contracts/token/ERC20/utils/SafeERC20.sol";
import {IComputePools} from "./interfaces/IComputePools.sol";
import {INodeRegistry} from "./interfaces/INodeRegistry.sol";
import {IPools} from "./interfaces/IPools.sol";
import {ITreasury} from "./interfaces/ITreasury.sol";
import {StakeToken} from "./StakeToken.sol";
import {Wired} from "./Wired.sol";

/// @title Pool funds and credit. What a node has earned is set aside at once: no owner can take it back.
contract Treasury is ITreasury, Wired, ReentrancyGuardTransient {
    using SafeERC20 for StakeToken;

    StakeToken public immutable token;
    INodeRegistry public immutable registry;
    IComputePools public immutable pools;
    mapping(uint256 poolId => uint256) public fundsOf;
    mapping(address node => uint256) public creditOf;
    mapping(uint256 poolId => mapping(address node => uint256)) public unitsOf;

    constructor(StakeToken token_, INodeRegistry registry_, IComputePools pools_) {
        token = token_;
        registry = registry_;
        pools = pools_;
    }

    function fund(uint256 poolId, uint256 amount) external nonReentrant {
        pools.getPool(poolId);
        if (amount == 0) revert ZeroAmount();
        fundsOf[poolId] += amount;
        emit PoolFunded(poolId, msg.sender, amount, fundsOf[poolId]);
        token.safeTransferFrom(msg.sender, address(this), amount);
    }

    function reclaim(uint256 poolId) external nonReentrant returns (uint256 amount) {
        IPools.Pool memory pool = pools.getPool(poolId);
        if (msg.sender != pool.owner.current) revert NotPoolOwner(msg.sender);
        if (pool.state != IPools.State.ENDED) revert IPools.WrongState(pool.state);
        IPools.Terms memory terms = pools.getTerms(poolId);
        uint256 until = uint256(pool.endedAt) + terms.verdictS + 2 * uint256(terms.challengeS);
        if (block.timestamp <= until) revert StillOwing(until);
        amount = fundsOf[poolId];
        if (amount == 0) revert ZeroAmount();
        fundsOf[poolId] = 0;
        emit FundsReclaimed(poolId, msg.sender, amount);
        token.safeTransfer(msg.sender, amount);
    }

    function claim(address node) external nonReentrant returns (uint256 amount) {
        amount = creditOf[node];
        if (amount == 0) revert ZeroAmount();
        creditOf[node] = 0;
        address staker = registry.stakerOf(node);
        emit CreditClaimed(node, staker, amount);
        token.safeTransfer(staker, amount);
    }

    function credit(uint256 poolId, address node, uint256 units) external onlyWired {
        uint256 owed = units * pools.getTerms(poolId).unitPrice;
        uint256 amount = Math.min(owed, fundsOf[poolId]);
        unitsOf[poolId][node] += units;
        fundsOf[poolId] -= amount;
        creditOf[node] += amount;
        emit WorkCredited(poolId, node, units, amount);
    }
}
