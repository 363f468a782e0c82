"""The peer key: the Ed25519 identity of this node's transport, made on the first start in a data folder.

Decides when a key is made: only in a folder that never had one. Refuses to replace a key that was lost or damaged,
because every peer knows the old peer id and the wallet has signed it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

import base58
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from node.errors import PeerKeyLost
from node.secret_file import SecretExposed, read_secret, write_new_secret

KEY_FILE = "peer.key"
MARKER_FILE = "peer.id"
PRIVATE_PREFIX = bytes.fromhex("08011240")  # libp2p's protobuf of an Ed25519 private key: type 1, then 64 bytes
PUBLIC_PREFIX = bytes.fromhex("08011220")  # of a public key: type 1, then 32 bytes
IDENTITY_MULTIHASH = bytes.fromhex("0024")  # the 36 bytes themselves


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerKey:
    """An Ed25519 key pair: 32 bytes of seed (secret), 32 bytes of public key."""

    seed: bytes = field(repr=False)
    public: bytes

    @property
    def peer_id(self) -> str:
        """The base58 libp2p peer id: the identity multihash of the protobuf-encoded public key."""
        return base58.b58encode(IDENTITY_MULTIHASH + PUBLIC_PREFIX + self.public).decode()

    def to_bytes(self) -> bytes:
        """libp2p's protobuf form, 68 bytes; go-libp2p (and so hivemind's daemon) reads the same."""
        return PRIVATE_PREFIX + self.seed + self.public


def make_peer_key(seed: bytes) -> PeerKey:
    """The key of a 32-byte seed."""
    return PeerKey(seed=seed, public=Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw())


def load_peer_key(data_dir: Path) -> PeerKey:
    """The folder's peer key, made if the folder never had one. Raises PeerKeyLost, OSError."""
    path, marker = data_dir / KEY_FILE, data_dir / MARKER_FILE
    restore = (
        f"restore {path} from a backup; or, to become a new peer, delete {marker} as well and announce yourself anew"
    )
    try:
        raw = read_secret(path, len(PRIVATE_PREFIX) + 64)
    except FileNotFoundError as error:
        if marker.exists():
            raise PeerKeyLost(f"the peer key {path} existed and is gone", fix=restore) from error
        raw = make_peer_key(os.urandom(32)).to_bytes()
        write_new_secret(path, raw)
    except SecretExposed as error:
        raise PeerKeyLost(f"{path} is not private ({error})", fix=f"chmod 600 {path}") from error
    except ValueError as error:
        raise PeerKeyLost(f"{path} is damaged: {error}", fix=restore) from error
    if len(raw) != len(PRIVATE_PREFIX) + 64 or not raw.startswith(PRIVATE_PREFIX):
        raise PeerKeyLost(f"{path} is damaged", fix=restore)
    key = make_peer_key(raw[4:36])
    if not marker.exists():  # the first start, or one that ended between the two files
        write_new_secret(marker, key.peer_id.encode() + b"\n")
    if raw != key.to_bytes() or marker.read_text().strip() != key.peer_id:
        raise PeerKeyLost(f"{path} is not the key that {marker} names", fix=restore)
    return key
