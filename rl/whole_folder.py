"""A folder of files that appears complete, on disk, under its name, or not at all. Knows nothing of what is in it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """Yields an empty folder to write flat files to; on leaving without an exception it replaces `folder`.

    After one (a full disk, say) `folder` is as it was, and what was written meanwhile is gone. Unfinished folders of
    earlier processes go, too; one that still writes to its own (its node was killed) cannot touch this one's.
    """
    for left in folder.parent.glob(f"{folder.name}.part*"):
        shutil.rmtree(left, ignore_errors=True)
    partial = folder.with_name(f"{folder.name}.part-{os.getpid()}")
    partial.mkdir(parents=True)
    try:
        yield partial
        for path in (*partial.iterdir(), partial):
            _sync(path)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    shutil.rmtree(folder, ignore_errors=True)
    partial.rename(folder)
    _sync(folder.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
