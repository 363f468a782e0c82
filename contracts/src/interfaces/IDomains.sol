// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.30;

import {TwoStep} from "../TwoStep.sol";

/// @title Compute domains: a name, an owner, and whom none of its pools may have.
interface IDomains {
    struct Domain {
        TwoStep.Owner owner;
        string name;
    }

    event DomainCreated(uint256 indexed domainId, address indexed owner, string name);
    event DomainOwnerOffered(uint256 indexed domainId, address indexed to);
    event DomainOwnerChanged(uint256 indexed domainId, address indexed owner);
    event DomainBlacklisted(uint256 indexed domainId, address indexed account, bytes32 reason);
    event DomainUnblacklisted(uint256 indexed domainId, address indexed account);

    error UnknownDomain(uint256 domainId);

    function createDomain(string calldata name) external returns (uint256 domainId);
    function offerDomain(uint256 domainId, address to) external;
    function acceptDomain(uint256 domainId) external;
    /// By the domain's owner: `account`, as a node or as a staker, is no member of any of its pools from now on.
    function blacklistInDomain(uint256 domainId, address account, bytes32 reason) external;
    function unblacklistInDomain(uint256 domainId, address account) external;

    function getDomain(uint256 domainId) external view returns (Domain memory);
    function isBlacklistedInDomain(uint256 domainId, address account) external view returns (bool);
}
