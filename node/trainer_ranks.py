"""Starts the ranks of one training process, `python -m node.trainer_ranks COUNT FOLDER`, and ends all if one ends.

It is torchrun's agent without its network: the ranks are on this machine, so they meet in FOLDER (private, made anew)
and nothing listens for them. They inherit the pipe from the node, of which rank 0 alone makes use. Nothing is started
again: the node does that, from the last state on disk. Decides nothing about training. The agent gives each rank a
session of its own, so the kernel deals out cores to them apart from the node, whose niceness they do not feel.
"""

from __future__ import annotations

import shutil
import signal
import sys
from pathlib import Path

from torch.distributed import HashStore
from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.elastic.rendezvous import (
    RendezvousHandler,
    RendezvousInfo,
    RendezvousParameters,
    RendezvousStoreInfo,
    rendezvous_handler_registry,
)
from torch.distributed.launcher import LaunchConfig, launch_agent

MEETING = "here"
LOOPBACK = "127.0.0.1"
SHUTDOWN_S = 5
"""What a rank has, after SIGTERM, before it is killed; its node gives a child twice as long."""


class Here(RendezvousHandler):
    """A rendezvous of one agent with itself: no store, port or address that others could reach."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id

    def get_backend(self) -> str:
        return MEETING

    def next_rendezvous(self) -> RendezvousInfo:
        # Port 0 is told to the ranks, which do not ask: they have their folder (see `rl.ranks.join`).
        return RendezvousInfo(HashStore(), 0, 1, RendezvousStoreInfo(LOOPBACK, 0))

    def is_closed(self) -> bool:
        return False

    def set_closed(self) -> None: ...

    def num_nodes_waiting(self) -> int:
        return 0

    def get_run_id(self) -> str:
        return self._run_id

    def shutdown(self) -> bool:
        return True


def make(parameters: RendezvousParameters) -> RendezvousHandler:
    return Here(parameters.run_id)


def run_ranks(count: int, folder: Path) -> int:
    """Blocks until all ranks have left, or one has died and the others are gone. Returns the exit status."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700, parents=True)
    rendezvous_handler_registry.register(MEETING, make)
    config = LaunchConfig(
        min_nodes=1, max_nodes=1, nproc_per_node=count, run_id="trainer", role="trainer", rdzv_backend=MEETING,
        max_restarts=0, local_addr=LOOPBACK, shutdown_timeout=SHUTDOWN_S,
        logs_specs=DefaultLogsSpecs(log_dir=str(folder / "logs")),
    )  # fmt: skip
    try:
        launch_agent(config, sys.executable, ["-m", "node.trainer_child", "--ranks", str(folder)])
    except ChildFailedError as fault:
        number, failure = fault.get_first_failure()
        how = signal.Signals(-failure.exitcode).name if failure.exitcode < 0 else f"status {failure.exitcode}"
        print(f"rank {number} of {count} ended with {how}; the others were ended", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(run_ranks(int(sys.argv[1]), Path(sys.argv[2])))
