"""Starts one node in one role: checks what it can check, makes it known, gets it into the pool, runs the role.

The order is that of cost: chain and money before ports, ports before processes, membership before models. Every
fault that a person can cure ends as a `UserError`; the rest keeps its traceback.
"""

from __future__ import annotations

import logging
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
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
from node.admitted import AdmittedNodes, follow_admitted
from node.chain import on_chain
from node.clock import chain_clock, kept_clock
from node.config import RunConfig
from node.contact import contact_key
from node.dhtd_link import NetworkStartFailed
from node.errors import DiskFull, UserError
from node.folder_lock import alone_in
from node.lease import follow_manager
from node.log_ring import LogRing
from node.metrics import METRICS_FILE, MetricsLog
from node.model import base_model
from node.network import NetworkConfig, open_network
from node.overseer import Overseer
from node.peer_key import load_peer_key
from node.place import Place
from node.ports import Ports, remember_ports, remembered_ports
from node.preflight import check_at_start
from node.run_ledger import MIN_GAS_WEI, domain_of, open_ledger
from node.state import NodeState
from node.streams import open_peer
from node.terms import own_stake_told, terms_told, weaknesses

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Start:
    """What the command line asks for, the ledger that it was checked against, and the log's newest lines."""

    role: str
    config: RunConfig
    account: LocalAccount
    join: tuple[str, ...]
    data_dir: Path
    port: int
    ledger: Ledger
    pool: Pool
    ring: LogRing


