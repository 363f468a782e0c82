"""The processes of `run local`: started, watched, started again after a fault, and all gone at the end.

It ends only what it started. A node that leaves by itself with a person's fault (a blacklisted worker, say) stays down;
one that was killed or crashed comes back after a pause, since that is what its owner's supervisor would do.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil
import trio

from node.child import log_tail
from node.collapse_watch import Collapsed
from node.errors import ConfigError, DiskFull, WalletMissing
from node.membership import Blacklisted

log = logging.getLogger(__name__)
LOOK_S = 0.5
RESTART_S = 3.0
STOP_GRACE_S = 25.0
MAX_RESTARTS = 5
FINAL_STATUSES = {
    0, ConfigError.exit_code, WalletMissing.exit_code, Blacklisted.exit_code, DiskFull.exit_code, Collapsed.exit_code,
}  # fmt: skip
"""Done, or a fault that only a person can cure."""


@dataclass(slots=True)
class NodeProcess:
    """One node as a process, with a process group of its own (a session would hide its niceness, see `node.child`)."""

    name: str
    command: Sequence[str]
    log_path: Path
    process: subprocess.Popen[bytes] | None = None
    restarts: int = 0

    def start(self) -> None:
        with self.log_path.open("ab") as sink:
            self.process = subprocess.Popen(
                list(self.command), stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, process_group=0
            )

    @property
    def returncode(self) -> int | None:
        return self.process.poll() if self.process else None

    def signal(self, number: signal.Signals) -> None:
        """Send to the process while it lives."""
        if self.process and self.process.poll() is None:
            self.process.send_signal(number)

    def kill_group(self) -> None:
        """End whatever of the node's own process group is left."""
        if self.process:
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                return  # it left nothing behind

    def tail(self) -> str:
        """The last lines of its log."""
        return log_tail(self.log_path)


async def keep_running(node: NodeProcess) -> int:
    """Start the node and see it through; returns its exit status once another start would not help."""
    while True:
        node.start()
        while (status := node.returncode) is None:
            await trio.sleep(LOOK_S)
        if status in FINAL_STATUSES or node.restarts == MAX_RESTARTS:
            return status
        node.restarts += 1
        log.warning("%s ended with status %d; it starts again in %.0f s\n%s", node.name, status, RESTART_S, node.tail())
        await trio.sleep(RESTART_S)


async def stop_all(nodes: Sequence[NodeProcess]) -> None:
    """Ask every node to stop, wait, and end what is left. Not cancellable."""
    with trio.CancelScope(shield=True):
        for node in nodes:
            node.signal(signal.SIGTERM)
        with trio.move_on_after(STOP_GRACE_S):
            while any(node.process and node.returncode is None for node in nodes):
                await trio.sleep(0.1)
        for node in nodes:
            node.kill_group()
            if node.process:
                await trio.to_thread.run_sync(node.process.wait)


def memory_bytes(pid: int) -> int:
    """Memory of a process and all its descendants; pages that several share are counted once between them (PSS)."""
    total = 0
    try:
        root = psutil.Process(pid)
        family = [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return 0
    for process in family:
        try:
            total += process.memory_full_info().pss
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue  # it ended between the two looks
    return total
