"""A validator's commitment to a verdict: the hash that it shows first, and the salt that hides what is in it.

Decides both. The salt is derived from the validator's key and the docket, so that it outlives a restart without a
secret on disk: it is the hash of a deterministic (RFC 6979) signature that is made for this purpose only and never
shown. Without a salt anybody could try the few verdicts there are.
"""

from __future__ import annotations

import eth_abi
from eth_account.signers.local import LocalAccount
from eth_utils import keccak

from ledger.deployment import Deployment
from ledger.typed_data import sign_typed
from ledger.types import Verdict, reason_bytes


def verdict_tuple(verdict: Verdict) -> tuple[int, int, bytes, bytes]:
    """The contract's struct, in order."""
    return (int(verdict.outcome), verdict.units, reason_bytes(verdict.reason), verdict.evidence_hash)


def commitment_of(docket_id: bytes, validator: str, verdict: Verdict, salt: bytes) -> bytes:
    """Equal to `Court.commitmentOf`."""
    kinds = ["bytes32", "address", "(uint8,uint128,bytes32,bytes32)", "bytes32"]
    return keccak(eth_abi.encode(kinds, [docket_id, validator, verdict_tuple(verdict), salt]))


def commitment_salt(docket_id: bytes, deployment: Deployment, account: LocalAccount) -> bytes:
    """32 bytes that only this account can know, the same each time."""
    signature = sign_typed(
        account,
        chain_id=deployment.chain_id,
        contract=deployment.court,
        purpose="CommitmentSalt",
        fields={"docketId": "bytes32", "salt": "bytes32"},
        values=(docket_id, deployment.salt),
    )
    return keccak(signature)
