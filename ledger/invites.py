"""Invites as the contract verifies them: EIP-712 typed data, signed by the pool's manager.

Decides the typed data, field by field equal to `ComputePools.Invite`. Refuses nothing: the contract is the judge.
"""

from __future__ import annotations

from eth_account.messages import encode_typed_data
from eth_account.signers.local import LocalAccount

from ledger.deployment import Deployment
from ledger.types import Invite

_TYPES = {
    "Invite": [
        {"name": "node", "type": "address"},
        {"name": "poolId", "type": "uint256"},
        {"name": "domainId", "type": "uint256"},
        {"name": "role", "type": "uint8"},
        {"name": "nonce", "type": "uint256"},
        {"name": "expires", "type": "uint256"},
        {"name": "salt", "type": "bytes32"},
    ]
}


def invite_tuple(invite: Invite, deployment: Deployment) -> tuple[str, int, int, int, int, int, bytes]:
    """The contract's struct, in order."""
    return (
        invite.node,
        invite.pool_id,
        invite.domain_id,
        int(invite.role),
        invite.nonce,
        invite.expires_unix_s,
        deployment.salt,
    )


def sign_invite(invite: Invite, deployment: Deployment, account: LocalAccount) -> bytes:
    """The manager's 65-byte signature."""
    names = [field["name"] for field in _TYPES["Invite"]]
    domain = {
        "name": "intellect-node",
        "version": "1",
        "chainId": deployment.chain_id,
        "verifyingContract": deployment.pools,
    }
    message = dict(zip(names, invite_tuple(invite, deployment), strict=True))
    return bytes(account.sign_message(encode_typed_data(domain, _TYPES, message)).signature)
