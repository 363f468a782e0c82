// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.30;

import {IDomains} from "./interfaces/IDomains.sol";
import {TwoStep} from "./TwoStep.sol";

/// @title Compute domains. Ids start at 1.
abstract contract Domains is IDomains {
    using TwoStep for TwoStep.Owner;

    uint256 public domainCount;
    mapping(uint256 domainId => Domain) private _domains;
    mapping(uint256 domainId => mapping(address account => bool)) public isBlacklistedInDomain;

    function createDomain(string calldata name) external returns (uint256 domainId) {
        domainId = ++domainCount;
        Domain storage domain = _domains[domainId];
        domain.owner.current = msg.sender;
        domain.name = name;
        emit DomainCreated(domainId, msg.sender, name);
    }

    function offerDomain(uint256 domainId, address to) external {
        _domain(domainId).owner.offer(to);
        emit DomainOwnerOffered(domainId, to);
    }

    function acceptDomain(uint256 domainId) external {
        _domain(domainId).owner.accept();
        emit DomainOwnerChanged(domainId, msg.sender);
    }

    function blacklistInDomain(uint256 domainId, address account, bytes32 reason) external {
        _domain(domainId).owner.check();
        isBlacklistedInDomain[domainId][account] = true;
        emit DomainBlacklisted(domainId, account, reason);
    }

    function unblacklistInDomain(uint256 domainId, address account) external {
        _domain(domainId).owner.check();
        isBlacklistedInDomain[domainId][account] = false;
        emit DomainUnblacklisted(domainId, account);
    }

    function getDomain(uint256 domainId) external view returns (Domain memory) {
        return _domain(domainId);
    }

    function _domain(uint256 domainId) internal view returns (Domain storage domain) {
        domain = _domains[domainId];
        if (domain.owner.current == address(0)) revert UnknownDomain(domainId);
    }
}
