"""Where a node is reached, told to its pool's manager alone: multiaddrs sealed to the manager's X25519 key.

Decides how the manager's key comes from its wallet, what is sealed, and which sealed contact is believed. Pure. It
refuses contacts that speak of another wallet or lead to another peer than their record, so that nobody has the manager
dial a third party. Anybody can seal; that the node meant it follows from the signature on its record.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgpack
from eth_utils import keccak
from nacl.exceptions import CryptoError
from nacl.public import PrivateKey, PublicKey, SealedBox

from dht.records import MAX_SEALED_BYTES, NodeRecord
from dht.signing import RecordDomain, Signer, sign, typed_hash

PAD_BYTES = 512
"""Contacts are padded to a multiple of this: their length says nothing."""
MAX_ADDRESSES = 8
_TYPE = "ContactKey(bytes32 salt,bytes32 runId,string purpose)"


class ContactInvalid(Exception):
    """A sealed contact that is for somebody else, or must not be used."""


def contact_key(account: Signer, domain: RecordDomain) -> PrivateKey:
    """The X25519 key of this wallet in this run: the same at every start and wherever the wallet is opened.

    It is the hash of a signature, which ECDSA as used here (RFC 6979) makes the same each time. The signed type is this
    purpose's alone, and nothing signs what a peer sends: nobody else gets to see that signature.
    """
    digest = typed_hash(domain, _TYPE, (domain.salt, domain.run_id, keccak(text="seal contacts to the manager")))
    return PrivateKey(keccak(sign(digest, account)))


def seal_contact(multiaddrs: Sequence[str], *, address: str, x25519: bytes) -> bytes:
    """What only the owner of the public key `x25519` (32 bytes) can read. Raises ValueError where it does not fit."""
    plain = msgpack.packb([address, list(multiaddrs)])
    padded = msgpack.packb([plain, bytes(-len(plain) % PAD_BYTES)])
    sealed = SealedBox(PublicKey(x25519)).encrypt(padded)
    if len(sealed) > MAX_SEALED_BYTES or len(multiaddrs) > MAX_ADDRESSES:
        raise ValueError("too many addresses to seal")
    return bytes(sealed)


def open_contact(record: NodeRecord, key: PrivateKey) -> tuple[str, ...]:
    """The multiaddrs in a record's sealed contact. Raises ContactInvalid."""
    try:
        padded = SealedBox(key).decrypt(record.sealed)
    except (CryptoError, ValueError, TypeError) as error:
        raise ContactInvalid(f"the contact of {record.address} is not sealed to this key") from error
    try:
        plain, _ = msgpack.unpackb(padded)
        address, multiaddrs = msgpack.unpackb(plain)
        multiaddrs = tuple(multiaddrs)
    except Exception as error:  # decode edge: msgpack's many types on a hostile value
        raise ContactInvalid(f"the contact of {record.address} is malformed: {error!r}") from error
    if address != record.address:
        raise ContactInvalid(f"the contact of {record.address} was sealed for another node")
    if len(multiaddrs) > MAX_ADDRESSES or not all(
        isinstance(a, str) and len(a) <= 256 and a.endswith(f"/p2p/{record.peer_id}") for a in multiaddrs
    ):
        raise ContactInvalid(f"the contact of {record.address} leads to another peer than its record")
    return multiaddrs


def ways_to(record: NodeRecord, key: PrivateKey | None) -> tuple[str, ...]:
    """The multiaddrs to try, best first; the last one needs an open connection and so works behind any router.

    `key` is the manager's; without it only open addresses count. Raises ContactInvalid.
    """
    sealed = open_contact(record, key) if key is not None and record.sealed else ()
    return (*(record.multiaddrs or sealed), f"/p2p/{record.peer_id}")
