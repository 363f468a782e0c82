"""Which problems a worker must solve: a pure function of the run, the step, the worker and a counter.

It refuses to let anybody choose. The seed is a Keccak hash (never a linear combination, which could be
ground for easy problems); every draw hashes the seed again, so no index predicts its neighbour.
"""

from __future__ import annotations

from eth_utils import keccak

MAX_SUBMISSIONS = 64
"""Submissions of one worker in one step: bounds the draws among which an easy one could be picked."""


def draw_seed(run_id: bytes, step: int, address: str, counter: int) -> bytes:
    """32-byte seed of one submission.

    Args:
        run_id: 32 bytes that name the run on its ledger.
        step: the step that the rollouts are for.
        address: the worker's account, 0x-prefixed hex of 20 bytes, in any case.
        counter: how many submissions this worker has already made for the step.
    """
    account = bytes.fromhex(address.removeprefix("0x"))
    if len(run_id) != 32 or len(account) != 20:
        raise ValueError("run_id has 32 bytes and an address 20")
    return keccak(b"intellect-node/draw/1" + run_id + step.to_bytes(8, "big") + account + counter.to_bytes(8, "big"))


def draw_problems(seed: bytes, count: int, task_size: int) -> tuple[int, ...]:
    """Indices of `count` distinct problems out of `task_size`, in the order in which they must be solved."""
    if not 0 < count <= task_size:
        raise ValueError(f"cannot draw {count} distinct problems from {task_size}")
    drawn: dict[int, None] = {}
    attempt = 0
    while len(drawn) < count:
        drawn[int.from_bytes(keccak(seed + attempt.to_bytes(8, "big")), "big") % task_size] = None
        attempt += 1
    return tuple(drawn)
