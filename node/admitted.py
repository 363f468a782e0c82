"""Whom a pool's directory admits, by the ledger: nodes with the pool's stake at work, and those that may manage it.

Decides from events which addresses to ask about, and from the ledger's answer who is admitted; so handling an event
twice changes nothing. Kept in memory: a restarted node reads the registry's events from the deployment on, as the
trainer does its outcomes. It refuses more than MAX_ADMITTED addresses, first come, first served.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import NoReturn

import trio

from dht.admission import MAX_ADMITTED
from ledger.client import Ledger
from ledger.events import Event, ManagerSet, NodeRegistered, StakeAdded, StakeBurnt, UnbondingStarted
from node.chain import on_chain
from node.dhtd_link import NetworkDown
from node.network import Network

log = logging.getLogger(__name__)
LOOK_S = 2.0
EVENTS = (NodeRegistered, StakeAdded, StakeBurnt, UnbondingStarted, ManagerSet)
"""All by which the stake at work of a node, or who may manage, can change."""


class AdmittedNodes:
    """Those of one pool."""

    def __init__(self, ledger: Ledger, pool_id: int, *, most: int = MAX_ADMITTED) -> None:
        self._ledger, self._pool_id, self._most = ledger, pool_id, most
        self._cursor = ledger.cursor(None, "admitted")
        self._staked: set[str] = set()
        self._managers: set[str] = set()
        self._admitted: frozenset[str] = frozenset()

    def look(self) -> frozenset[str]:
        """As of the newest block; blocking. Errors as of `Ledger.events`, and the next look goes on from there."""
        handled = -1
        while handled != self._cursor.next_block:
            handled = self._cursor.next_block
            events = self._ledger.events(self._cursor, *EVENTS)
            if events:
                self._take(events)
                self._cursor.commit(events[-1].block)
        return self._admitted

    def _take(self, events: Sequence[Event]) -> None:
        for event in events:
            if isinstance(event, ManagerSet) and event.pool_id == self._pool_id:
                (self._managers.add if event.allowed else self._managers.discard)(event.manager)
        touched = list(dict.fromkeys(event.node for event in events if not isinstance(event, ManagerSet)))
        # Where a pool asks for no stake, being registered is what it takes, which no empty stake does.
        least_wei = max(1, self._ledger.terms(self._pool_id).min_stake_wei)
        admitted = self._staked | self._managers
        for address, stake_wei in zip(touched, self._ledger.stakes_of(touched), strict=True):
            if stake_wei < least_wei:
                self._staked.discard(address)
                admitted -= {address} - self._managers
            elif address in admitted or len(admitted) < self._most:
                self._staked.add(address)
                admitted.add(address)
            else:
                log.warning("%s is not admitted: %d others are", address, self._most)
        self._admitted = frozenset(admitted)


async def follow_admitted(nodes: AdmittedNodes, network: Network) -> NoReturn:
    """Have the network admit whom the ledger does, for ever."""
    while True:
        await trio.sleep(LOOK_S)
        admitted = await on_chain(nodes.look)
        try:
            await network.set_admitted(admitted)
        except NetworkDown as fault:
            log.warning("the network has not heard yet whom the ledger admits: %s", fault)
