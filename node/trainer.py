"""The trainer: publish the policy, open a step, gather accepted groups, take the optimiser steps, publish the next.

It believes verdicts on the ledger and nothing else. Step s + 1 opens as soon as step s has its batch, so generation
goes on while training runs; workers hold themselves back where their policy would be too old (see `node.worker`).
"""

from __future__ import annotations

import logging
import shutil
import sys
from dataclasses import asdict
from pathlib import Path

import trio

from dht.plan import ContentUnavailable
from ledger.client import Ledger
from ledger.types import Outcome, VerdictGiven
from node.chain import follow_events, on_chain
from node.child import Child, ChildDied, ChildError, ChildTimeout, open_child
from node.config import RunConfig
from node.dhtd_link import NetworkDown
from node.errors import UserError
from node.handover import relay_urls
from node.metrics import MetricsLog
from node.network import Network
from rl.batch import StepBatch
from rl.hardware import thread_environment
from rl.rollouts import RolloutFileInvalid, read_rollouts

log = logging.getLogger(__name__)
START_TIMEOUT_S, TRAIN_TIMEOUT_S, FETCH_TIMEOUT_S = 600.0, 7200.0, 120.0
LINGER_S = 60.0
KEPT_FOLDERS = 2


class Batches:
    """The batches of the steps that are still to be trained, filled from accepted submissions."""

    def __init__(self, *, first_step: int, wanted: int) -> None:
        self._wanted = wanted
        self._steps: dict[int, StepBatch] = {}
        self._filled = trio.Event()
        self.open_step = first_step
        """The smallest step that is still short of rollouts."""

    def step(self, number: int) -> StepBatch:
        return self._steps.setdefault(number, StepBatch(step=number, wanted=self._wanted))

    def advance(self) -> None:
        """Look again which step is the open one, and wake who waits."""
        while self.step(self.open_step).full:
            self.open_step += 1
        self._filled.set()
        self._filled = trio.Event()

    async def wait_full(self, number: int) -> StepBatch:
        while not self.step(number).full:
            await self._filled.wait()
        return self._steps.pop(number)


async def run(
    config: RunConfig,
    ledger: Ledger,
    network: Network,
    metrics: MetricsLog,
    *,
    base: Path,
    data_dir: Path,
) -> Path:
    """Train `rl.steps` steps from the HF folder `base`; returns the folder of the final policy."""
    folder, version, manifest_hash = await _first_policy(config, ledger, network, base=base, data_dir=data_dir)
    batches = Batches(first_step=version, wanted=config.rl.groups_per_step)
    run_state = _RunState(network, batches, version, manifest_hash)
    async with trio.open_nursery() as nursery:
        run_state.announce()
        nursery.start_soon(_gather, config, ledger, network, batches, run_state)
        try:
            async with open_child(
                [sys.executable, "-m", "node.trainer_child"],
                name="trainer",
                log_path=data_dir / "trainer.log",
                env=thread_environment(config.trainer.threads) | {"HF_HUB_OFFLINE": "1"},
            ) as trainer:
                await _start(trainer, config, folder)
                while version < config.rl.steps:
                    folder = await _step(trainer, config, ledger, network, metrics, batches, run_state, data_dir)
                    version += 1
        except (ChildDied, ChildError, ChildTimeout) as fault:
            raise UserError(
                f"the training process failed: {fault}",
                fix=f"start the trainer again; it goes on from policy {version}",
            ) from fault
        await _await_provider(network, run_state.manifest_hash)
        nursery.cancel_scope.cancel()
    log.info("%d steps are done; the final policy is in %s", version, folder)
    return folder


async def _start(trainer: Child, config: RunConfig, folder: Path) -> None:
    started = await trainer.call(
        "start",
        timeout_s=START_TIMEOUT_S,
        folder=str(folder.absolute()),
        recipe=_recipe(config),
        compute_type=config.model.compute_type,
    )
    log.info("trainer ready after %.1f s, computing in %s", started["seconds"], started["compute_type"])


async def _step(
    trainer: Child,
    config: RunConfig,
    ledger: Ledger,
    network: Network,
    metrics: MetricsLog,
    batches: Batches,
    run_state: _RunState,
    data_dir: Path,
) -> Path:
    """Train the step after the current policy and publish what comes of it; returns its folder."""
    step, began = run_state.policy_version, trio.current_time()
    batch = await batches.wait_full(step)
    waited_s = trio.current_time() - began
    target = data_dir / "checkpoints" / f"policy-{step + 1}"
    result = await _train(trainer, batch, target)
    began = trio.current_time()
    run_state.manifest_hash = await _publish(ledger, network, config.ledger.pool_id, target, step + 1)
    run_state.policy_version = step + 1
    run_state.announce()
    _log_step(metrics, batch, result, waited_s, trio.current_time() - began)
    shutil.rmtree(target.with_name(f"policy-{step + 1 - KEPT_FOLDERS}"), ignore_errors=True)
    return target


async def _await_provider(network: Network, manifest_hash: bytes) -> None:
    """Stay until somebody else serves the final policy, so that it outlives this process."""
    with trio.move_on_after(LINGER_S):
        while True:
            try:
                if await network.providers(manifest_hash):
                    return
            except NetworkDown as fault:
                log.warning("cannot ask who serves the final policy: %s", fault)
            await trio.sleep(1.0)
    log.warning("nobody has fetched the final policy within %.0f s", LINGER_S)