def run_role(
    role: str, config: RunConfig, account: LocalAccount, *, join: tuple[str, ...], data_dir: Path, port: int
) -> None:
    """Run until the role ends, SIGINT or SIGTERM. Raises UserError."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    logging.getLogger().addHandler(ring := LogRing())
    data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    (data_dir / "submissions").mkdir(exist_ok=True)
    with alone_in(data_dir) as alone:
        if not alone:
            raise UserError(
                f"another node runs in {data_dir}", fix="stop it, or give this one its own wallet and --data-dir"
            )
        check_at_start(role, config, data_dir=data_dir, port=port)
        ledger, pool = open_ledger(config, account, data_dir / "ledger.sqlite")
        try:
            _check_account(role, ledger, pool, account.address)
            trio.run(
                _until_stopped,
                _Start(
                    role=role, config=config, account=account, join=join, data_dir=data_dir, port=port, ledger=ledger,
                    pool=pool, ring=ring,
                ),
            )  # fmt: skip
        except BaseExceptionGroup as group:
            cured = [told for fault in _leaves(group) if (told := _as_user_error(fault, data_dir)) is not None]
            if not cured:
                raise
            raise cured[0] from group
        finally:
            ledger.close()


def _check_account(role: str, ledger: Ledger, pool: Pool, address: str) -> None:
    """Whether the ledger lets the wallet begin, under terms that are told first. Raises UserError."""
    told = terms_told(pool, chain_unix_s=ledger.chain_time_s(), funds_wei=ledger.funds_of(pool.pool_id))
    for name, text in told.items():
        log.info("pool %d, %s: %s", pool.pool_id, name, text)
    for text in weaknesses(pool):
        log.warning("pool %d: %s", pool.pool_id, text)
    ledger.settle()  # what an earlier process sent and did not see mined
    if ledger.eth_balance(address) < MIN_GAS_WEI:
        raise UserError(f"{address} cannot pay for gas", fix=f"send some ether to {address}")
    if pool.state is PoolState.ENDED:
        raise UserError(f"pool {pool.pool_id} has ended", fix="use the config of a pool that goes on")
    if role == "trainer" and not ledger.may_manage(pool.pool_id, address):
        raise UserError(
            f"{address} may not manage pool {pool.pool_id}, whose manager is {pool.manager}",
            fix="start the trainer with a manager's wallet, or let the pool's owner allow this one",
        )


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


async def _until_stopped(start: _Start) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_cancel_on_signal, nursery.cancel_scope)
        await _run(start)
        nursery.cancel_scope.cancel()


async def _cancel_on_signal(scope: trio.CancelScope) -> None:
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for number in signals:
            log.info("stopping on %s", signal.Signals(number).name)
            scope.cancel()


@asynccontextmanager
async def _placed(start: _Start, admitted: frozenset[str]) -> AsyncIterator[Place]:
    """This node with its libp2p host and its place in the DHT."""
    role, config, data_dir, ledger, pool = start.role, start.config, start.data_dir, start.ledger, start.pool
    host, port, domain = config.network.host, start.port, domain_of(ledger, pool.pool_id)
    ports = Ports(stream=port, dht=port + 1, bulk=port + 2) if port else remembered_ports(data_dir, host)
    hidden = role == "worker" and not config.worker.serve
    settings = NetworkConfig(
        host=host,
        bootstrap=start.join,
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
    with closing(NodeState(data_dir, domain.run_id)) as state:
        async with (
            open_peer(load_peer_key(data_dir), f"/ip4/{host}/tcp/{ports.stream}") as peer,
            open_network(
                settings,
                account=start.account,
                domain=domain,
                authority=Authority(manager=pool.manager, epoch=pool.epoch),
                data_dir=data_dir,
                state=state,
                admit=partial(admit, ledger, pool.pool_id),
                admitted=admitted,
            ) as network,
            kept_clock(peer, network, ledger, pool),
        ):
            dht = next(iter(network.multiaddrs), "")
            remember_ports(data_dir, Ports.of(stream=peer.multiaddrs[0], dht=dht, bulk=network.bulk_url))
            log.info("%s %s is peer %s", role, start.account.address, peer.peer_id)
            if dht:
                (data_dir / "join").write_text("\n".join(network.multiaddrs) + "\n")
                log.info("others join with --join %s", dht)
            yield Place(
                role=role, config=config, account=start.account, domain=domain, data_dir=data_dir, ledger=ledger,
                peer=peer, network=network, state=state,
                metrics=MetricsLog(data_dir / METRICS_FILE, now_s=network.clock.now_s),
            )  # fmt: skip


async def _run(start: _Start) -> None:
    if start.role == "trainer":
        base = await trio.to_thread.run_sync(base_model, start.config.model.path)
    else:
        # Before anything is staked: what one that may not work puts at stake could only be lost.
        standing = await on_chain(start.ledger.member, start.pool.pool_id, start.account.address)
        membership.raise_if_blacklisted(standing, start.pool.pool_id)
        await membership.ensure_stake(start.ledger, start.account, start.pool.terms.min_stake_wei)
        node = await on_chain(start.ledger.node, start.account.address)
        log.info("at stake for this node: %s", own_stake_told(node))
    nodes = AdmittedNodes(start.ledger, start.pool.pool_id)
    admitted = await on_chain(nodes.look)  # with this node's own stake: before its record, and others', come in
    async with _placed(start, admitted) as place, trio.open_nursery() as nursery:
        nursery.start_soon(follow_manager, place.ledger, place.network, place.pool_id)
        nursery.start_soon(follow_admitted, nodes, place.network)
        if start.role == "trainer":
            await _manage(place, base)
        else:
            await member.live(place, start.ring)
        nursery.cancel_scope.cancel()


async def _manage(place: Place, base: Path) -> None:
    """The trainer's life: it lets others in, and trains."""
    key, network = contact_key(place.account, place.domain), place.network
    overseer = Overseer(
        membership.ManagedPool(
            place.ledger, place.peer, place.account, key,
            pool_id=place.pool_id, validators=frozenset(place.config.trainer.validators),
        ),
        network, place.state, place.metrics,
        domain=place.domain, own_address=place.address, heartbeat_s=place.config.network.heartbeat_s,
        run_state=lambda: network.own_run_state,
    )  # fmt: skip
    overseer.listen(place.peer)
    network.announce_node_soon(
        peer_id=place.peer.peer_id, roles=(place.role,), multiaddrs=place.peer.multiaddrs, x25519=bytes(key.public_key)
    )
    await trainer.run(place, overseer, base=base)
