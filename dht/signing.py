"""Decides what a wallet signs in the peer-to-peer plane: EIP-712 typed data bound to chain, contract, salt and run.

It refuses to sign a string as it came and to know what the fields mean; records.py and manifest.py say that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

from eth_keys import keys
from eth_utils import keccak, to_canonical_address, to_checksum_address

SIGNATURE_BYTES = 65
_DOMAIN_TYPE = keccak(text="EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)")
_NAME, _VERSION = keccak(text="intellect-node"), keccak(text="1")


class SignatureInvalid(Exception):
    """The bytes are not a secp256k1 signature in the form r ‖ s ‖ v (v = 27 or 28)."""


class Signer(Protocol):
    """What is needed of an eth_account LocalAccount; lives in the node only, never in a child."""

    @property
    def address(self) -> str: ...

    def unsafe_sign_hash(self, message_hash: Any) -> Any: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordDomain:
    """Where signatures hold: chain, pools contract (checksum address), deployment salt and run id (32 bytes each)."""

    chain_id: int
    contract: str
    salt: bytes
    run_id: bytes

    def __post_init__(self) -> None:
        if len(self.salt) != 32 or len(self.run_id) != 32:
            raise ValueError("salt and run id have 32 bytes each")
        if self.contract != to_checksum_address(self.contract):
            raise ValueError(f"contract {self.contract} is not a checksum address")


def word(value: int | str | bytes) -> bytes:
    """One 32-byte EIP-712 word: an integer, an address (as 0x string), or 32 bytes as they are."""
    if isinstance(value, int):
        return value.to_bytes(32, "big")
    if isinstance(value, str):
        return to_canonical_address(value).rjust(32, b"\0")
    if len(value) != 32:
        raise ValueError(f"a word has 32 bytes, not {len(value)}")
    return value


def typed_hash(domain: RecordDomain, struct_type: str, words: Sequence[bytes]) -> bytes:
    """The 32 bytes to sign for a struct whose fields are already encoded as words (EIP-712, "hashStruct")."""
    separator = keccak(b"".join((_DOMAIN_TYPE, _NAME, _VERSION, word(domain.chain_id), word(domain.contract))))
    return keccak(b"\x19\x01" + separator + keccak(keccak(text=struct_type) + b"".join(words)))


def sign(digest: bytes, account: Signer) -> bytes:
    """65 bytes r ‖ s ‖ v."""
    return bytes(account.unsafe_sign_hash(digest).signature)


@lru_cache(maxsize=8192)
def recover(digest: bytes, signature: bytes) -> str:
    """Checksum address that signed `digest`.

    Remembered, because a refreshed directory shows the same records again and again.
    """
    if len(signature) != SIGNATURE_BYTES or signature[64] not in (27, 28):
        raise SignatureInvalid("not a 65-byte signature with v = 27 or 28")
    try:
        recovered = keys.Signature(signature[:64] + bytes([signature[64] - 27]))
        return recovered.recover_public_key_from_msg_hash(digest).to_checksum_address()
    except Exception as error:  # eth_keys and its C backend raise unrelated types on hostile input
        raise SignatureInvalid(f"no signer: {error!r}") from error
