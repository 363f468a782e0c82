"""The rules in Python and the contracts on a real chain: the same random histories, the same outcomes, the same money.

A failure names the seed and the act; `History(seed, …)` then gives the same acts again.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import eth_abi
import pytest
from eth_utils import keccak

from ledger import Deployment, Ledger, deploy
from ledger.abi import CONTRACTS, decode_revert, interface
from ledger.anvil import anvil, anvil_binary
from ledger.court import REVEALED
from ledger.rpc import Rpc
from ledger.rules import Call, Refused, Rules
from ledger.rules.call import NOBODY
from ledger.rules.tokens import REGISTRY, TREASURY
from ledger.types import Role
from tests.ledger.histories import Act, History
from tests.ledger.histories.base import ANYBODY, FUNDS, NODES, STAKERS, UNBONDING_S

ROOT = Path(__file__).resolve().parents[2]
HISTORIES, ACTS, LOOK_EVERY = 60, 150, 50
PAUSES_S = [1] * 30 + [2, 5, 5, 20, 100]
GAS = hex(20_000_000)
SALT = keccak(text="rules")


@dataclass
class Court:
    """The chain, set back to its beginning for each history."""

    ledger: Ledger
    deployment: Deployment
    snapshot: str
    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)

    def call(self, method: str, *params: object) -> object:
        return self.ledger._rpc.call(method, *params)

    def begin(self) -> tuple[int, int]:
        """Everything as before; the time and number of the last block."""
        assert self.call("evm_revert", self.snapshot)
        self.snapshot = self.call("evm_snapshot")
        block = self.call("eth_getBlockByNumber", "latest", False)
        return int(block["timestamp"], 16), int(block["number"], 16)

    def send(self, act: Act, now_s: int) -> str:
        """The name of the error that the contract gives; empty where it takes the call."""
        self.call("evm_setNextBlockTimestamp", now_s)
        call = self.ledger._call(act.contract, act.function, *act.arguments)
        sent = self.call("eth_sendTransaction", call | {"from": act.sender, "gas": GAS, "gasPrice": "0x0"})
        if mined(self.ledger._rpc, sent)["status"] == "0x1":
            return ""
        trace = self.call("debug_traceTransaction", sent, {"tracer": "callTracer"})
        return decode_revert(bytes.fromhex(trace["output"][2:])).error_name

    def seed_of(self, docket_id: bytes, seed_block: int, block: int) -> bytes:
        """As `Court._seedOf` in block `block`."""
        number = seed_block if seed_block >= block - 256 else block - 1
        known = self.call("eth_getBlockByNumber", hex(number), False)["hash"]
        return keccak(eth_abi.encode(["bytes32", "bytes32"], [docket_id, bytes.fromhex(known[2:])]))


def mined(rpc: Rpc, sent: str) -> dict:
    """The receipt; Anvil mines a moment after it has taken a transaction."""
    deadline = time.monotonic() + 20
    while (receipt := rpc.call("eth_getTransactionReceipt", sent)) is None:
        assert time.monotonic() < deadline
    return receipt


@pytest.fixture(scope="module")
def court() -> Iterator[Court]:
    # The same blocks, and so the same draws, each time.
    options = (
        "--timestamp",
        "1800000000",
        "--base-fee",
        "0",
        "--gas-price",
        "0",
        "--auto-impersonate",
        "--gas-limit",
        "100000000",
    )
    with anvil(anvil_binary(ROOT / "contracts"), *options) as chain:
        Rpc(chain.url).call("anvil_setBlockTimestampInterval", 1)
        deployment = deploy(chain.url, chain.account(0), salt=SALT, unbonding_s=UNBONDING_S)
        ledger = Ledger(chain.url, deployment, chain.account(0))
        for account in ANYBODY:
            ledger.mint(account, FUNDS)
            for spender in (deployment.registry, deployment.treasury):
                data = interface("StakeToken").encode("approve", spender, 2**256 - 1)
                call = {"from": account, "to": deployment.token, "data": f"0x{data.hex()}", "gasPrice": "0x0"}
                mined(ledger._rpc, ledger._rpc.call("eth_sendTransaction", call))
        ledger._rpc.call("anvil_removeBlockTimestampInterval")
        yield Court(ledger=ledger, deployment=deployment, snapshot=ledger._rpc.call("evm_snapshot"))


def play(court: Court, seed: int) -> None:
    now_s, block = court.begin()
    rules = Rules(salt=court.deployment.salt, unbonding_s=UNBONDING_S)
    for account in ANYBODY:
        rules.tokens.mint(account, FUNDS)
    history, clock, done = History(seed, rules, court.deployment), random.Random(seed), []
    for number in range(ACTS):
        now_s += clock.choice(PAUSES_S)
        block += 1

        def call(sender: str, now_s: int = now_s, block: int = block) -> Call:
            return Call(sender=sender, now_s=now_s, block=block, seed_of=lambda *of: court.seed_of(*of, block))

        history.present = call
        act = history.next()
        found = court.send(act, now_s)
        try:
            act.model(call(act.sender))
            expected = ""
        except Refused as refused:
            expected = refused.error_name
        done.append(f"{number}: {act.function} by {act.sender[:6]} at {now_s} → {found or 'done'}")
        assert found == expected, f"seed {seed}: the model says {expected or 'done'}\n" + "\n".join(done[-40:])
        court.outcomes[act.function, found] += 1
        if number % LOOK_EVERY == LOOK_EVERY - 1:
            assert on_chain(court.ledger, rules) == in_model(rules), f"seed {seed} after act {number}\n" + "\n".join(
                done
            )
    assert rules.tokens.supply_wei + rules.tokens.burnt_wei == FUNDS * len(ANYBODY)


def test_random_histories_end_alike(court: Court) -> None:
    for seed in range(HISTORIES):
        play(court, seed)
    outcomes = court.outcomes
    taken = sum(count for (_, error), count in outcomes.items() if not error)
    print(f"{HISTORIES} histories, {outcomes.total()} acts, {taken} of them taken, {len(outcomes)} kinds of outcome")
    met = {error for _, error in outcomes}
    declared = {entry.name for name in CONTRACTS for entry in interface(name).errors.values()}
    print(f"{len(met)} errors met, never: {sorted(declared - met)}")
    print({function: count for (function, error), count in sorted(outcomes.items()) if not error})
    assert {function for function, _ in outcomes} == {function for function, error in outcomes if not error}
    assert len(met) >= 60


def accounts_of(rules: Rules) -> list[tuple[int, str]]:
    return [(pool_id, account) for pool_id in rules.pools.pools for account in NODES + STAKERS]


def in_model(rules: Rules) -> dict[str, object]:
    """Everything that the chain is asked for by `on_chain`."""
    stakes, pools, members, court, treasury = (
        rules.stakes, rules.pools, rules.members, rules.court, rules.treasury
    )  # fmt: skip
    seen: dict[str, object] = {"supply": rules.tokens.supply_wei}
    for account in (*ANYBODY, REGISTRY, TREASURY):
        seen[f"tokens of {account}"] = rules.tokens.balances[account]
    for node in NODES:
        held = stakes.nodes.get(node)
        shown = (held.staker, held.matures, held.stake, held.unbonding, held.locked) if held else (NOBODY, 0, 0, 0, 0)
        seen[f"node {node}"] = (*shown, stakes.nonces[node], treasury.credits[node])
    for domain_id, domain in pools.domains.items():
        seen[f"domain {domain_id}"] = (domain.owner, domain.pending, *(a in domain.blacklist for a in NODES))
    for pool_id, pool in pools.pools.items():
        seen[f"pool {pool_id}"] = (
            (pool.owner, pool.pending), pool.domain_id, pool.state, pool.joins_paused, pool.ended_at, pool.manager,
            pool.epoch, pool.lease_expires, treasury.funds[pool_id], len(rules.runs.checkpoints[pool_id]),
            *(members.count(pool_id, role) for role in Role if role),
        )  # fmt: skip
    for key in accounts_of(rules):
        at = members.standings[key]
        seen[f"member {key}"] = (
            (at.role, at.active, at.since, at.epoch, at.used), members.is_active(*key), at.bar, at.left_at,
            treasury.units[key], court.convictions[key], rules.runs.next_counter[*key, 0],
        )  # fmt: skip
    for docket_id, docket in court.dockets.items():
        case = court.cases.get(docket_id)
        shown = (case.amount, case.until, case.state) if case else (0, 0, 0)
        seen[f"docket {docket_id.hex()}"] = (
            docket.pool_id, docket.node, docket.kind, docket.outcome, docket.opened_at, docket.quorum, docket.panel,
            docket.commits, docket.validators, docket.seed_block, docket.seed or bytes(32), docket.about or bytes(32),
            *shown, *(docket.commitments.get(node) == REVEALED for node in NODES),
        )  # fmt: skip
    return seen


def on_chain(ledger: Ledger, rules: Rules) -> dict[str, object]:
    """The same of the contracts."""
    at = ledger.deployment
    reads: dict[str, list[tuple[object, ...]]] = {"supply": [("StakeToken", "totalSupply")]}
    for account in (*ANYBODY, REGISTRY, TREASURY):
        address = {REGISTRY: at.registry, TREASURY: at.treasury}.get(account, account)
        reads[f"tokens of {account}"] = [("StakeToken", "balanceOf", address)]
    for node in NODES:
        asked = [("NodeRegistry", "getNode"), ("NodeRegistry", "nonces"), ("Treasury", "creditOf")]
        reads[f"node {node}"] = [(*read, node) for read in asked]
    for domain_id in rules.pools.domains:
        barred = [("ComputePools", "isBlacklistedInDomain", domain_id, account) for account in NODES]
        reads[f"domain {domain_id}"] = [("ComputePools", "getDomain", domain_id), *barred]
    for pool_id in rules.pools.pools:
        counts = [("ComputePools", "memberCount", pool_id, int(role)) for role in Role if role]
        asked = [("ComputePools", "getPool"), ("Treasury", "fundsOf"), ("RunLedger", "checkpointCount")]
        reads[f"pool {pool_id}"] = [*((*read, pool_id) for read in asked), *counts]
    for key in accounts_of(rules):
        asked = [("ComputePools", name) for name in ("getMember", "isActive", "barOf", "leftAt")]
        asked += [("Treasury", "unitsOf"), ("Court", "convictionsOf")]
        reads[f"member {key}"] = [*((*read, *key) for read in asked), ("RunLedger", "nextCounter", *key, 0)]
    for docket_id in rules.court.dockets:
        revealed = [("Court", "commitmentBy", docket_id, node) for node in NODES]
        reads[f"docket {docket_id.hex()}"] = [
            ("Court", "getDocket", docket_id),
            ("Court", "getCase", docket_id),
            *revealed,
        ]
    values = iter(ledger._read_many(*(read for asked in reads.values() for read in asked)))
    found = {name: [next(values) for _ in asked] for name, asked in reads.items()}
    return {name: _as_in_model(name, values) for name, values in found.items()}


def _as_in_model(name: str, values: list) -> object:
    match name.split()[0]:
        case "supply" | "tokens":
            return values[0]
        case "domain":
            return (*values[0][0], *values[1:])
        case "docket":
            return (*values[0], *values[1], *(value == REVEALED for value in values[2:]))
        case "member":
            return tuple(values)
        case _:
            return (*values[0], *values[1:])
