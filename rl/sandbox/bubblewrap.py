"""bubblewrap's command line for the same sandbox as `rl.sandbox.namespaces` makes. Pure."""

from __future__ import annotations

import os
from collections.abc import Sequence

from rl.sandbox.namespaces import DEVICES, INSIDE_UID, visible_folders


def command(bwrap: str, argv: Sequence[str], *, box_bytes: int, code_folder: str, info: int) -> list[str]:
    """`argv` as process 1 in namespaces of its own. `info` is the descriptor on which bwrap names that process."""
    words = [bwrap, "--unshare-all", "--die-with-parent", "--as-pid-1", "--clearenv", "--setenv", "LC_ALL", "C.UTF-8"]
    words += ["--uid", str(INSIDE_UID), "--gid", str(INSIDE_UID), "--cap-drop", "ALL", "--info-fd", str(info)]
    for folder in visible_folders():
        link = os.path.islink(folder)
        words += ["--symlink", os.readlink(folder), folder] if link else ["--ro-bind", folder, folder]
    words += ["--ro-bind", code_folder, "/sandbox", "--dir", "/dev"]
    for inside, outside in DEVICES.items():
        words += ["--dev-bind", f"/dev/{outside}", f"/dev/{inside}"]
    words += ["--perms", "0700", "--size", str(box_bytes), "--tmpfs", "/box", "--symlink", "box", "/tmp"]
    return [*words, "--remount-ro", "/", "--chdir", "/", "--", *argv]
