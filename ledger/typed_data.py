"""EIP-712 signatures of this project: one domain name and version, bound to chain and contract.

Decides the domain. What else ties a signature to its use (salt, nonce, expiry) is in the messages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from eth_account.messages import encode_typed_data
from eth_account.signers.local import LocalAccount

NAME, VERSION = "intellect-node", "1"


def sign_typed(
    account: LocalAccount,
    *,
    chain_id: int,
    contract: str,
    purpose: str,
    fields: Mapping[str, str],
    values: Sequence[object],
) -> bytes:
    """65 bytes; `purpose` is the struct's name, `fields` its members' names and ABI types, in order."""
    domain = {"name": NAME, "version": VERSION, "chainId": chain_id, "verifyingContract": contract}
    types = {purpose: [{"name": name, "type": kind} for name, kind in fields.items()]}
    message = dict(zip(fields, values, strict=True))
    return bytes(account.sign_message(encode_typed_data(domain, types, message)).signature)
