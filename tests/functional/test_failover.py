"""A trainer is killed, another finishes; one that slept past its lease is heard by nobody. Nothing lost or repeated."""

from __future__ import annotations

import itertools
import secrets
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from eth_account.signers.local import LocalAccount

from dht.directory import PublishRefused
from dht.manifest import POLICY, manifest_id
from dht.records import Authority, RecordInvalid, RunStateRecord, sign_record
from dht.signing import RecordDomain
from dht.store import ContentStore
from ledger.anvil import anvil, anvil_binary
from ledger.errors import Reverted
from ledger.types import Role
from node.child import open_child
from node.lease import follow_manager
from node.network import Network, NetworkConfig, open_network
from node.peer_key import make_peer_key
from node.states import States
from node.streams import Peer, open_peer
from node.training import Training
from rl.batch import StepBatch
from rl.hardware import thread_environment
from tests.functional.failover import ACCOUNTS, ROOT, STEPS, World, world_of

SEED = 7
KILLED_AT, STOPPED_AT = 6, 9


def domain_of(world: World) -> RecordDomain:
    at = world.ledger.deployment
    run_id = world.ledger.run_id(world.pool_id)
    return RecordDomain(chain_id=at.chain_id, contract=at.pools, salt=at.salt, run_id=run_id)


@asynccontextmanager
async def connected(world: World, account: LocalAccount, join: str) -> AsyncIterator[tuple[Peer, Network]]:
    pool = world.ledger.pool(world.pool_id)
    async with (
        open_peer(make_peer_key(secrets.token_bytes(32)), "/ip4/127.0.0.1/tcp/0") as peer,
        open_network(
            NetworkConfig(bootstrap=(join,), lifetime_s=10), account=account, domain=domain_of(world),
            authority=Authority(manager=pool.manager, epoch=pool.epoch), data_dir=world.folder / account.address,
        ) as network,
    ):  # fmt: skip
        await network.announce_node(peer_id=peer.peer_id, roles=("worker",), multiaddrs=peer.multiaddrs)
        yield peer, network


async def replayed(world: World, folder: Path, model: Path) -> Path:
    """The uninterrupted run with the same accepted rollouts, by the trainer's own process; its manifests' hashes are
    the ledger's.
    """
    folder.mkdir()
    store = ContentStore(folder / "store", run_id=world.ledger.run_id(world.pool_id))
    async with open_child(
        [sys.executable, "-m", "node.trainer_child"], name="replay", log_path=folder / "log", env=thread_environment(1)
    ) as child:
        states = States(None, folder / "states", me="")  # type: ignore[arg-type]
        training = Training(child, world.config, states, folder)
        training.reference = model
        await training.load(model)
        made = model
        for version in range(STEPS + 1):
            if version:
                batch = StepBatch(step=version - 1, wanted=world.config.rl.groups_per_step)
                for submission_id, rollouts in world.accepted[version - 1]:
                    batch.add(submission_id, rollouts)
                made = training.path(version)
                await training.train(batch, made)
            announced = world.ledger.checkpoint(world.pool_id, version)
            assert manifest_id(store.stage(made, version, kind=POLICY)) == announced.manifest_hash, f"policy {version}"
    return made


