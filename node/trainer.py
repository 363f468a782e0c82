"""The trainer: hold the lease, publish the policy, open a step, gather accepted groups, train, publish the next.

While another trainer holds the lease it stands by: it fetches each policy, the trainer's state and the accepted
rollouts, and goes on when the lease lapses. It believes outcomes on the ledger and nothing else. Step s + 1 opens as
soon as step s has its batch, so generation goes on while training runs; workers hold themselves back where their
policy would be too old (see `node.generation`).
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, NoReturn

import trio

from dht.records import RunStateRecord
from ledger.client import Ledger
from ledger.errors import Reverted
from node.batches import Batches, Gathering, bounds_of
from node.chain import on_chain
from node.child import ChildDied, ChildError, ChildTimeout, open_child
from node.collapse_watch import CollapseWatch
from node.deltas import DeltaMaker
from node.dhtd_link import NetworkDown
from node.errors import DiskFull, UserError
from node.lease import Lease
from node.metrics import METRICS_FILE, MetricsTail
from node.model import vocabulary_of
from node.network import Network
from node.overseer import Overseer
from node.place import Place
from node.policies import Policies
from node.resume import Position, Resume
from node.spans import Activity
from node.states import States
from node.training import Training, trainer_argv
from node.watchdog import Watchdog
from rl.batch import StepBatch
from rl.hardware import thread_environment

log = logging.getLogger(__name__)
LINGER_S = 60.0
KEPT_BEHIND = 2
"""Policies that a standby fetches although newer ones exist: it may have to train a step again from them."""


async def run(place: Place, overseer: Overseer, *, base: Path) -> None:
    """Train `rl.steps` steps from the HF folder `base`, or be there if another cannot. Raises Fenced."""
    config, ledger, network, data_dir = place.config, place.ledger, place.network, place.data_dir
    pool_id, steps = place.pool_id, config.rl.steps
    newest = await on_chain(ledger.latest_checkpoint, pool_id)
    batches = Batches(
        first_step=newest.version if newest else 0,
        wanted=config.rl.groups_per_step,
        bounds=bounds_of(config, vocabulary_of(base)),
        online_filter=config.rl.online_filter,
    )
    gathering = Gathering(config, ledger, network, batches, place.metrics)
    policies = Policies(ledger, network, place.metrics, pool_id=pool_id, serve=True, by_delta=config.network.deltas)
    lease = Lease(ledger, pool_id=pool_id, address=place.address)
    states = States(network, data_dir / "states", me=place.address)
    try:
        async with (
            open_child(
                trainer_argv(config.trainer.ranks, data_dir / "ranks"),
                name="trainer",
                log_path=data_dir / "trainer.log",
                env=thread_environment(config.trainer.threads) | {"HF_HUB_OFFLINE": "1"},
            ) as child,
            trio.open_nursery() as nursery,
        ):
            training = Training(child, config, states, data_dir / "checkpoints")
            nursery.start_soon(gathering.run)
            nursery.start_soon(training.prepare)
            if await _stand_by(lease, policies, states, batches, steps):
                nursery.start_soon(lease.keep)
                nursery.start_soon(overseer.run)
                deltas = DeltaMaker(network, wanted=config.network.deltas)
                publication = _Publication(pool_id, ledger, network, lease, batches, states, deltas)
                nursery.start_soon(deltas.run, publication.run_state)
                resume = Resume(
                    ledger, network, training, policies, states, gathering,
                    pool_id=pool_id, base=base, announce=publication.on_ledger,
                )  # fmt: skip
                await _train(place, batches, states, training, publication, resume)
            nursery.cancel_scope.cancel()
    except* (ChildDied, ChildError, ChildTimeout) as faults:
        fault: BaseException = faults
        while isinstance(fault, BaseExceptionGroup):
            fault = fault.exceptions[0]
        raise told_of(fault, data_dir) from faults


def told_of(fault: BaseException, data_dir: Path) -> UserError:
    """What a person is told when the training process failed or died."""
    if DiskFull.is_cause_of(fault):
        return DiskFull(
            f"the disk is full, and what the training process was writing is not kept: {fault}",
            fix=f"free space for {data_dir}, then start the trainer again; it goes on from the policy before",
        )
    return UserError(
        f"the training process failed: {fault}", fix="start the trainer again; it goes on where it stopped"
    )


async def _stand_by(lease: Lease, policies: Policies, states: States, batches: Batches, steps: int) -> bool:
    """Until the lease is ours (True), or the run's last policy is here (False)."""

    async def forget_trained() -> None:
        while not policies.has(steps):
            known = policies.newest
            await policies.wait_for(lambda: policies.newest > known)  # noqa: B023
            batches.trained(policies.newest)
        log.info("the run is done; its last policy is in %s", policies.folders[policies.newest])
        nursery.cancel_scope.cancel()

    await states.find()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: policies.follow(behind=KEPT_BEHIND))
        nursery.start_soon(states.follow, policies)
        nursery.start_soon(forget_trained)
        await lease.acquire()
        nursery.cancel_scope.cancel()
    return lease.epoch is not None


