"""Validators before a real court: everything of them is the real part, but for the checks, the files and the relay."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio

from ledger import Ledger
from ledger.anvil import Anvil
from ledger.deployment import Deployment
from ledger.types import Terms
from node import clerk, judge
from node.config import RunConfig
from node.dockets import Dockets
from node.judge import Judge
from node.metrics import MetricsLog
from tests.ledger.conftest import World, make_world

FILE = b"\5" * 32


def court_of(chain: Anvil, deployment: Deployment, terms: Terms) -> World:
    """A fresh pool with these terms, and a policy."""
    owner = Ledger(chain.url, deployment, chain.account(0))
    world = make_world(chain, deployment, owner, terms)
    owner.announce_checkpoint(world.pool_id, 0, FILE)
    return world


@dataclass
class FakeVerifier:
    """Says what it is told to say; of those named in `cheats` that they cheated."""

    outcome: str = "accepted"
    cheats: frozenset[str] = frozenset()
    asked: list[Any] = field(default_factory=list)

    async def call(self, kind: str, **arguments: Any) -> dict[str, Any]:
        self.asked.append(arguments["claim"])
        outcome = "rejected" if arguments["claim"]["worker"] in self.cheats else self.outcome
        rejection = {"code": "proof-mismatch", "detail": "4.7"} if outcome == "rejected" else None
        return {
            "outcome": outcome, "rejection": rejection, "facts": {"tokens": 70.0}, "seconds": 0.1,
            "checks": [("proof-mismatch", rejection["code"] if rejection else "")],
        }  # fmt: skip


class FakePolicies:
    folders: dict[int, Path] = {}  # noqa: RUF012

    def has(self, version: int) -> bool:
        return True

    async def wait_for(self, enough: Callable[[], bool]) -> None:
        assert enough()


class FakeNetwork:
    """Serves every file, and is the relay that takes the evidence."""

    def __init__(self) -> None:
        self.fetched: list[bytes] = []
        self.given: list[bytes] = []

    async def nodes(self) -> tuple[()]:
        return ()

    @property
    def content(self) -> FakeNetwork:
        return self

    async def fetch_blob(self, sha256: bytes, **_: Any) -> Path:
        self.fetched.append(sha256)
        return Path("file")


async def give(ledger: Any, peer: Any, network: FakeNetwork, data: bytes, **_: Any) -> None:
    """In place of `node.handover.hand_over_evidence`."""
    network.given.append(data)


@asynccontextmanager
async def judging(
    world: World,
    ledger: Any,
    folder: Path,
    verifier: Any,
    *,
    network: Any = None,
    wrap: Callable[[Dockets], Any] = lambda dockets: dockets,
) -> AsyncIterator[Dockets]:
    """One validator's tasks, as `validator.run` starts them, less the child process."""
    folder.mkdir(exist_ok=True)
    config = RunConfig.model_validate({"ledger": {"pool_id": world.pool_id}})
    kept = Dockets(folder / "dockets.sqlite", ledger.deployment.salt.hex())
    dockets = wrap(kept)
    metrics = MetricsLog(folder / "metrics.jsonl")
    place = SimpleNamespace(
        config=config, ledger=ledger, network=network or FakeNetwork(), metrics=metrics, peer=None,
        address=ledger.account.address, pool_id=world.pool_id,
    )  # fmt: skip
    at_work = Judge(place, FakePolicies(), dockets)  # type: ignore[arg-type]
    try:
        async with trio.open_nursery() as nursery:
            cursor = ledger.cursor(folder / "ledger.sqlite", "validator")
            nursery.start_soon(clerk.take_in, ledger, cursor, dockets, world.pool_id)
            nursery.start_soon(clerk.see_through, ledger, dockets, metrics, world.pool_id)
            nursery.start_soon(clerk.hand_in_evidence, place, dockets)
            nursery.start_soon(at_work.fetch_ahead)
            nursery.start_soon(at_work.run, verifier)
            yield dockets
            nursery.cancel_scope.cancel()
    finally:
        kept.close()
        metrics.close()


async def until(condition: Callable[[], Any]) -> None:
    with trio.fail_after(30):
        while not await trio.to_thread.run_sync(condition):
            await trio.sleep(0.05)


def make_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks often, and has no relay to look for."""
    monkeypatch.setattr(judge, "LOOK_S", 0.05)
    monkeypatch.setattr(clerk, "POLL_S", 0.05)
    monkeypatch.setattr(clerk, "hand_over_evidence", give)


def with_quorum(terms: Terms, quorum: int, panel: int, **more: Any) -> Terms:
    return dataclasses.replace(terms, quorum=quorum, panel=panel, **more)