async def test_trainers_die_and_sleep_and_the_run_is_the_uninterrupted_one(tiny_model: Path, tmp_path: Path) -> None:
    marks: list[tuple[str, float]] = [("start", time.monotonic())]

    def mark(what: str) -> None:
        marks.append((what, time.monotonic()))

    with anvil(anvil_binary(ROOT / "contracts")) as chain, world_of(chain, tmp_path, tiny_model, SEED) as world:
        relay, first, second = (world.nodes[name] for name in ("relay", "first", "second"))
        relay.start()
        await world.until("the relay is up", (relay.home / "join").exists)
        join = (relay.home / "join").read_text().split()[0]
        for node in (first, second):
            node.argv += ["--join", join]
        first.start()
        await world.until("the first trainer manages", lambda: first.says("holds lease 1"))
        second.start()
        async with connected(world, ACCOUNTS["worker"], join) as (peer, network), trio.open_nursery() as nursery:
            nursery.start_soon(follow_manager, world.ledger, network, world.pool_id)

            async def train(until: int) -> None:
                """Rollouts for each step as soon as it can be trained, until that policy is out."""
                while (version := world.version) < until:
                    if version >= 0 and version not in world.accepted:
                        await world.feed(version, peer, network)
                    await world.until(f"policy {version + 1}", lambda: world.version > version)

            await train(KILLED_AT)
            mark(f"{KILLED_AT} steps by the first trainer")
            await world.until("state 6 is with the standby", lambda: second.says("state of policy 6 is here"))

            # Killed between announcing policy 7 and spreading its state: the standby hears nothing meanwhile.
            second.send(signal.SIGSTOP)
            await train(KILLED_AT + 1)
            first.send(signal.SIGKILL)
            mark("the first trainer is killed")
            second.send(signal.SIGCONT)
            await world.until("the standby takes over", lambda: second.says("took over lease 2"))
            mark("the standby has the lease")
            await world.feed(KILLED_AT + 1, peer, network)
            await world.until("the standby trains on", lambda: world.version == KILLED_AT + 2)
            mark("the standby's first policy")
            assert second.says("step 6 gave policy 7 as announced, bit by bit"), second.log

            first.start()  # the former trainer comes back: it stands by
            await train(STOPPED_AT)
            assert relay.says(f"pool 1 is managed by {ACCOUNTS['second'].address} now, lease 2"), "without a restart"
            with pytest.raises(Reverted, match="InviteNotByManager"):
                world.enlist("latecomer", Role.WORKER, inviter="first")
            world.enlist("latecomer", Role.WORKER, inviter="second")
            await world.until("state 9 is with the former trainer", lambda: first.says("state of policy 9 is here"))
            assert first.says("standing by: " + ACCOUNTS["second"].address)

            mark("the second trainer is stopped")
            second.send(signal.SIGSTOP)
            await world.until("the first takes over again", lambda: first.says("took over lease 3"))
            mark("the first has the lease")
            await train(STOPPED_AT + 1)
            second.send(signal.SIGCONT)
            await world.until("the second one ends", lambda: second.process.poll() is not None)
            assert second.process.returncode == 6, second.log
            assert "error: lease 2 of pool 1 was taken over" in second.log
            await refused_by_everyone(world, network)

            await train(STEPS)
            await world.until("the first one ends", lambda: first.process.poll() is not None)
            mark("the run is done")
            assert first.process.returncode == 0, first.log
            nursery.cancel_scope.cancel()
        final = await replayed(world, tmp_path / "replay", tiny_model)
        mark("replayed")
        kept = first.home / "checkpoints" / f"policy-{STEPS}"
        assert {p.name: p.read_bytes() for p in kept.iterdir()} == {p.name: p.read_bytes() for p in final.iterdir()}
        epochs = [world.ledger.checkpoint(world.pool_id, version).epoch for version in range(STEPS + 1)]
        assert epochs == [1] * 8 + [2] * 2 + [3] * 3
    for (_, before), (what, at) in itertools.pairwise(marks):
        print(f"{at - before:6.1f} s  {what}")


async def refused_by_everyone(world: World, network: Network) -> None:
    """What the fenced manager still signs: a checkpoint, a run state of its lease, one that claims the new."""
    with pytest.raises(Reverted, match="NotManager"):
        world.ledgers["second"].announce_checkpoint(world.pool_id, STOPPED_AT + 2, b"x" * 32)
    now = await network.run_state()
    assert now is not None
    assert now.epoch == 3
    for epoch in (2, 3):
        lie = RunStateRecord(epoch=epoch, open_step=99, policy_version=99, manifest_hash=b"x" * 32)
        record = sign_record(
            lie, domain=domain_of(world), account=ACCOUNTS["second"], sequence=2**62,
            expires_unix_s=int(time.time()) + 10,
        )  # fmt: skip
        with pytest.raises((RecordInvalid, PublishRefused)):
            await network.publish(record)
    assert await network.run_state() == now
