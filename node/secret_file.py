"""A file that only its owner may read: created once, whole or not at all.

Decides the permissions (0600 in a folder made 0700). Refuses to overwrite, and to read a file that others can read or
write. Knows nothing of what the secret is.
"""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path


class SecretExposed(Exception):
    """The file can be read or written by others than its owner. The text says how it is set."""


def write_new_secret(path: Path, data: bytes) -> None:
    """Creates `path` with `data`, fsynced, 0600; folders made here are 0700. Raises FileExistsError, OSError."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.link(temporary, path)  # unlike rename, fails when the name is taken
    finally:
        temporary.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def read_secret(path: Path, max_bytes: int) -> bytes:
    """The file's bytes, at most `max_bytes`. Raises OSError, SecretExposed, ValueError (too large, not a file)."""
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("not a regular file")
        if status.st_mode & 0o077:
            raise SecretExposed(f"mode {stat.S_IMODE(status.st_mode):04o}: others than its owner may read or write it")
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise ValueError(f"larger than {max_bytes} bytes")
    return data
