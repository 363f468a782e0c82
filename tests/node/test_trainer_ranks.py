"""Two training processes are one trainer: same update, same files, one end. Real processes, a tiny random model."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
import torch
from safetensors.torch import load_file

from benchmarks.learning.ranks import CASES, apart, make_groups, make_model, start, train, training_process, update
from node.child import Child, ChildDied, ChildError
from rl.state_files import TENSORS
from tests.node.test_child import gone, poll

ROOT = Path(__file__).resolve().parents[2]
ROUNDING = 2e-6
"""Of sums in float32 in another order, relative; seen up to 4e-7."""
RECIPE = CASES["micro-batches for all"]


def ranks_of(pid: int) -> dict[int, int]:
    """Rank → pid of the training processes that the agent `pid` has started."""
    return {int(each.environ()["RANK"]): each.pid for each in psutil.Process(pid).children()}


def loopback_only(pid: int) -> bool:
    return all(each.laddr.ip == "127.0.0.1" for each in psutil.Process(pid).net_connections("inet"))


async def second_step(child: Child, made: Path, out: Path) -> dict[str, torch.Tensor]:
    """State 2 of training on from policy and state 1 in `made`, whoever made them."""
    await start(child, made / "policy-1", RECIPE)
    await child.call("load_state", timeout_s=60, folder=str(made / "state-1"), version=1)
    await train(child, make_groups(8), out, 1)
    return load_file(out / "state-2" / TENSORS)


async def test_two_ranks_train_as_one_and_die_as_one(tmp_path: Path) -> None:
    base, one_out, two_out = make_model(tmp_path / "policy-0"), tmp_path / "one", tmp_path / "two"
    async with training_process(2, two_out) as two, training_process(1, one_out) as one:
        for case in ("activations computed again", "one micro-batch, the others idle", "micro-batches for all"):
            alone, together = await update(one, base, case, one_out), await update(two, base, case, two_out)
            assert apart(alone, together) < ROUNDING, case
            assert any(gradient.any() for gradient in together.gradient.values())
        with pytest.raises(ChildError, match=r"StateInvalid.*goes with policy 1, not 3"):
            await two.call("load_state", timeout_s=60, folder=str(one_out / "state-1"), version=3)
        # The state of the one is the other's, both ways; moments and all.
        on, again = await second_step(two, one_out, tmp_path / "a"), await second_step(one, one_out, tmp_path / "b")
        assert on.keys() == again.keys()
        for name in on:
            torch.testing.assert_close(on[name], again[name], rtol=1e-4, atol=1e-6, msg=lambda m, n=name: f"{n}: {m}")
        assert (await second_step(one, two_out, tmp_path / "c")).keys() == on.keys()

        ranks = ranks_of(two.pid)
        assert sorted(ranks) == [0, 1]
        assert all(loopback_only(pid) for pid in (two.pid, *ranks.values()))
        os.kill(ranks[1], signal.SIGKILL)
        with pytest.raises(ChildDied, match="rank 1 of 2 ended with SIGKILL; the others were ended"):
            await train(two, make_groups(9), two_out, 2)
        await poll(lambda: all(gone(pid) for pid in (two.pid, *ranks.values())))
        assert one.alive
        assert not (two_out / "ranks").exists()
        assert not (two_out / "policy-3").exists()


PARENT = """
import subprocess, sys, threading
child = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdout=subprocess.PIPE, start_new_session=True)
child.stdout.readline()
print(child.pid, flush=True)
threading.Event().wait()
"""
RANK = """
import threading
from node.rank_calls import die_with_parent
die_with_parent()
print("ready", flush=True)
threading.Event().wait()
"""


async def test_a_rank_does_not_outlive_who_started_it() -> None:
    """torchrun's agent gives each rank a session of its own, so that killing the agent's group leaves them alive."""
    with subprocess.Popen([sys.executable, "-c", PARENT, RANK], cwd=ROOT, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        orphan = int(parent.stdout.readline())
        assert not gone(orphan)
        parent.kill()
        await poll(lambda: gone(orphan))
