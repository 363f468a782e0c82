"""Starts one node in one role: checks what it can check, makes it known, gets it into the pool, runs the role.

The order is that of cost: chain and money before ports, ports before processes, membership before models. Every
fault that a person can cure ends as a `UserError`; the rest keeps its traceback.
"""

from __future__ import annotations

import fcntl
import logging
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from functools import partial
from pathlib import Path

import trio
from eth_account.signers.local import LocalAccount

from dht.records import Authority
from ledger.client import Ledger
from ledger.errors import (
    DatabaseTooNew,
    InsufficientFunds,
    WrongChain,
)
from ledger.types import Pool, PoolState
from node import member, membership, trainer
from node.chain import on_chain
from node.clock import chain_clock, kept_clock
from node.config import RunConfig
from node.contact import contact_key
from node.dhtd_link import NetworkStartFailed
from node.errors import DiskFull, UserError
from node.lease import follow_manager
from node.log_ring import LogRing
from node.metrics import MetricsLog
from node.model import base_model
from node.network import Network, NetworkConfig, open_network
from node.overseer import Overseer
from node.peer_key import load_peer_key
from node.ports import Ports, remember_ports, remembered_ports
from node.preflight import check_at_start
from node.run_ledger import MIN_GAS_WEI, domain_of, open_ledger
from node.state import NodeState
from node.streams import Peer, open_peer

log = logging.getLogger(__name__)


def run_role(
    role: str, config: RunConfig, account: LocalAccount, *, join: tuple[str, ...], data_dir: Path, port: int
) -> None:
    """Run until the role ends, SIGINT or SIGTERM. Raises UserError."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    logging.getLogger().addHandler(ring := LogRing())
    data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    (data_dir / "submissions").mkdir(exist_ok=True)
    lock = (data_dir / "lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # until this process ends
    except OSError as error:
        raise UserError(
            f"another node runs in {data_dir}", fix="stop it, or give this one its own wallet and --data-dir"
        ) from error
    check_at_start(role, config, data_dir=data_dir, port=port)
    ledger, pool = open_ledger(config, account, data_dir / "ledger.sqlite")
    ledger.settle()  # what an earlier process sent and did not see mined
    if ledger.eth_balance(account.address) < MIN_GAS_WEI:
        raise UserError(f"{account.address} cannot pay for gas", fix=f"send some ether to {account.address}")
    if pool.state is PoolState.ENDED:
        raise UserError(f"pool {pool.pool_id} has ended", fix="use the config of a pool that goes on")
    if role == "trainer" and not ledger.may_manage(pool.pool_id, account.address):
        raise UserError(
            f"{account.address} may not manage pool {pool.pool_id}, whose manager is {pool.manager}",
            fix="start the trainer with a manager's wallet, or let the pool's owner allow this one",
        )
    try:
        trio.run(_until_stopped, role, config, ledger, pool, account, join, data_dir, port, ring)
    except BaseExceptionGroup as group:
        cured = [told for fault in _leaves(group) if (told := _as_user_error(fault, data_dir)) is not None]
        if not cured:
            raise
        raise cured[0] from group
    finally:
        ledger.close()


def _leaves(group: BaseException) -> Iterator[BaseException]:
    if isinstance(group, BaseExceptionGroup):
        for fault in group.exceptions:
            yield from _leaves(fault)
    else:
        yield group


def _as_user_error(fault: BaseException, data_dir: Path) -> UserError | None:
    """What a person is told of a fault that they can cure; None for a fault of ours."""
    if isinstance(fault, UserError):
        return fault
    if DiskFull.is_cause_of(fault):
        return DiskFull(f"the disk is full: {fault}", fix=f"free space for {data_dir}, then start again")
    if isinstance(fault, (DatabaseTooNew, InsufficientFunds, NetworkStartFailed, WrongChain)):
        return UserError(str(fault), fix="cure what it says, then start again")
    return None


async def _until_stopped(
    role: str,
    config: RunConfig,
    ledger: Ledger,
    pool: Pool,
    account: LocalAccount,
    join: tuple[str, ...],
    data_dir: Path,
    port: int,
    ring: LogRing,
) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_cancel_on_signal, nursery.cancel_scope)
        await _run(role, config, ledger, pool, account, join, data_dir, port, ring)
        nursery.cancel_scope.cancel()


async def _cancel_on_signal(scope: trio.CancelScope) -> None:
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for number in signals:
            log.info("stopping on %s", signal.Signals(number).name)
            scope.cancel()


@asynccontextmanager
async def _connected(
    role: str, config: RunConfig, ledger: Ledger, pool: Pool, account: LocalAccount, join: tuple[str, ...],
    data_dir: Path, port: int, state: NodeState,
) -> AsyncIterator[tuple[Peer, Network]]:  # fmt: skip
    """This node's libp2p host and its place in the DHT."""
    host = config.network.host
    ports = Ports(stream=port, dht=port + 1, bulk=port + 2) if port else remembered_ports(data_dir, host)
    hidden = role == "worker" and not config.worker.serve
    settings = NetworkConfig(
        host=host,
        bootstrap=join,
        keep_versions=config.network.keep_versions,
        lifetime_s=config.network.record_lifetime_s,
        dht_port=ports.dht,
        bulk_port=ports.bulk,
        chain_clock=await on_chain(chain_clock, ledger),
        # Only those who serve keep the DHT's table: a worker's look-ups then reach nobody else.
        client=role in ("worker", "validator"),
        serve=not hidden,
    )
    admit = membership.serves_workers if hidden else membership.belongs
    async with (
        open_peer(load_peer_key(data_dir), f"/ip4/{host}/tcp/{ports.stream}") as peer,
        open_network(
            settings,
            account=account,
            domain=domain_of(ledger, pool.pool_id),
            authority=Authority(manager=pool.manager, epoch=pool.epoch),
            data_dir=data_dir,
            state=state,
            admit=partial(admit, ledger, pool.pool_id),
        ) as network,
        kept_clock(peer, network, ledger, pool),
    ):
        dht = next(iter(network.multiaddrs), "")
        remember_ports(data_dir, Ports.of(stream=peer.multiaddrs[0], dht=dht, bulk=network.bulk_url))
        log.info("%s %s is peer %s", role, account.address, peer.peer_id)
        if dht:
            (data_dir / "join").write_text("\n".join(network.multiaddrs) + "\n")
            log.info("others join with --join %s", dht)
        yield peer, network


