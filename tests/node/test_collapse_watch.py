"""What a trainer tells of its own learning, and that a run which is stopped keeps the policy before."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio.testing

from node import trainer
from node.batches import Batches
from node.collapse_watch import QUIET_STEPS, Collapsed, CollapseWatch
from node.config import parse_config
from node.metrics import MetricsLog, MetricsTail
from node.processes import FINAL_STATUSES
from node.resume import Position
from node.watchdog import Watchdog
from rl.watch import Sign
from tests.node.test_batches import fill


def metric(step: int, reward: float, **more: float) -> dict[str, Any]:
    return {"kind": "step", "step": step, "reward": reward, "grad_norm": 1.0, "entropy": 1.0, "clip_ratio": 0.0} | more


GOOD = [metric(step, 0.6 + 0.01 * (step % 3)) for step in range(12)]


def told(path: Path, kind: str = "warning") -> list[tuple[int, str]]:
    return [(line["step"], line["told"]) for line in MetricsTail(path).read() if line["kind"] == kind]


def test_a_sign_is_told_once_and_again_when_it_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    watch = CollapseWatch(MetricsLog(path), stop=False)
    rewards = [0.6] * 12 + [0.2] * 4 + [0.6] * 6 + [0.2] * 3 + [0.6] * (QUIET_STEPS + 9) + [0.2] * 3
    stood = [step for step, reward in enumerate(rewards) if watch.see(metric(step, reward))]
    told_at = [step for step, _ in told(path)]
    assert told_at == [13, len(rewards) - 2], "a dip soon after the first is the same trouble"
    assert set(told_at) < set(stood)
    assert told(path)[0][1].startswith("reward fell from 0.6 to 0.2 since step 12; go on from a policy before")


def test_it_remembers_over_a_restart_and_a_step_trained_again_replaces_its_earlier_self(tmp_path: Path) -> None:
    bad = [metric(12, 0.2), metric(13, 0.2)]
    watch = CollapseWatch(MetricsLog(tmp_path / "a"), stop=False, earlier=[{"kind": "life"}, *GOOD, *bad])
    assert watch.see(metric(12, 0.6)) == ()
    assert watch.see(metric(13, 0.2)) == ()
    (warning,) = watch.see(metric(14, 0.2))
    assert (warning.sign, warning.began, warning.seen) == (Sign.REWARD, 13, 14)


def test_a_run_that_is_to_stop_stops_with_where_it_began_and_how_to_go_on(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    watch = CollapseWatch(MetricsLog(path), stop=True, earlier=GOOD)
    assert watch.see(metric(12, 0.2)) == ()
    with pytest.raises(Collapsed) as fault:
        watch.see(metric(13, 0.2))
    assert "step 13 shows it, it began at step 12. Policy 13 stays the newest" in fault.value.message
    assert "goes on from policy 13" in fault.value.fix
    assert [step for step, _ in told(path, "collapse")] == [13]
    assert fault.value.exit_code in FINAL_STATUSES, "no supervisor starts it again into the same wall"


class Training:
    """Trains in no time; `rewards` are those of the batches."""

    def path(self, version: int) -> Path:
        return Path(f"policy-{version}")

    async def train(self, batch: Any, target: Path) -> dict[str, float]:
        return {"grad_norm": 1.0, "clip_ratio": 0.0, "entropy": 1.0, "train_s": 0.0, "save_s": 0.0}

    async def save_state(self, version: int) -> None: ...


class Publication:
    def __init__(self) -> None:
        self.published: list[int] = []

    async def publish(self, folder: Path, version: int) -> Position:
        self.published.append(version)
        return Position(version=version, folder=folder, manifest_hash=b"m" * 32)


async def test_the_policy_that_shows_the_collapse_is_never_published(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    path = tmp_path / "metrics.jsonl"
    metrics, batches, publication = MetricsLog(path), Batches(first_step=0, wanted=1), Publication()
    place: Any = SimpleNamespace(metrics=metrics, config=parse_config("", overrides=("task.max_new_tokens=2",)))
    watchdog, collapse = Watchdog(batches, metrics, pool_id=1), CollapseWatch(metrics, stop=True)

    async def run() -> None:
        training: Any = Training()
        for step in range(20):
            fill(batches, step, f"{step} useful")
            for number in range(4):  # all right until step 10, all wrong from there
                batches.step(step).rewards.extend([1.0 if step < 10 else 0.0] * 2)
                batches.step(step).lengths.extend([1 + number % 2] * 2)
            await trainer._step(place, training, publication, batches, step, watchdog, collapse)  # type: ignore[arg-type]

    with pytest.raises(Collapsed):
        await run()
    assert publication.published == list(range(1, 12)), "policies 1 to 11, of steps 0 to 10"
    lines = MetricsTail(path).read()
    steps = [line for line in lines if line["kind"] == "step"]
    assert [line["step"] for line in steps] == list(range(11))
    assert steps[0]["limit_share"] == 0.6, "four of eight and both of the batch's own"
    spans = [(line["activity"], line["step"]) for line in lines if line["kind"] == "span"]
    assert spans[-2:] == [("waiting for rollouts", 11), ("training", 11)]
