"""The worker: read the run state, solve the dictated problems with the newest policy, hand in, record, repeat.

It never chooses its problems and never works for a step for which its policy is too old: then it waits. What it has
generated is handed in and recorded exactly once, also across restarts: the outbox keeps it until its outcome is known,
the ledger knows the next counter and takes no other. What was made before an ejection waits for the next invite.
"""

from __future__ import annotations

import logging
import sys
from dataclasses import dataclass
from pathlib import Path

import trio

from ledger.client import Ledger
from ledger.errors import Reverted
from ledger.types import Outcome
from node.chain import on_chain
from node.child import Child, ChildDied, ChildError, ChildTimeout, open_child
from node.config import RunConfig
from node.dhtd_link import NetworkDown
from node.handover import hand_over
from node.intent import Intent
from node.membership import Admission, raise_if_blacklisted
from node.metrics import MetricsLog
from node.network import Network
from node.order_desk import OrderDesk
from node.outbox import Item, Outbox, Stage
from node.policies import Policies
from node.pulse import Pulse, newer
from node.state import NodeState
from node.streams import Peer
from rl.draw import MAX_SUBMISSIONS, draw_problems, draw_seed
from rl.hardware import thread_environment
from rl.tasks import load_task

log = logging.getLogger(__name__)
LOOK_S = 1.0
START_TIMEOUT_S, SOLVE_TIMEOUT_S = 600.0, 3600.0
RESTART_FIRST_S, RESTART_LAST_S = 2.0, 60.0
PATIENCE_S = 600.0
"""Seconds after which a recorded submission without an outcome holds nobody up any more."""
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


async def run(
    config: RunConfig,
    ledger: Ledger,
    peer: Peer,
    network: Network,
    policies: Policies,
    metrics: MetricsLog,
    admission: Admission,
    state: NodeState,
    intent: Intent,
    pulse: Pulse,
    desk: OrderDesk,
    *,
    address: str,
    data_dir: Path,
) -> None:
    """Work until cancelled, or until told to drain and everything is handed in. Raises Blacklisted."""
    outbox = Outbox(state, data_dir / "submissions")
    generation = _Generation(
        config, ledger, network, policies, metrics, outbox, intent, pulse, address=address, data_dir=data_dir
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: policies.follow(behind=0))
        nursery.start_soon(_hand_in, config, ledger, peer, network, metrics, admission, address, outbox)
        await _generate(generation, intent, desk)
        while outbox.unsent():
            await outbox.changed()
        nursery.cancel_scope.cancel()


async def _generate(generation: _Generation, intent: Intent, desk: OrderDesk) -> None:
    """Keep an engine at work, started again whenever it failed or the manager asks for it, until told to drain."""
    delay_s = RESTART_FIRST_S
    async with trio.open_nursery() as nursery:

        async def stop_between_submissions() -> None:
            await intent.wait_draining()
            while generation.solving:
                await trio.sleep(LOOK_S)
            nursery.cancel_scope.cancel()

        nursery.start_soon(stop_between_submissions)
        while True:
            began = trio.current_time()
            try:
                with trio.CancelScope() as engine_scope:
                    desk.restart_engine = engine_scope.cancel
                    await generation.run()
            except (ChildDied, ChildError, ChildTimeout) as fault:
                delay_s = RESTART_FIRST_S if trio.current_time() - began > RESTART_LAST_S else delay_s
                log.error("the engine failed, starting it again in %.0f s: %s", delay_s, fault)
                await trio.sleep(delay_s)
                delay_s = min(2 * delay_s, RESTART_LAST_S)


