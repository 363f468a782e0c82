"""A pool on a chain of its own, trainers and a relay as processes, and accepted rollouts without a GPU or an engine.

The rollouts are made up: a worker's wallet hands real files to the relay and records them, a validator's accepts them.
What the trainers do with them is what is tested.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import trio
from eth_account import Account
from transformers import AutoTokenizer

from ledger.anvil import Anvil
from ledger.bindings import sign_binding
from ledger.client import Ledger
from ledger.court import Answer
from ledger.deployment import deploy
from ledger.events import SubmissionRecorded
from ledger.invites import sign_invite
from ledger.types import Outcome, Role, Terms, Verdict
from node.child import log_tail
from node.config import RunConfig, parse_config
from node.handover import hand_over
from node.network import Network
from node.run_ledger import with_ledger
from node.streams import Peer
from node.wallet import create_wallet
from rl.prompts import render_prompt
from rl.rollouts import Rollout, read_rollouts, write_rollouts
from rl.tasks import load_task

ROOT = Path(__file__).resolve().parents[2]
LEASE_S, STEPS, FILES_A_STEP = 10, 12, 3
SETTINGS = (
    f"rl.steps={STEPS}", "rl.groups_per_step=4", "rl.groups_per_submission=2", "rl.group_size=4",
    "rl.learning_rate=1e-3", "rl.warmup_steps=3", "rl.optimizer_steps=2", "rl.kl_coefficient=0.05",
    "task.name=digits", "task.max_new_tokens=4",
    "model.max_model_len=128",
    "network.record_lifetime_s=10",
)  # fmt: skip
TOKEN = 10**18
NAMES = ("first", "second", "relay", "worker", "validator", "latecomer")
ACCOUNTS = {name: Account.from_key(bytes([number]) * 32) for number, name in enumerate(NAMES, 1)}
POLL_S, PATIENCE_S = 0.05, 90.0


@dataclass(slots=True, kw_only=True)
class Node:
    """One `intellect-node --role …` and where it keeps its things."""

    name: str
    argv: list[str]
    home: Path
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with (self.home / "node.log").open("ab") as sink:
            self.process = subprocess.Popen(
                self.argv, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, process_group=0
            )

    def send(self, number: signal.Signals) -> None:
        """To the node's main process only, as the kernel or a person would."""
        self.process.send_signal(number)

    def says(self, words: str) -> bool:
        return words in self.log

    @property
    def log(self) -> str:
        path = self.home / "node.log"
        return path.read_text() if path.exists() else ""

    def end(self) -> None:
        """The process, and with it its children, which leave when their input ends."""
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
            self.process.wait()


