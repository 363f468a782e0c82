"""Training processes that act as one: which of them this is, what is its part of the work, and what is added up.

Every rank is given the whole batch and computes the same micro-batches, so that only sums and calls travel between
them. They are processes of one machine: they meet in a private folder (no port), talk over the loopback device only,
and exchange tensors and bytes, never pickled objects. A single rank touches nothing of `torch.distributed`. How the
others are started and who watches over them is `node.trainer_ranks`'s.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

import torch
import torch.distributed as dist

LOOPBACK = "lo"
PATIENCE = timedelta(days=30)
"""A follower waits as long as a step takes to fill. Who died is seen by whoever started the ranks, not by a timeout."""
STORE = "store"
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranks:
    """This is rank `number` of `count`; rank 0 leads and writes the files."""

    number: int = 0
    count: int = 1

    def deal(self, parts: Sequence[T]) -> list[T | None]:
        """This rank's parts, dealt in turn; None fills up, so that every rank has as many.

        A forward or backward pass of sharded weights is a pass of all ranks. One that has nothing left to do takes
        part with nothing, not with a part that is another's: that would count twice.
        """
        rounds = -(-len(parts) // self.count)
        mine = list(parts[self.number :: self.count])
        return [*mine, *[None] * (rounds - len(mine))]

    def total(self, values: Sequence[float]) -> list[float]:
        """Each value added up over all ranks, in float64; the same on all of them."""
        if self.count == 1:
            return list(values)
        tensor = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(tensor)
        return tensor.tolist()

    def tell(self, message: bytes) -> bytes:
        """What rank 0 says, on every rank; the others' `message` counts for nothing."""
        if self.count == 1:
            return message
        size = torch.tensor([len(message)])
        dist.broadcast(size, src=0)
        if not size:
            return b""
        data = torch.zeros(int(size), dtype=torch.uint8)
        if self.number == 0:
            data.copy_(torch.frombuffer(bytearray(message), dtype=torch.uint8))
        dist.broadcast(data, src=0)
        return data.numpy().tobytes()

    def device(self) -> torch.device:
        """Where this rank computes: on a GPU of its own if there are any. Raises ValueError if they are too few."""
        if not torch.cuda.is_available():
            return torch.device("cpu")
        if self.count > torch.cuda.device_count():
            raise ValueError(
                f"trainer.ranks is {self.count}, but this machine has {torch.cuda.device_count()} GPUs: "
                f"set it to as many, or hide them with CUDA_VISIBLE_DEVICES= to train on the CPU"
            )
        return torch.device("cuda", self.number)


ALONE = Ranks()


def join(folder: Path, *, number: int, count: int) -> Ranks:
    """Meet the other ranks in `folder`, which nobody else may write to; returns when all are there.

    CPU tensors go by gloo; where there are GPUs, theirs go by nccl.
    """
    # Both would otherwise listen on whatever address the host's name resolves to.
    os.environ["GLOO_SOCKET_IFNAME"] = os.environ["NCCL_SOCKET_IFNAME"] = LOOPBACK
    ranks = Ranks(number=number, count=count)
    device = ranks.device()
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group(
        "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo",
        store=dist.FileStore(str(folder / STORE), count), rank=number, world_size=count, timeout=PATIENCE,
    )  # fmt: skip
    return ranks


def leave() -> None:
    """The last call of a rank; all ranks make it."""
    dist.destroy_process_group()