async def _train(
    place: Place, batches: Batches, states: States, training: Training, publication: _Publication, resume: Resume
) -> None:
    """From the newest policy to the last one, which somebody else then serves as well. Raises Collapsed."""
    at = await resume.run()
    batches.trained(at.version)
    publication.policy(at)
    watchdog = Watchdog(batches, place.metrics, pool_id=place.pool_id)
    earlier = MetricsTail(place.data_dir / METRICS_FILE).read()
    collapse = CollapseWatch(place.metrics, stop=place.config.rl.stop_on_collapse, earlier=earlier)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watchdog.follow, place.ledger)
        nursery.start_soon(watchdog.run)
        nursery.start_soon(publication.follow_open_step)
        nursery.start_soon(publication.follow_lease)
        nursery.start_soon(states.share, publication.run_state)
        while at.version < place.config.rl.steps:
            at = await _step(place, training, publication, batches, at.version, watchdog, collapse)
        await _await_provider(place.network, at.manifest_hash)
        nursery.cancel_scope.cancel()
    log.info("%d steps are done; the final policy is in %s", at.version, at.folder)


async def _step(
    place: Place, training: Training, publication: _Publication, batches: Batches, step: int, watchdog: Watchdog,
    collapse: CollapseWatch,
) -> Position:  # fmt: skip
    """Train the step after the current policy and publish what comes of it, while its state is written."""
    began = trio.current_time()
    with watchdog.phase(Activity.WAITING_FOR_ROLLOUTS, step):
        batch = await batches.wait_full(step)
    waited_s = trio.current_time() - began
    with watchdog.phase(Activity.TRAINING, step):
        result = await training.train(batch, training.path(step + 1))
    shown = _shown(batch, result, longest=place.config.task.max_new_tokens)
    collapse.see(shown)
    with watchdog.phase(Activity.PUBLISHING, step):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(training.save_state, step + 1)
            began = trio.current_time()
            at = await publication.publish(training.path(step + 1), step + 1)
            publish_s = trio.current_time() - began
    batches.trained(step + 1)
    place.metrics.write("step", **shown, wait_s=round(waited_s, 3), publish_s=round(publish_s, 3))
    return at


class _Publication:
    """What this trainer says as the manager, on the ledger and in its run state; silent without its lease."""

    def __init__(
        self, pool_id: int, ledger: Ledger, network: Network, lease: Lease, batches: Batches, states: States,
        deltas: DeltaMaker,
    ) -> None:  # fmt: skip
        self._pool_id, self._ledger, self._network = pool_id, ledger, network
        self._lease, self._batches, self._states, self._deltas = lease, batches, states, deltas
        self._at: Position | None = None

    async def publish(self, folder: Path, version: int) -> Position:
        """Serve the policy in `folder`, put it on the ledger, and tell everyone. Raises Fenced."""
        manifest_hash = await self._network.content.publish_checkpoint(folder, version)
        if await self._deltas.make_first(version):
            self.run_state()  # whoever reads of the policy on the ledger then knows of the delta
        await self.on_ledger(version, manifest_hash)
        at = Position(version=version, folder=folder, manifest_hash=manifest_hash)
        self.policy(at)
        return at

    async def on_ledger(self, version: int, manifest_hash: bytes) -> None:
        """Announce a policy, once the lease is surely ours. Raises Fenced."""
        await self._lease.wait_sure()
        try:
            await on_chain(self._ledger.announce_checkpoint, self._pool_id, version, manifest_hash)
        except Reverted as refused:
            if refused.error_name in ("NotManager", "WrongVersion"):  # another manages, or has gone on meanwhile
                raise self._lease.fenced() from refused
            raise

    def policy(self, at: Position) -> None:
        """This is the newest policy now."""
        self._at = at
        self.run_state()

    def run_state(self) -> None:
        """Tell everyone open step, policy and state, under our lease."""
        if self._at is None or self._lease.epoch is None or not self._lease.sure:
            return
        self._network.announce_run_state(
            RunStateRecord(
                epoch=self._lease.epoch,
                open_step=self._batches.open_step,
                policy_version=self._at.version,
                manifest_hash=self._at.manifest_hash,
                state_hash=self._states.shared,
                deltas=self._deltas.links,
            )
        )

    async def follow_open_step(self) -> NoReturn:
        """Say it whenever another step is open."""
        open_step = self._batches.open_step
        while True:
            open_step = await self._batches.wait_opened(open_step)
            log.info("step %d is open", open_step)
            self.run_state()

    async def follow_lease(self) -> NoReturn:
        """Fall silent while the lease may be another's; speak again once it is surely ours."""
        while True:
            await self._lease.wait_unsure()
            log.warning("the lease could not be renewed in time: this trainer publishes nothing for now")
            self._network.withdraw_run_state()
            await self._lease.wait_sure()
            self.run_state()


async def _await_provider(network: Network, manifest_hash: bytes) -> None:
    """Stay until somebody else serves the final policy, so that it outlives this process."""
    with trio.move_on_after(LINGER_S):
        while True:
            try:
                if await network.content.providers(manifest_hash):
                    return
            except NetworkDown as fault:
                log.warning("cannot ask who serves the final policy: %s", fault)
            await trio.sleep(1.0)
    log.warning("nobody has fetched the final policy within %.0f s", LINGER_S)


def _shown(batch: StepBatch, result: dict[str, float], *, longest: int) -> dict[str, Any]:
    """What a step showed, for its line in the metrics. `longest`: tokens that a completion may have."""
    return {
        "step": batch.step,
        "policy_version": batch.step + 1,
        "reward": sum(batch.rewards) / len(batch.rewards),
        "rollouts": len(batch.rewards),
        "advantage_share": 1 - batch.no_signal / batch.seen_groups,
        "no_signal": batch.no_signal,
        "dropped": dict(batch.dropped),
        "eos_only": batch.eos_only,
        "length_mean": sum(batch.lengths) / len(batch.lengths),
        "length_max": max(batch.lengths),
        "limit_share": sum(length >= longest for length in batch.lengths) / len(batch.lengths),
        "oldest_policy": min(batch.versions),
        **result,
    }
