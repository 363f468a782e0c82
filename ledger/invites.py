"""Invites as the contract verifies them: EIP-712 typed data, signed by the pool's manager.

Decides the typed data, field by field equal to `ComputePools.Invite`, and which of an epoch's 256 nonces comes next.
Refuses nothing else: the contract is the judge.
"""

from __future__ import annotations

from eth_account.signers.local import LocalAccount

from ledger.deployment import Deployment
from ledger.errors import InvitesUsedUp
from ledger.typed_data import sign_typed
from ledger.types import Invite, Member

_FIELDS = {
    "node": "address",
    "poolId": "uint256",
    "domainId": "uint256",
    "role": "uint8",
    "nonce": "uint256",
    "expires": "uint256",
    "salt": "bytes32",
}


def free_nonce(member: Member) -> int:
    """The lowest nonce of the member's epoch that no invite has used. Raises `InvitesUsedUp`."""
    bit = (~member.used & (member.used + 1)).bit_length() - 1
    if bit > 255:
        raise InvitesUsedUp(f"all 256 invites for {member.address} are used: eject it to open new ones")
    return member.epoch * 256 + bit


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
    return sign_typed(
        account,
        chain_id=deployment.chain_id,
        contract=deployment.pools,
        purpose="Invite",
        fields=_FIELDS,
        values=invite_tuple(invite, deployment),
    )