class World:
    """The pool, its people, and the files of the accepted submissions by id, in the ledger's order."""

    def __init__(self, chain: Anvil, folder: Path, model: Path, seed: int) -> None:
        self.folder, self.rng, self.seed = folder, random.Random(seed), seed
        owner = chain.account(0)
        deployment = deploy(chain.url, owner, unbonding_s=900)
        purse = Ledger(chain.url, deployment, owner)
        for name, account in ACCOUNTS.items():
            purse.transfer_eth(account.address, TOKEN)
            if name not in ("first", "second"):
                purse.mint(account.address, 100 * TOKEN)
        terms = Terms(min_stake_wei=TOKEN, slash_wei=TOKEN, lease_s=LEASE_S, verdict_s=600, challenge_s=60)
        self.pool_id = purse.create_pool(purse.create_domain("digits"), ACCOUNTS["first"].address, terms)
        purse.start_pool(self.pool_id)
        purse.set_manager(self.pool_id, ACCOUNTS["second"].address, True)
        purse.close()
        self.ledgers = {name: Ledger(chain.url, deployment, account) for name, account in ACCOUNTS.items()}
        self.ledger = self.ledgers["worker"]
        for name in ("relay", "worker", "validator"):
            self.enlist(name, Role[name.upper()], inviter="first")
        named = (*SETTINGS, f"model.path={model}")
        self.config: RunConfig = with_ledger(
            parse_config("", overrides=named), deployment, rpc=chain.url, pool_id=self.pool_id
        )
        self.accepted: dict[int, list[tuple[bytes, tuple[Rollout, ...]]]] = {}
        self._tokenizer, self._task = AutoTokenizer.from_pretrained(model), load_task("digits")
        (folder / "run.toml").write_text(self.config.to_toml())
        (folder / "password").write_text("secret")
        self.nodes = {name: self._node(name) for name in ("relay", "first", "second")}

    def enlist(self, name: str, role: Role, *, inviter: str) -> None:
        """Stake and membership. Raises Reverted where the inviter may not invite."""
        ledger, account = self.ledgers[name], ACCOUNTS[name]
        if not ledger.node(account.address).registered:
            binding = ledger.new_binding(account.address, account.address, 600)
            ledger.register(binding, sign_binding(binding, ledger.deployment, account), TOKEN)
        invite = ledger.new_invite(self.pool_id, account.address, role, 600)
        ledger.join(invite, sign_invite(invite, ledger.deployment, ACCOUNTS[inviter]))

    def _node(self, name: str) -> Node:
        home = self.folder / name
        home.mkdir(mode=0o700)
        create_wallet(home / "wallet.json", "secret", iterations=2, key=bytes(ACCOUNTS[name].key))
        argv = [sys.executable, "-m", "node.cli", "--role", "relay" if name == "relay" else "trainer"]
        argv += ["--wallet", str(home / "wallet.json"), "--password-file", str(self.folder / "password")]
        argv += ["--config", str(self.folder / "run.toml"), "--data-dir", str(home)]
        return Node(name=name, argv=argv, home=home)

    @property
    def version(self) -> int:
        """The newest policy's, -1 before the first."""
        newest = self.ledger.latest_checkpoint(self.pool_id)
        return newest.version if newest else -1

    async def until(self, what: str, holds: Callable[[], bool]) -> None:
        """Wait for `holds()`; whoever should run must run."""
        with trio.move_on_after(PATIENCE_S):
            while not await trio.to_thread.run_sync(holds):
                await trio.sleep(POLL_S)
            return
        raise AssertionError(f"not within {PATIENCE_S:.0f} s: {what} (seed {self.seed})\n{self.logs()}")

    def logs(self) -> str:
        paths = sorted(self.folder.glob("*/*.log"))
        return "\n".join(f"== {path}\n{log_tail(path)}" for path in paths)

    async def feed(self, step: int, peer: Peer, network: Network) -> None:
        """Hand in, record and accept one step's files; more than the step needs."""
        hashes = []
        for counter in range(FILES_A_STEP):
            path = self.folder / f"{step}-{counter}.parquet"
            write_rollouts(path, self._rollouts(step, counter))
            hashes.append(
                await hand_over(
                    self.ledger,
                    peer,
                    network,
                    path,
                    pool_id=self.pool_id,
                    address=ACCOUNTS["worker"].address,
                    timeout_s=10,
                )
            )
        await trio.to_thread.run_sync(self._record, step, hashes)

    def _record(self, step: int, hashes: list[bytes]) -> None:
        ledger, worker = self.ledger, ACCOUNTS["worker"].address
        ledger.submit(self.pool_id, step, 0, hashes)
        ids = [ledger.submission_id(self.pool_id, step, counter, worker) for counter in range(len(hashes))]
        self.rng.shuffle(ids)  # the order of outcomes counts, not that of the submissions
        judge, rows = self.ledgers["validator"], 2 * 4
        for submission_id in ids:
            recorded = ledger.recorded(submission_id)
            assert isinstance(recorded, SubmissionRecorded)
            path = self.folder / f"{step}-{recorded.counter}.parquet"
            self.accepted.setdefault(step, []).append((submission_id, read_rollouts(path, max_rows=rows)))
            verdict = Verdict(outcome=Outcome.ACCEPTED, units=8)
            judge.reveal(Answer(docket_id=submission_id, verdict=verdict, file=ledger.file(recorded)))

    def _rollouts(self, step: int, counter: int) -> tuple[Rollout, ...]:
        """Two questions, four answers each, of which one is right; sometimes a question that teaches nothing."""
        rows = []
        for group, index in enumerate(self.rng.sample(range(10), 2)):  # distinct, as a worker draws them
            problem = self._task.problem(index)
            prompt = render_prompt(self._tokenizer, problem, None)
            flat = counter == 0 and group == 0 and step % 3 == 0
            for sample in range(4):
                said = index if sample == 0 and not flat else (index + self.rng.randint(1, 9)) % 10
                ids = (*self._tokenizer.encode(str(said), add_special_tokens=False), self._tokenizer.eos_token_id)
                rows.append(
                    Rollout(
                        step=step,
                        policy_version=max(0, step - 1),
                        counter=counter,
                        group=group,
                        sample=sample,
                        problem_id=problem.problem_id,
                        prompt_ids=prompt,
                        completion_ids=ids,
                        text=str(said),
                        logprobs=tuple(-self.rng.uniform(1, 3) for _ in ids),
                        finish_reason="eos",
                        reward=float(said == index),
                        proofs=(b"p",),
                    )
                )
        return tuple(rows)


@contextmanager
def world_of(chain: Anvil, folder: Path, model: Path, seed: int) -> Iterator[World]:
    """The world; on leaving, its processes are gone."""
    world = World(chain, folder, model, seed)
    try:
        yield world
    finally:
        for node in world.nodes.values():
            node.end()
        for ledger in world.ledgers.values():
            ledger.close()
