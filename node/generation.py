"""Generation: one engine at work, one submission after the other, each for the step that is short of rollouts.

Decides which step and counter come next and which policy runs. It never chooses its problems, never works for a step
for which its policy is too old, and makes nothing twice; what becomes of a finished file is the outbox's.
"""

from __future__ import annotations

import logging
import sys
from dataclasses import dataclass
from pathlib import Path

import trio

from ledger.types import Outcome
from node.chain import on_chain
from node.child import Child, ChildError, open_child
from node.config import RunConfig
from node.dhtd_link import NetworkDown
from node.intent import Intent
from node.outbox import Outbox, Stage
from node.place import Place
from node.policies import Policies
from node.pulse import Pulse, newer
from node.spans import Activity, Waits, span
from rl.draw import MAX_SUBMISSIONS, draw_seed
from rl.hardware import thread_environment

log = logging.getLogger(__name__)
LOOK_S = 1.0
START_TIMEOUT_S, SOLVE_TIMEOUT_S = 600.0, 3600.0
PATIENCE_S = 600.0
"""Seconds after which a recorded submission without an outcome holds nobody up any more."""
GIVEN_UP = {
    "RewardFailed": "an answer's worth cannot be computed",
    "PromptTooLong": "a problem leaves no room for its answer",
}
"""Faults of the problems that were drawn, not of the engine, by the kind that `rl` raises."""
UNSENT = 2
"""Finished files that may wait for a relay or the chain while the engine goes on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One submission to make."""

    step: int
    counter: int


def next_step(last_step: int, *, open_step: int, policy_version: int, asynchrony: int, steps: int) -> int | None:
    """The step to work for now: the one still short of rollouts; None where there is nothing to do.

    A run state may be older than what this node knows: to hold policy v means that steps below v are closed, and
    nobody goes back to an earlier step. Nothing is done for a step that is too new for the policy, or past the run.
    """
    step = max(open_step, policy_version, last_step)
    return None if policy_version < step - asynchrony or step >= steps else step


