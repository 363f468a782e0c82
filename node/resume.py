"""Where training goes on: with the newest policy and the state that goes with it, else by training a step again.

Policies are what the ledger announced, bit by bit. A trainer that died after announcing policy v and before its state v
was kept elsewhere left state v - 1, and the ledger left the batch of step v - 1: the same step gives policy v again,
and its manifest's hash is compared with the ledger's. Where that fails, training goes on from the announced weights
with fresh moments, and says so. It refuses to go on from weights that the ledger does not name.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from dht.checkpoint import CheckpointWrong
from dht.manifest import ManifestInvalid
from dht.plan import ContentUnavailable
from ledger.client import Ledger
from node.batches import Gathering
from node.chain import on_chain
from node.child import ChildError
from node.errors import UserError
from node.network import Network
from node.policies import Policies
from node.states import States
from node.training import Training
from rl.batch import read_trained_on

log = logging.getLogger(__name__)
FETCH_TIMEOUT_S = 120.0
MAX_REPLAY = 2
"""Steps that are trained again at most; more than two states are not kept."""


class NoWay(Exception):
    """This way does not lead to the announced policy; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """`start`: the version to load; `with_state`: its state, too; `replay`: the steps to train again from there."""

    start: int
    with_state: bool
    replay: tuple[int, ...]


