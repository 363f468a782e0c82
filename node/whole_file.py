"""A file of text that is complete, on disk, under its name, or not there at all. Knows nothing of what is in it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from node.errors import DiskFull, UserError


def write_whole(path: Path, lines: Iterable[str]) -> None:
    """Write the lines, each with its line end. Raises UserError; what stood there before is then still there."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as fault:
        raise unwritten(path, fault) from fault
    partial = path.with_name(path.name + ".part")
    try:
        with partial.open("w") as sink:
            sink.writelines(f"{line}\n" for line in lines)
            sink.flush()
            os.fsync(sink.fileno())
        partial.replace(path)
    except OSError as fault:
        raise unwritten(path, fault) from fault
    finally:
        partial.unlink(missing_ok=True)


def unwritten(path: Path, fault: OSError) -> UserError:
    """The error that a person is told for a file that could not be written."""
    if DiskFull.is_cause_of(fault):
        return DiskFull(f"the disk is full: {path} cannot be written", fix="free space, and start the command again")
    return UserError(f"cannot write {path}: {fault.strerror}", fix="name a file in a folder that you may write to")
