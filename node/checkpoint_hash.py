"""A name for the weights in a folder, whatever the folder is called: the SHA-256 of its safetensors files."""

from __future__ import annotations

import hashlib
from pathlib import Path


def weights_hash(folder: Path) -> str:
    """Hex, over the files' names and contents in the order of the names. Raises OSError."""
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.safetensors")):
        with path.open("rb") as file:
            digest.update(path.name.encode() + b"\0" + hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()