class _RunState:
    """What the manager tells everyone: open step, policy version, manifest."""

    def __init__(self, network: Network, batches: Batches, policy_version: int, manifest_hash: bytes) -> None:
        self._network, self._batches = network, batches
        self.policy_version, self.manifest_hash = policy_version, manifest_hash

    def announce(self) -> None:
        self._network.announce_run_state(
            open_step=self._batches.open_step,
            policy_version=self.policy_version,
            manifest_hash=self.manifest_hash,
        )


async def _first_policy(
    config: RunConfig, ledger: Ledger, network: Network, *, base: Path, data_dir: Path
) -> tuple[Path, int, bytes]:
    """The newest policy of this run: the base, published now, or where an earlier process stopped."""
    pool_id = config.ledger.pool_id
    newest = await on_chain(ledger.latest_checkpoint, pool_id)
    if newest is None:
        log.info("publishing the base policy %s", base)
        return base, 0, await _publish(ledger, network, pool_id, base, 0)
    folder = data_dir / "checkpoints" / f"policy-{newest.version}"
    if newest.version == 0:
        folder = base
    if not folder.exists():
        log.info("fetching policy %d, which is not on this disk", newest.version)
        try:
            await network.fetch_checkpoint(newest.manifest_hash, timeout_s=FETCH_TIMEOUT_S, dest=folder)
        except ContentUnavailable as error:
            raise UserError(
                f"policy {newest.version} is neither here nor served: {error}",
                fix="start a relay or validator of this run, or use the trainer's old data folder",
            ) from error
    manifest_hash = await network.publish_checkpoint(folder, newest.version)
    if manifest_hash != newest.manifest_hash:
        raise UserError(
            f"{folder} is not policy {newest.version} as the ledger records it",
            fix="start the trainer with the data folder and the base model of this run, or create a new pool",
        )
    return folder, newest.version, manifest_hash


async def _publish(ledger: Ledger, network: Network, pool_id: int, folder: Path, version: int) -> bytes:
    manifest_hash = await network.publish_checkpoint(folder, version)
    await on_chain(ledger.announce_checkpoint, pool_id, version, manifest_hash)
    return manifest_hash


async def _gather(config: RunConfig, ledger: Ledger, network: Network, batches: Batches, run_state: _RunState) -> None:
    """Every accepted submission into its step's batch, from the ledger's beginning (batches live in memory only)."""
    cursor = ledger.cursor(Path(":memory:"), "trainer")
    rows = config.rl.groups_per_submission * config.rl.group_size
    async for event in follow_events(ledger, cursor):
        if not isinstance(event, VerdictGiven) or event.pool_id != config.ledger.pool_id:
            continue
        submission = await on_chain(ledger.submission, event.submission_id)
        # Steps below the policy's version are trained; a batch that is full takes no more.
        if event.outcome is not Outcome.ACCEPTED or submission.step < batches.open_step:
            continue
        try:
            path = await network.fetch_blob(
                submission.file_hash,
                max_bytes=config.relay.max_submission_bytes,
                timeout_s=FETCH_TIMEOUT_S,
                urls=await relay_urls(ledger, network, config.ledger.pool_id),
            )
            rollouts = await trio.to_thread.run_sync(lambda: read_rollouts(path, max_rows=rows))  # noqa: B023
        except (ContentUnavailable, NetworkDown, RolloutFileInvalid) as fault:
            log.error("an accepted submission of step %d cannot be used: %s", submission.step, fault)
            continue
        batch = batches.step(submission.step)
        batch.add(submission.submission_id, rollouts)
        log.info("step %d has %d of %d groups", batch.step, len(batch.groups), batch.wanted)
        opened = batches.open_step
        batches.advance()
        if batches.open_step != opened:
            log.info("step %d is open", batches.open_step)
            run_state.announce()


async def _train(trainer: Child, batch: StepBatch, target: Path) -> dict[str, float]:
    shutil.rmtree(target, ignore_errors=True)
    result = await trainer.call(
        "train",
        timeout_s=TRAIN_TIMEOUT_S,
        groups=[asdict(group) for group in batch.batch()],
        save_to=str(target.absolute()),
        step=batch.step,
        submissions=[submission_id.hex() for submission_id in batch.used()],
    )
    log.info("step %d trained in %.1f s", batch.step, result["train_s"])
    return result


def _log_step(
    metrics: MetricsLog, batch: StepBatch, result: dict[str, float], waited_s: float, publish_s: float
) -> None:
    metrics.write(
        "step",
        step=batch.step,
        policy_version=batch.step + 1,
        reward=sum(batch.rewards) / len(batch.rewards),
        rollouts=len(batch.rewards),
        advantage_share=len(batch.groups) / batch.seen_groups,
        length_mean=sum(batch.lengths) / len(batch.lengths),
        length_max=max(batch.lengths),
        oldest_policy=min(batch.versions),
        wait_s=round(waited_s, 3),
        publish_s=round(publish_s, 3),
        **result,
    )


def _recipe(config: RunConfig) -> dict[str, float]:
    rl = config.rl
    return {
        "learning_rate": rl.learning_rate,
        "warmup_steps": rl.warmup_steps,
        "optimizer_steps": rl.optimizer_steps,
        "clip_epsilon": rl.clip_epsilon,
        "clip_delta": rl.clip_delta,
        "entropy_coefficient": rl.entropy_coefficient,
        "grad_norm_clip": rl.grad_norm_clip,
        "temperature": rl.temperature,
        "micro_batch_tokens": config.trainer.micro_batch_tokens,
    }
