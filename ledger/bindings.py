"""Bindings: a node's key agrees, once and for a while, to be registered by a staker. EIP-712, checked on chain.

Decides the typed data, field by field equal to `NodeRegistry.Binding`. Refuses nothing: the contract is the judge.
"""

from __future__ import annotations

from eth_account.signers.local import LocalAccount

from ledger.deployment import Deployment
from ledger.typed_data import sign_typed
from ledger.types import Binding

_FIELDS = {"staker": "address", "node": "address", "nonce": "uint256", "expires": "uint256", "salt": "bytes32"}


def binding_tuple(binding: Binding, deployment: Deployment) -> tuple[str, str, int, int, bytes]:
    """The contract's struct, in order."""
    return (binding.staker, binding.node, binding.nonce, binding.expires_unix_s, deployment.salt)


def sign_binding(binding: Binding, deployment: Deployment, node: LocalAccount) -> bytes:
    """The node's 65-byte signature."""
    return sign_typed(
        node,
        chain_id=deployment.chain_id,
        contract=deployment.registry,
        purpose="Binding",
        fields=_FIELDS,
        values=binding_tuple(binding, deployment),
    )