def plan(newest: int, *, states: Collection[int], policies: Collection[int]) -> Plan:
    """How to reach policy `newest` with its moments; `states` and `policies` are the versions at hand.

    Policy 0 has no moments: whoever has it has its state. Without a way, fresh moments on the announced weights.
    """
    for version in range(newest, max(-1, newest - MAX_REPLAY - 1), -1):
        has_state = version == 0 or version in states
        # The newest policy can be fetched or, being its own state rounded, is compared with what is fetched.
        if has_state and (version in policies or version == newest):
            return Plan(start=version, with_state=version > 0, replay=tuple(range(version, newest)))
    return Plan(start=newest, with_state=False, replay=())


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Policy `version` is in `folder`, loaded by the training process, and announced as `manifest_hash`."""

    version: int
    folder: Path
    manifest_hash: bytes


class Resume:
    """Brings the training process to the ledger's newest policy."""

    def __init__(
        self,
        ledger: Ledger,
        network: Network,
        training: Training,
        policies: Policies,
        states: States,
        gathering: Gathering,
        *,
        pool_id: int,
        base: Path,
        announce: Callable[[int, bytes], Awaitable[None]],
    ) -> None:
        self._ledger, self._network, self._training, self._policies = ledger, network, training, policies
        self._states, self._gathering, self._pool_id, self._base = states, gathering, pool_id, base
        self._announce = announce

    async def run(self) -> Position:
        """Raises UserError where the newest policy can be had in no way, and the errors of `node.child`."""
        newest = await on_chain(self._ledger.latest_checkpoint, self._pool_id)
        if newest is None:
            log.info("publishing the base policy %s", self._base)
            self._training.reference = self._base
            await self._training.load(self._base)
            manifest_hash = await self._network.content.publish_checkpoint(self._base, 0)
            await self._announce(0, manifest_hash)
            return Position(version=0, folder=self._base, manifest_hash=manifest_hash)
        if self._training.needs_reference:
            self._training.reference = await self._reference()
        await self._states.find()
        while True:
            way = plan(newest.version, states=self._states.folders, policies=self._at_hand(newest.version))
            if not way.with_state and not way.replay:
                break
            try:
                folder = await self._follow(way)
            except NoWay as fault:
                log.warning("policy %d cannot be reached from state %d: %s", newest.version, way.start, fault)
                if not way.with_state:
                    break
                self._states.drop(way.start)
            else:
                return Position(version=newest.version, folder=folder, manifest_hash=newest.manifest_hash)
        try:
            folder = await self._announced(newest.version)
        except NoWay as fault:
            raise UserError(
                f"{fault}, and it cannot be trained again",
                fix="start a relay, validator or trainer of this run that has it, or the former trainer with its data",
            ) from fault
        await self._training.load(folder)
        if newest.version:
            log.warning(
                "NO TRAINER STATE IS LEFT: training goes on from policy %d with fresh optimiser moments", newest.version
            )
        return Position(version=newest.version, folder=folder, manifest_hash=newest.manifest_hash)

    async def _reference(self) -> Path:
        """Policy 0 as announced: a KL to another base would be another training. Raises UserError."""
        try:
            return await self._announced(0)
        except NoWay as fault:
            raise UserError(
                f"the KL term needs the run's policy 0: {fault}",
                fix="set model.path to the model that the run began with, or start a node of this run that has it",
            ) from fault

    async def _follow(self, way: Plan) -> Path:
        """Load, and train again what is missing; returns the folder of the newest policy. Raises NoWay."""
        folder = await self._announced(way.start)
        await self._training.load(folder)
        if way.with_state:
            try:
                await self._training.load_state(self._states.folders[way.start], way.start)
            except ChildError as fault:
                if fault.kind != "StateInvalid":
                    raise
                raise NoWay(fault.message) from fault
            self._states.use(way.start)
            log.info("the trainer's state of policy %d fits", way.start)
        for step in way.replay:
            folder = await self._train_again(step)
        return folder

    async def _train_again(self, step: int) -> Path:
        known = self._at_hand(step + 1).get(step + 1)
        told = read_trained_on(known) if known else None
        batch = await self._gathering.again(step, told[1] if told and told[0] == step else None)
        if batch is None:
            raise NoWay(f"the rollouts of step {step} are not all to be had")
        log.info("training step %d again, from the same %d submissions", step, len(batch.used()))
        made = self._training.path(step + 1).with_name(f"again-{step + 1}")
        await self._training.train(batch, made)
        announced = await on_chain(self._ledger.checkpoint, self._pool_id, step + 1)
        manifest_hash = await self._network.content.publish_checkpoint(made, step + 1)
        if manifest_hash != announced.manifest_hash:
            shutil.rmtree(made, ignore_errors=True)
            self._network.content.withdraw(manifest_hash)
            raise NoWay(f"step {step} came out differently than announced (other hardware or settings?)")
        log.info("step %d gave policy %d as announced, bit by bit", step, step + 1)
        target = self._training.path(step + 1)
        shutil.rmtree(target, ignore_errors=True)
        made.rename(target)
        await self._training.save_state(step + 1)
        return target

    def _at_hand(self, newest: int) -> dict[int, Path]:
        """Policies on this disk: own ones, fetched ones, and the base."""
        own = {version: self._training.path(version) for version in range(max(0, newest - MAX_REPLAY), newest + 1)}
        found = {version: path for version, path in own.items() if path.exists()}
        # A fetched one is as announced; an own one may be of a step that another trainer took instead.
        return {0: self._base} | found | {v: p for v, p in self._policies.folders.items() if p.exists()}

    async def _announced(self, version: int) -> Path:
        """Policy `version` exactly as the ledger has it, served from here as well. Raises NoWay."""
        announced = await on_chain(self._ledger.checkpoint, self._pool_id, version)
        folder, wrong = self._at_hand(version).get(version), ""
        if folder is not None:
            manifest_hash = await self._network.content.publish_checkpoint(folder, version)
            if manifest_hash == announced.manifest_hash:
                return folder
            self._network.content.withdraw(manifest_hash)
            wrong = f"{folder} is not policy {version} as the ledger records it; "
        log.info("%sfetching policy %d", wrong, version)
        try:
            return await self._network.content.fetch_checkpoint(announced.manifest_hash, timeout_s=FETCH_TIMEOUT_S)
        except (ContentUnavailable, ManifestInvalid, CheckpointWrong) as error:
            raise NoWay(f"{wrong}policy {version} is neither here nor served: {error}") from error
