"""One node a data folder: who holds the file `lock` in it.

Decides who may go on where two want the same folder. It ends nobody, and the lock goes with the process that holds it.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def alone_in(data_dir: Path) -> Iterator[bool]:
    """Holds the folder's lock in the block, and says whether that was possible: False while a node runs there."""
    with (data_dir / "lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True


def is_running(data_dir: Path) -> bool:
    """Whether a node holds the folder's lock; asked without making a file."""
    try:
        with (data_dir / "lock").open("r") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False
