// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.30;

/// @dev The tree of a batch written a second time, from its description: sorted pairs from the left, an odd last rises.
library MerkleTree {
    function leaf(bytes32 submissionId, bytes32 fileHash) internal pure returns (bytes32) {
        return keccak256(abi.encode(keccak256(abi.encode(submissionId, fileHash))));
    }

    function proof(bytes32[] memory layer, uint256 index) internal pure returns (bytes32[] memory siblings) {
        bytes32[] memory found = new bytes32[](9);
        uint256 count;
        while (layer.length > 1) {
            uint256 sibling = index % 2 == 0 ? index + 1 : index - 1;
            if (sibling < layer.length) found[count++] = layer[sibling];
            bytes32[] memory above = new bytes32[]((layer.length + 1) / 2);
            for (uint256 i; i < above.length; ++i) {
                above[i] = 2 * i + 1 == layer.length ? layer[2 * i] : pair(layer[2 * i], layer[2 * i + 1]);
            }
            (layer, index) = (above, index / 2);
        }
        siblings = new bytes32[](count);
        for (uint256 i; i < count; ++i) siblings[i] = found[i];
    }

    function pair(bytes32 left, bytes32 right) internal pure returns (bytes32) {
        return left < right ? keccak256(abi.encode(left, right)) : keccak256(abi.encode(right, left));
    }
}