async def _run(
    role: str,
    config: RunConfig,
    ledger: Ledger,
    pool: Pool,
    account: LocalAccount,
    join: tuple[str, ...],
    data_dir: Path,
    port: int,
    ring: LogRing,
) -> None:
    metrics, domain = MetricsLog(data_dir / "metrics.jsonl"), domain_of(ledger, pool.pool_id)
    base = await trio.to_thread.run_sync(base_model, config.model.path) if role == "trainer" else None
    if role != "trainer":
        await membership.ensure_stake(ledger, account, pool.terms.min_stake_wei)
    with closing(NodeState(data_dir, domain.run_id)) as state:
        async with (
            _connected(role, config, ledger, pool, account, join, data_dir, port, state) as (peer, network),
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(follow_manager, ledger, network, pool.pool_id)
            if role == "trainer":
                key = contact_key(account, domain)
                overseer = Overseer(
                    membership.ManagedPool(
                        ledger, peer, account, key,
                        pool_id=pool.pool_id, validators=frozenset(config.trainer.validators),
                    ),
                    network, state, metrics,
                    domain=domain, own_address=account.address, heartbeat_s=config.network.heartbeat_s,
                    run_state=lambda: network.own_run_state,
                )  # fmt: skip
                overseer.listen(peer)
                await network.announce_node(
                    peer_id=peer.peer_id, roles=(role,), multiaddrs=peer.multiaddrs, x25519=bytes(key.public_key)
                )
                await trainer.run(
                    config, ledger, network, metrics, overseer, address=account.address, base=base, data_dir=data_dir
                )
            else:
                await member.live(
                    role, config, ledger, peer, network, state, metrics, ring, account=account, domain=domain,
                    sequence_start=int(network.clock.now_s() * 1000), data_dir=data_dir,
                )  # fmt: skip
            nursery.cancel_scope.cancel()
