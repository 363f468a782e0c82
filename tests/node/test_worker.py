"""What a worker does next, and the settings that its engine starts with."""

from __future__ import annotations

import pytest

from node.config import RunConfig
from node.worker import Work, engine_environment, next_work
from rl.draw import MAX_SUBMISSIONS


def work(step: int, counter: int) -> Work:
    return Work(step=step, counter=counter)


@pytest.mark.parametrize(
    ("last", "open_step", "policy_version", "asynchrony", "expected"),
    [
        (None, 0, 0, 2, work(0, 0)),
        (work(0, 0), 0, 0, 2, work(0, 1)),
        (work(0, 7), 1, 0, 2, work(1, 0)),
        (work(1, 3), 2, 0, 2, work(2, 0)),
        # The policy is too old for the open step: wait.
        (work(2, 3), 3, 0, 2, None),
        (None, 3, 0, 2, None),
        (None, 1, 0, 0, None),
        (None, 1, 1, 0, work(1, 0)),
        # A run state from yesterday: policy 4 says that steps 0 to 3 are closed.
        (None, 2, 4, 2, work(4, 0)),
        # Nobody goes back to an earlier step, whatever the directory says meanwhile.
        (work(5, 1), 3, 4, 2, work(5, 2)),
        (work(7, 0), 3, 4, 2, None),
        # As many submissions as a step takes from one worker.
        (work(4, MAX_SUBMISSIONS - 2), 4, 4, 2, work(4, MAX_SUBMISSIONS - 1)),
        (work(4, MAX_SUBMISSIONS - 1), 4, 4, 2, None),
        (work(4, MAX_SUBMISSIONS - 1), 5, 4, 2, work(5, 0)),
        # The run has 10 steps.
        (None, 9, 9, 2, work(9, 0)),
        (None, 10, 9, 2, None),
        (None, 9, 10, 2, None),
    ],
)
def test_next_work(
    last: Work | None, open_step: int, policy_version: int, asynchrony: int, expected: Work | None
) -> None:
    found = next_work(last, open_step=open_step, policy_version=policy_version, asynchrony=asynchrony, steps=10)
    assert found == expected


def test_the_engine_reads_its_settings_from_the_environment() -> None:
    settings = engine_environment(RunConfig.model_validate({"worker": {"threads": 3, "kv_cache_gib": 2}}))
    assert settings["OMP_NUM_THREADS"] == "3"
    assert settings["VLLM_CPU_KVCACHE_SPACE"] == "2"
    assert settings["VLLM_ENABLE_V1_MULTIPROCESSING"] == "0", "the states are read in the engine's own process"
    assert settings["HF_HUB_OFFLINE"] == "1"
