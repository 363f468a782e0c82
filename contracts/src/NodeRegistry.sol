// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.30;

import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";
import {SafeERC20} from "@openzeppelin/contracts/token/ERC20/utils/SafeERC20.sol";
import {INodeRegistry} from "./interfaces/INodeRegistry.sol";
import {StakeToken} from "./StakeToken.sol";
import {Wired} from "./Wired.sol";

/// @title Registration and stake. Slashed stake is burnt, never paid to anyone.
contract NodeRegistry is INodeRegistry, Wired {
    using SafeCast for uint256;
    using SafeERC20 for StakeToken;

    StakeToken public immutable token;
    mapping(address node => Node) private _nodes;

    constructor(StakeToken token_) {
        token = token_;
    }

    function register(uint256 amount) external {
        Node storage node = _nodes[msg.sender];
        if (node.registered) revert AlreadyRegistered(msg.sender);
        node.registered = true;
        emit NodeRegistered(msg.sender);
        _add(node, amount);
    }

    function addStake(uint256 amount) external {
        _add(_registered(msg.sender), amount);
    }

    function unstake(uint256 amount) external {
        Node storage node = _registered(msg.sender);
        if (amount == 0) revert ZeroAmount();
        if (node.holds != 0) revert StakeHeld(msg.sender, node.holds);
        if (node.stake < amount) revert StakeTooLow(msg.sender, node.stake, amount);
        node.stake -= amount.toUint128();
        emit StakeWithdrawn(msg.sender, amount, node.stake);
        token.safeTransfer(msg.sender, amount);
    }

    function hold(address node) external onlyWired {
        ++_registered(node).holds;
    }

    function release(address node) external onlyWired {
        --_registered(node).holds;
    }

    function slash(address account, uint256 amount) external onlyWired returns (uint256 burnt) {
        Node storage node = _nodes[account];
        burnt = amount < node.stake ? amount : node.stake;
        node.stake -= burnt.toUint128();
        emit StakeSlashed(account, burnt, node.stake);
        token.burn(burnt);
    }

    function getNode(address node) external view returns (Node memory) {
        return _nodes[node];
    }

    function requireStake(address account, uint256 needed) external view {
        uint256 stake = _registered(account).stake;
        if (stake < needed) revert StakeTooLow(account, stake, needed);
    }

    function _registered(address account) private view returns (Node storage node) {
        node = _nodes[account];
        if (!node.registered) revert NotRegistered(account);
    }

    function _add(Node storage node, uint256 amount) private {
        if (amount == 0) revert ZeroAmount();
        node.stake += amount.toUint128();
        emit StakeAdded(msg.sender, amount, node.stake);
        token.safeTransferFrom(msg.sender, address(this), amount);
    }
}
