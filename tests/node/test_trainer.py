"""Which step is open, and when its batch goes to training."""

from __future__ import annotations

import trio
import trio.testing

from node.trainer import Batches
from rl.batch import StepBatch
from rl.rollouts import Rollout


def fill(batches: Batches, step: int, name: str, *, useful: bool = True) -> None:
    """One accepted submission of one group of two."""
    rows = [
        Rollout(
            step=step, policy_version=0, counter=0, group=0, sample=sample, problem_id="p", prompt_ids=(1,),
            completion_ids=(2, 0), text="", logprobs=(-1.0, -1.0), finish_reason="eos",
            reward=float(sample) if useful else 1.0, proofs=(b"p",),
        )
        for sample in (0, 1)
    ]  # fmt: skip
    batches.step(step).add(name.encode(), rows)
    batches.advance()


def test_the_open_step_is_the_smallest_that_lacks_rollouts() -> None:
    batches = Batches(first_step=3, wanted=2)
    assert batches.open_step == 3
    fill(batches, 3, "a")
    fill(batches, 3, "a")
    fill(batches, 3, "b", useful=False)
    assert batches.open_step == 3, "neither the same submission twice nor a group without signal fills a batch"
    fill(batches, 4, "c")
    fill(batches, 4, "d")
    assert batches.open_step == 3
    fill(batches, 3, "e")
    assert batches.open_step == 5


async def test_whoever_waits_for_a_step_gets_its_batch_when_it_is_full() -> None:
    batches, got = Batches(first_step=0, wanted=2), []

    async def train() -> None:
        for step in range(2):
            got.append(await batches.wait_full(step))

    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(train)
            fill(batches, 1, "ahead")
            fill(batches, 0, "a")
            await trio.testing.wait_all_tasks_blocked()
            assert got == []
            fill(batches, 0, "b")
            await trio.testing.wait_all_tasks_blocked()
            assert [batch.step for batch in got] == [0]
            assert batches.open_step == 1
            fill(batches, 1, "c")
    assert [(batch.step, len(batch.batch())) for batch in got] == [(0, 2), (1, 2)]
    assert all(isinstance(batch, StepBatch) for batch in got)
