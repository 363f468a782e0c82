// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.30;

import {EIP712} from "@openzeppelin/contracts/utils/cryptography/EIP712.sol";
import {Math} from "@openzeppelin/contracts/utils/math/Math.sol";
import {Nonces} from "@openzeppelin/contracts/utils/Nonces.sol";
import {ReentrancyGuardTransient} from "@openzeppelin/contracts/utils/ReentrancyGuardTransient.sol";
import {SafeCast} from "@openzeppelin/contracts/utils/math/SafeCast.sol";
import {SafeERC20} from "@openzeppelin/contracts/token/ERC20/utils/SafeERC20.sol";
import {SignatureChecker} from "@openzeppelin/contracts/utils/cryptography/SignatureChecker.sol";
import {INodeRegistry} from "./interfaces/INodeRegistry.sol";
import {StakeToken} from "./StakeToken.sol";
import {Wired} from "./Wired.sol";

/// @title Registration and stake. Burnt stake is gone, never paid to anyone.
contract NodeRegistry is INodeRegistry, Wired, EIP712, Nonces, ReentrancyGuardTransient {
    using SafeCast for uint256;
    using SafeERC20 for StakeToken;

    bytes32 public constant BINDING_TYPEHASH =
        keccak256("Binding(address staker,address node,uint256 nonce,uint256 expires,bytes32 salt)");

    StakeToken public immutable token;
    /// Tells two deployments apart even where chain id and addresses repeat.
    bytes32 public immutable salt;
    /// Seconds that stake on its way out stays within reach of a case.
    uint64 public immutable unbondingS;
    mapping(address node => Node) private _nodes;

    constructor(StakeToken token_, bytes32 salt_, uint64 unbondingS_) EIP712("intellect-node", "1") {
        token = token_;
        salt = salt_;
        unbondingS = unbondingS_;
    }

    function register(Binding calldata binding, bytes calldata signature, uint256 amount) external nonReentrant {
        Node storage node = _nodes[binding.node];
        if (msg.sender != binding.staker) revert NotStaker(msg.sender, binding.staker);
        if (node.staker != address(0)) revert AlreadyRegistered(binding.node);
        if (binding.salt != salt) revert BindingWrongDeployment(binding.salt, salt);
        if (block.timestamp > binding.expires) revert BindingExpired(binding.expires, block.timestamp);
        _useCheckedNonce(binding.node, binding.nonce);
        bytes32 digest = _hashTypedDataV4(keccak256(abi.encode(BINDING_TYPEHASH, binding)));
        if (!SignatureChecker.isValidSignatureNow(binding.node, digest, signature)) {
            revert BindingNotByNode(binding.node);
        }
        node.staker = msg.sender;
        emit NodeRegistered(binding.node, msg.sender);
        _add(binding.node, amount);
    }

    function addStake(address node, uint256 amount) external nonReentrant {
        _registered(node);
        _add(node, amount);
    }

    function unbond(address account, uint256 amount) external {
        Node storage node = _asStaker(account);
        if (amount == 0) revert ZeroAmount();
        if (node.stake < amount) revert StakeTooLow(account, node.stake, amount);
        node.stake -= amount.toUint128();
        node.unbonding += amount.toUint128();
        node.matures = uint64(block.timestamp) + unbondingS;
        emit UnbondingStarted(account, amount, node.matures);
    }

    function withdraw(address account) external nonReentrant returns (uint256 amount) {
        Node storage node = _asStaker(account);
        if (node.unbonding == 0) revert ZeroAmount();
        if (block.timestamp < node.matures) revert Unbonding(account, node.matures);
        uint256 total = uint256(node.stake) + node.unbonding;
        uint256 free = total > node.locked ? total - node.locked : 0;
        amount = Math.min(free, node.unbonding);
        if (amount == 0) revert StakeUnderCase(account, node.locked);
        node.unbonding -= amount.toUint128();
        emit StakeWithdrawn(account, msg.sender, amount);
        token.safeTransfer(msg.sender, amount);
    }

    function lock(address account, uint256 amount) external onlyWired {
        Node storage node = _registered(account);
        node.locked += amount.toUint128();
        emit StakeLocked(account, amount, node.locked);
    }

    function unlock(address account, uint256 amount) external onlyWired {
        Node storage node = _registered(account);
        node.locked -= amount.toUint128();
        emit StakeUnlocked(account, amount, node.locked);
    }

    function burn(address account, uint256 amount) external onlyWired returns (uint256 burnt) {
        Node storage node = _registered(account);
        node.locked -= amount.toUint128();
        uint256 fromStake = Math.min(amount, node.stake);
        uint256 fromUnbonding = Math.min(amount - fromStake, node.unbonding);
        node.stake -= fromStake.toUint128();
        node.unbonding -= fromUnbonding.toUint128();
        burnt = fromStake + fromUnbonding;
        emit StakeBurnt(account, burnt, node.stake);
        token.burn(burnt);
    }

    function getNode(address node) external view returns (Node memory) {
        return _nodes[node];
    }

    function stakerOf(address node) external view returns (address) {
        return _nodes[node].staker;
    }

    function requireStake(address account, uint256 needed) external view {
        Node storage node = _registered(account);
        if (node.stake < needed + node.locked) revert StakeTooLow(account, node.stake, needed + node.locked);
    }

    function _registered(address account) private view returns (Node storage node) {
        node = _nodes[account];
        if (node.staker == address(0)) revert NotRegistered(account);
    }

    function _asStaker(address account) private view returns (Node storage node) {
        node = _registered(account);
        if (msg.sender != node.staker) revert NotStaker(msg.sender, node.staker);
    }

    function _add(address account, uint256 amount) private {
        Node storage node = _nodes[account];
        if (amount == 0) revert ZeroAmount();
        node.stake += amount.toUint128();
        emit StakeAdded(account, amount, node.stake);
        token.safeTransferFrom(msg.sender, address(this), amount);
    }
}