class _Generation:
    """Turns work into files. What it did last outlives its engine, so that nothing is made twice."""

    def __init__(
        self,
        config: RunConfig,
        ledger: Ledger,
        network: Network,
        policies: Policies,
        metrics: MetricsLog,
        outbox: Outbox,
        intent: Intent,
        pulse: Pulse,
        *,
        address: str,
        data_dir: Path,
    ) -> None:
        self._config, self._ledger, self._network = config, ledger, network
        self._policies, self._metrics, self._outbox = policies, metrics, outbox
        self._intent, self._pulse = intent, pulse
        self._address, self._data_dir = address, data_dir
        self._task, self._run_id = load_task(config.task.name), ledger.run_id(config.ledger.pool_id)
        self._last: Work | None = None
        self._last_step = 0
        self._recorded_at: dict[bytes, float] = {}
        self.solving = False
        """Whether a submission is under way."""

    async def run(self) -> None:
        """One engine's life: start, then generate and swap until it fails. Raises the errors of `node.child`."""
        async with open_child(
            [sys.executable, "-m", self._config.worker.engine],
            name="engine",
            log_path=self._data_dir / "engine.log",
            env=engine_environment(self._config),
        ) as engine:
            await engine.call("prepare", timeout_s=START_TIMEOUT_S)
            await self._policies.wait_for(lambda: self._policies.newest >= 0)
            loaded = self._policies.newest
            options = _engine_options(self._config, self._policies.folders[loaded], self._address)
            started = await engine.call("start", timeout_s=START_TIMEOUT_S, **options)
            log.info("engine ready after %.1f s, computing in %s", started["seconds"], started["compute_type"])
            self._metrics.write("engine", **started)
            while True:
                if self._policies.newest > loaded:
                    loaded = await self._swap(engine)
                work = await self._next(loaded) if self._intent.takes_work else None
                if work is None or await self._count_unjudged() > self._config.worker.max_unjudged:
                    await trio.sleep(LOOK_S)
                    continue
                while len(self._outbox.unsent()) > UNSENT:
                    await self._outbox.changed()
                self._last_step = self._pulse.step = work.step
                await self._make(engine, work, loaded)

    async def _make(self, engine: Child, work: Work, policy_version: int) -> None:
        if self._intent.draining:  # seen while the chain was asked
            return
        self.solving = True
        try:
            path = await self._solve(engine, work, policy_version)
            self._outbox.add(work.step, work.counter, path)
        finally:
            self.solving = False

    async def _next(self, policy_version: int) -> Work | None:
        state = self._pulse.run_state
        try:
            state = newer(state, await self._network.run_state())
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
        if step is None:
            return None
        made = max((item.counter for item in self._outbox.items() if item.step == step), default=-1)
        recorded = await on_chain(self._ledger.next_counter, self._config.ledger.pool_id, self._address, step)
        counter = max(made + 1, recorded)
        return Work(step=step, counter=counter) if counter < MAX_SUBMISSIONS else None

    async def _count_unjudged(self) -> int:
        """Own submissions that still wait for their verdict: more of them would only make validators late."""
        for item in self._outbox.items():
            if item.stage is not Stage.RECORDED:
                continue
            submission_id = self._ledger.submission_id(
                self._config.ledger.pool_id, item.step, item.counter, self._address
            )
            docket = await on_chain(self._ledger.docket, submission_id)
            since = self._recorded_at.setdefault(submission_id, trio.current_time())
            if (docket and docket.outcome is not Outcome.PENDING) or trio.current_time() > since + PATIENCE_S:
                del self._recorded_at[submission_id]
                self._outbox.done(item)
        return len(self._outbox.items())

    async def _solve(self, engine: Child, work: Work, policy_version: int) -> Path:
        path = self._data_dir / "submissions" / f"{work.step}-{work.counter}.parquet"
        seed = draw_seed(self._run_id, work.step, self._address, work.counter)
        made = await engine.call(
            "solve",
            timeout_s=SOLVE_TIMEOUT_S,
            path=str(path),
            step=work.step,
            policy_version=policy_version,
            counter=work.counter,
            problems=list(draw_problems(seed, self._config.rl.groups_per_submission, self._task.size)),
            samples=self._config.rl.group_size,
        )
        self._metrics.write("generated", step=work.step, counter=work.counter, policy_version=policy_version, **made)
        return path

    async def _swap(self, engine: Child) -> int:
        version = self._policies.newest
        folder = self._policies.folders[version]
        swapped = await engine.call("load", timeout_s=START_TIMEOUT_S, folder=str(folder.absolute()))
        log.info("policy %d runs after %.1f s", version, swapped["seconds"])
        self._metrics.write("swap", version=version, **swapped)
        return version


async def _hand_in(
    config: RunConfig,
    ledger: Ledger,
    peer: Peer,
    network: Network,
    metrics: MetricsLog,
    admission: Admission,
    address: str,
    outbox: Outbox,
) -> None:
    """Hand each finished file to a relay, then record it; a file whose step has passed is still recorded (late)."""
    pool_id = config.ledger.pool_id

    async def to_relay(path: Path) -> bytes:
        timeout_s = config.network.request_timeout_s
        return await hand_over(ledger, peer, network, path, pool_id=pool_id, address=address, timeout_s=timeout_s)

    async def record(item: Item) -> bool:
        if not await _record(ledger, admission, pool_id, item, address):
            return False
        log.info("handed in submission %d of step %d", item.counter, item.step)
        metrics.write("submitted", step=item.step, counter=item.counter, file_hash=item.sha256.hex())
        return True

    while True:
        for item in outbox.unsent():
            await outbox.send(item, hand_over=to_relay, record=record)
        if not outbox.unsent():
            await outbox.changed()


async def _record(ledger: Ledger, admission: Admission, pool_id: int, item: Item, address: str) -> bool:
    """Put the file on the ledger, as soon as this node is a member; False if it is refused. Raises Blacklisted."""
    while True:
        try:
            await on_chain(ledger.submit, pool_id, item.step, item.counter, [item.sha256])
        except Reverted as fault:
            raise_if_blacklisted(await on_chain(ledger.member, pool_id, address), pool_id)
            if fault.error_name != "NotActiveMember":
                log.error("the ledger refused submission %d of step %d: %s", item.counter, item.step, fault)
                return False
            log.warning("this node is no member at the moment: its work waits until it is invited again")
            await admission.wait()
        else:
            return True


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
        "max_model_len": config.model.max_model_len,
        "max_new_tokens": config.task.max_new_tokens,
        "temperature": config.rl.temperature,
        "compute_type": config.model.compute_type,
        # Two workers of one machine must not sample alike; the address tells them apart.
        "seed": int(address, 16) % 2**31,
    }