class Generation:
    """Turns work into files. What it did last outlives its engine, so that nothing is made twice."""

    def __init__(self, place: Place, policies: Policies, outbox: Outbox, intent: Intent, pulse: Pulse) -> None:
        self._place, self._policies, self._outbox = place, policies, outbox
        self._intent, self._pulse = intent, pulse
        self._config, self._ledger = place.config, place.ledger
        self._run_id = self._ledger.run_id(place.pool_id)
        self._last_step = 0
        self._given_up: int | None = None
        self._behind = False
        """Whether the last look found the policy too old for the open step."""
        self._recorded_at: dict[bytes, float] = {}
        self.solving = False
        """Whether a submission is under way."""

    async def run(self) -> None:
        """One engine's life: start, then generate and swap until it fails. Raises the errors of `node.child`."""
        async with open_child(
            [sys.executable, "-m", self._config.worker.engine],
            name="engine",
            log_path=self._place.data_dir / "engine.log",
            env=engine_environment(self._config),
        ) as engine:
            await engine.call("prepare", timeout_s=START_TIMEOUT_S, backend=self._config.worker.backend)
            await self._policies.wait_for(lambda: self._policies.newest >= 0)
            loaded = self._policies.newest
            options = _engine_options(self._config, self._policies.folders[loaded], self._place.address)
            started = await engine.call("start", timeout_s=START_TIMEOUT_S, **options)
            log.info(
                "engine ready after %.1f s: %s, computing in %s",
                *(started[name] for name in ("seconds", "backend", "compute_type")),
            )
            self._place.metrics.write("engine", **started)
            with (waits := Waits(self._place.metrics)).kept():
                while True:
                    loaded = await self._look(engine, loaded, waits)

    async def _look(self, engine: Child, loaded: int, waits: Waits) -> int:
        """Swap, make one submission, or wait a little; returns the policy that runs then."""
        if self._policies.newest > loaded:
            waits.over()
            return await self._swap(engine)
        self._behind = False
        work = await self._next(loaded) if self._intent.takes_work else None
        if work is None:
            waits.on(Activity.WAITING_FOR_POLICY if self._behind else Activity.IDLE)
            await trio.sleep(LOOK_S)
        elif await self._count_unjudged() > self._config.worker.max_unjudged:
            waits.on(Activity.WAITING_FOR_VERDICTS)
            await trio.sleep(LOOK_S)
        elif len(self._outbox.unsent()) > UNSENT:
            waits.on(Activity.UPLOADING)
            await self._outbox.changed()
        elif self._policies.newest == loaded:  # else one came while the ledger was asked: that one first
            waits.over()
            self._last_step = self._pulse.step = work.step
            await self._make(engine, work, loaded)
        return loaded

    async def _make(self, engine: Child, work: Work, policy_version: int) -> None:
        if self._intent.draining:  # seen while the chain was asked
            return
        self.solving = True
        try:
            path = await self._solve(engine, work, policy_version)
        except ChildError as fault:
            if fault.kind not in GIVEN_UP:
                raise
            # The seed would draw the same problems and tokens again, and the ledger lets no counter be left out.
            log.error("step %d is given up, since %s: %s", work.step, GIVEN_UP[fault.kind], fault.message)
            self._place.metrics.write("given-up", step=work.step, counter=work.counter, fault=fault.message)
            self._given_up = work.step
        else:
            self._outbox.add(work.step, work.counter, path)
        finally:
            self.solving = False

    async def _next(self, policy_version: int) -> Work | None:
        state = self._pulse.run_state
        try:
            state = newer(state, await self._place.network.run_state())
        except NetworkDown as fault:
            log.warning("no run state from the directory for now: %s", fault)
        rl = self._config.rl
        step = state and next_step(
            self._last_step,
            open_step=state.open_step,
            policy_version=policy_version,
            asynchrony=rl.asynchrony,
            steps=rl.steps,
        )
        if step is None or step == self._given_up:
            self._behind = step is None and state is not None and policy_version < state.open_step < rl.steps
            return None
        made = max((item.counter for item in self._outbox.items() if item.step == step), default=-1)
        recorded = await on_chain(self._ledger.next_counter, self._place.pool_id, self._place.address, step)
        counter = max(made + 1, recorded)
        return Work(step=step, counter=counter) if counter < MAX_SUBMISSIONS else None

    async def _count_unjudged(self) -> int:
        """Own submissions that still wait for their verdict: more of them would only make validators late."""
        for item in self._outbox.items():
            if item.stage is not Stage.RECORDED:
                continue
            submission_id = self._ledger.submission_id(
                self._place.pool_id, item.step, item.counter, self._place.address
            )
            docket = await on_chain(self._ledger.docket, submission_id)
            since = self._recorded_at.setdefault(submission_id, trio.current_time())
            if (docket and docket.outcome is not Outcome.PENDING) or trio.current_time() > since + PATIENCE_S:
                del self._recorded_at[submission_id]
                self._outbox.done(item)
        return len(self._outbox.items())

    async def _solve(self, engine: Child, work: Work, policy_version: int) -> Path:
        path = self._place.data_dir / "submissions" / f"{work.step}-{work.counter}.parquet"
        seed = draw_seed(self._run_id, work.step, self._place.address, work.counter)
        with span(self._place.metrics, Activity.GENERATING, work.step):
            made = await engine.call(
                "solve",
                timeout_s=SOLVE_TIMEOUT_S,
                path=str(path),
                step=work.step,
                policy_version=policy_version,
                counter=work.counter,
                draw_seed=seed,
                groups=self._config.rl.groups_per_submission,
                samples=self._config.rl.group_size,
                seeded=self._config.rl.seeded,
            )
        self._place.metrics.write(
            "generated", step=work.step, counter=work.counter, policy_version=policy_version, **made
        )
        return path

    async def _swap(self, engine: Child) -> int:
        version = self._policies.newest
        folder = self._policies.folders[version]
        with span(self._place.metrics, Activity.SWAPPING):
            swapped = await engine.call("load", timeout_s=START_TIMEOUT_S, folder=str(folder.absolute()))
        log.info("policy %d runs after %.1f s", version, swapped["seconds"])
        self._place.metrics.write("swap", version=version, **swapped)
        return version


def engine_environment(config: RunConfig) -> dict[str, str]:
    """Settings that vLLM and torch read when they are imported."""
    return thread_environment(config.worker.threads) | {
        "VLLM_CPU_KVCACHE_SPACE": str(config.worker.kv_cache_gib),
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_LOGGING_LEVEL": "WARNING",
        "HF_HUB_OFFLINE": "1",
    }


def _engine_options(config: RunConfig, folder: Path, address: str) -> dict[str, object]:
    return {
        "folder": str(folder.absolute()),
        "task": config.task.name,
        "system_prompt": config.task.system_prompt or None,
        "length_targets": config.task.length_targets,
        "length_alpha": config.task.length_alpha,
        "max_model_len": config.model.max_model_len,
        "max_new_tokens": config.task.max_new_tokens,
        "sampling": {"temperature": config.rl.temperature, "top_k": config.rl.top_k, "top_p": config.rl.top_p},
        "compute_type": config.model.compute_type,
        # Where no seed is dictated two workers must not sample alike; the address tells them apart.
        "seed": int(address, 16) % 2**31,
    }
