"""A folder of files that appears complete, on disk, under its name, or not at all. Knows nothing of what is in it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """Yields an empty folder to write flat files to; on leaving without an exception it replaces `folder`."""
    partial = folder.with_name(folder.name + ".part")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    yield partial
    for path in (*partial.iterdir(), partial):
        descriptor = os.open(path, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)
    shutil.rmtree(folder, ignore_errors=True)
    partial.rename(folder)
